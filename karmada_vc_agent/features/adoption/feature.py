"""Adopts workloads that run, without restarting their pods (ADR 35)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.controller import itself
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import InvalidError, UnreadableError
from karmada_vc_agent.kube.transport import check_version
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.core import LabelledPod
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    copy_object,
    dig,
    drop,
    gvk_of,
    key_of,
    labels_of,
    metadata_map,
)
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import LabelSelector
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import ConditionSpec, Feature
from karmada_vc_agent.translation.kind_policy import pod_specs
from karmada_vc_agent.work.manifests import ReportedObjects

_PLACEMENT = ("nodeSelector", "affinity", "tolerations")
_FINISHED = ("Succeeded", "Failed")

PODS_TO_REPLACE = frozenset(
    (
        vocabulary.POD,
        vocabulary.DEPLOYMENT,
        vocabulary.STATEFUL_SET,
        vocabulary.DAEMON_SET,
        vocabulary.JOB,
    )
)
"""Kinds whose pods are replaced, or that the host refuses, when their pod spec changes. The pods of
others, such as a CronJob, stay whatever changes."""


def may_keep(live: Object) -> bool:
    """Return whether an object is being adopted, or was, and was not placed since."""
    is_ours = vocabulary.CLUSTER_LABEL in labels_of(live)
    is_kept = vocabulary.KEPT_PLACEMENT_ANNOTATION in annotations_of(live)
    return gvk_of(live).group_kind in PODS_TO_REPLACE and (is_kept or not is_ours)


def with_placement_of(live: Object, desired: Object) -> Object | None:
    """Return the desired object with the live placement, marked so; None if they are the same."""
    gvk = gvk_of(desired)
    kept: Object = copy_object(desired)
    differs = False
    for ours, theirs in zip(pod_specs(kept, gvk), pod_specs(live, gvk), strict=False):
        for field in _PLACEMENT:
            differs |= (ours.spec.get(field) or None) != (theirs.spec.get(field) or None)
            ours.spec.pop(field, None)
            if theirs.spec.get(field):
                ours.spec[field] = copy_object(theirs.spec[field])
    if not differs:
        return None
    metadata_map(kept, "annotations")[vocabulary.KEPT_PLACEMENT_ANNOTATION] = "true"
    return kept


def without_mark(desired: Object) -> Object:
    """Return an object that is placed as desired, without the mark of one that is not."""
    return drop(desired, "metadata", "annotations", vocabulary.KEPT_PLACEMENT_ANNOTATION)


def pods_of(live: Object, pods: Iterable[Object]) -> list[Object]:
    """Return the pods of a workload among those of its namespace that are to stay and run."""
    if gvk_of(live).group_kind == vocabulary.POD:
        own = [live]
    else:
        try:
            selector = msgspec.convert(dig(live, "spec", "selector"), LabelSelector)
        except msgspec.ValidationError:
            selector = LabelSelector()
        own = [pod for pod in pods if selector and selector.matches(labels_of(pod))]
    return [
        pod
        for pod in own
        if not dig(pod, "metadata", "deletionTimestamp")
        and dig(pod, "status", "phase") not in _FINISHED
    ]


def run_in_place(
    live: Object, desired: Object, pods: list[Object], owns_node: Callable[[str], bool]
) -> bool:
    """Return whether all pods that a workload is to have run, on nodes of the virtual cluster.

    Else it creates pods in any case, which must select these nodes.
    """
    kind, required = gvk_of(live).group_kind, 0
    if kind == vocabulary.DAEMON_SET:
        required = int(dig(live, "status", "desiredNumberScheduled") or 0)
    elif kind in (vocabulary.DEPLOYMENT, vocabulary.STATEFUL_SET):
        replicas = dig(desired, "spec", "replicas")
        required = replicas if isinstance(replicas, int) else 1
    nodes = [dig(pod, "spec", "nodeName") or "" for pod in pods]
    return len(nodes) >= required and all(map(owns_node, nodes))


_DRY_RUN = {"dryRun": "All"}
_CODEC = Codec(LabelledPod)
PODS_OF_PAGE, PAGES_AT_MOST = 20, 200
"""A tenant may have thousands of pods of a megabyte: never are all in memory."""


@dataclass(eq=False)
class Adoptions:
    """Decides which adopted workloads keep the placement of their pods, and notes them in `kept`.

    owns_node: whether a node is one of a virtual cluster's: (virtual cluster, node).
    """

    host: ApiClient
    kept: ReportedObjects
    owns_node: Callable[[str, str], bool]

    async def settle(
        self, resource: Resource, desired: Object, live: Object, as_user: str
    ) -> tuple[Object, bool]:
        """Return what to write, and whether it keeps the live placement. Raises KubeError.

        desired: merged, retained, and with placement asserted.
        """
        cluster, key = labels_of(desired).get(vocabulary.CLUSTER_LABEL, ""), key_of(desired)
        kept = await self._keep(resource, desired, live, as_user) if may_keep(live) else None
        if kept is None:
            self.kept.settled(cluster, key)
            return without_mark(desired), False
        virtual = labels_of(desired).get(vocabulary.NAMESPACE_LABEL, "")
        self.kept.note(cluster, key, f"{key.gvk.kind} {virtual}/{key.name}")
        return kept, True

    def gone(self, desired: Object) -> None:
        """Take note of an object that is removed or released."""
        self.kept.settled(labels_of(desired).get(vocabulary.CLUSTER_LABEL, ""), key_of(desired))

    async def _keep(
        self, resource: Resource, desired: Object, live: Object, as_user: str
    ) -> Object | None:
        kept, key = with_placement_of(live, desired), key_of(desired)
        listed = await self._pods_in(key.namespace) if kept is not None else None
        if kept is None or listed is None:
            return None
        owns = partial(self.owns_node, labels_of(desired).get(vocabulary.CLUSTER_LABEL, ""))
        if not run_in_place(live, desired, pods_of(live, listed), owns):
            return None
        # Only the host knows whether a manifest says the same as what it has, defaults included.
        path = resource.path(key.namespace, key.name)
        try:
            answer = await self.host.replace(path, kept, as_user, _DRY_RUN)
        except InvalidError:
            return None
        pods = ("spec",) if key.gvk.group_kind == vocabulary.POD else ("spec", "template")
        if dig(answer, *pods) != dig(live, *pods):
            return None
        says_the_same = (
            answer.get("spec") == live.get("spec")
            and labels_of(answer) == labels_of(live)
            and annotations_of(answer) == annotations_of(live)
        )
        return live if says_the_same else kept

    async def _pods_in(self, namespace: str) -> list[Object] | None:
        query, pods = {"limit": str(PODS_OF_PAGE)}, list[Object]()
        for _ in range(PAGES_AT_MOST):
            content = await self.host.read_page(f"/api/v1/namespaces/{namespace}/pods", query)
            try:
                page = _CODEC.page(content)
            except ValueError as error:
                raise UnreadableError(f"cannot read the pods of {namespace}: {error}") from error
            check_version(page.resource_version)
            pods += (msgspec.to_builtins(pod) for pod in page.items)
            if not page.continue_token:
                return pods
            query["continue"] = page.continue_token
        return None


ADOPTION_COMPLETE = ConditionType(
    "AdoptionComplete",
    "Nothing else owns the objects that the virtual cluster took over ([adopting](adopting.md)).",
    idle="SoleOwner",
    on_object=Shown.UNLESS_IDLE,
)


def adoption_complete(owned: Sequence[str]) -> Condition:
    """Return the condition; owned: adopted objects that something else owns, with what."""
    if not owned:
        return ADOPTION_COMPLETE.true("SoleOwner", "nothing else owns what it took over")
    text = (
        f"owned by others, which may change them and delete them with themselves: {listed(owned)}"
        "; delete the owner with --cascade=orphan"
    )
    return ADOPTION_COMPLETE.false("OwnedElsewhere", text)


CONDITIONS = (
    ConditionSpec(
        ADOPTION_COMPLETE,
        lambda parts, vc: adoption_complete(parts.works.owned.of(vc.name)),
        lambda parts: ((parts.works.owned.changed.subscribe, itself),),
    ),
)


def _prepare(common: Common) -> None:
    def owns_node(cluster: str, node: str) -> bool:
        return common.stores.membership.owner_of(node) == cluster

    common.hooks.placement_keeper = lambda kept: Adoptions(common.clients.host, kept, owns_node)


FEATURE = Feature("adoption", prepare=_prepare, conditions=CONDITIONS)
