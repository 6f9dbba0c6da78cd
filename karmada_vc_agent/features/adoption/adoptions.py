"""Adopts workloads that run without restarting their pods, where that is possible (ADR 35)."""

from collections.abc import Callable
from functools import partial

import msgspec

from karmada_vc_agent.features.adoption import adopted_pods
from karmada_vc_agent.kube.answers import check_version
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import StructCodec
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import InvalidError, UnreadableError
from karmada_vc_agent.model.core import LabelledPod
from karmada_vc_agent.model.domain import CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.model.objects import Object, key_of, labels_of
from karmada_vc_agent.work.noted_objects import NotedObjects

_DRY_RUN = {"dryRun": "All"}
PODS_OF_PAGE, PAGES_AT_MOST = 20, 200
"""A tenant may have thousands of pods of a megabyte: never are all in memory."""


class Adoptions:
    """Decides which adopted workloads keep the placement of their pods, and notes them in `kept`.

    owns_node: whether a node is one of a virtual cluster's: (virtual cluster, node).
    """

    def __init__(
        self, host: ApiClient, kept: NotedObjects, owns_node: Callable[[str, str], bool]
    ) -> None:
        self._host = host
        self._kept = kept
        self._owns_node = owns_node
        self._codec = StructCodec(LabelledPod)

    async def settle(
        self, resource: Resource, desired: Object, live: Object, as_user: str
    ) -> tuple[Object, bool]:
        """Return what to write, and whether it keeps the live placement. Raises KubeError.

        desired: merged, retained, and with placement asserted.
        """
        cluster, key = labels_of(desired).get(CLUSTER_LABEL, ""), key_of(desired)
        kept = None
        if adopted_pods.may_keep(live):
            kept = await self._keep(resource, desired, live, as_user)
        if kept is None:
            self._kept.settled(cluster, key)
            return adopted_pods.without_mark(desired), False
        virtual = labels_of(desired).get(NAMESPACE_LABEL, "")
        self._kept.note(cluster, key, f"{key.gvk.kind} {virtual}/{key.name}")
        return kept, True

    def gone(self, desired: Object) -> None:
        """Take note of an object that is removed or released."""
        self._kept.settled(labels_of(desired).get(CLUSTER_LABEL, ""), key_of(desired))

    async def _keep(
        self, resource: Resource, desired: Object, live: Object, as_user: str
    ) -> Object | None:
        kept = adopted_pods.with_placement_of(live, desired)
        if kept is None:
            return None
        key, cluster = key_of(desired), labels_of(desired).get(CLUSTER_LABEL, "")
        listed = await self._pods_in(key.namespace)
        if listed is None:
            return None
        pods = adopted_pods.pods_of(live, listed)
        owns = partial(self._owns_node, cluster)
        if not adopted_pods.run_in_place(live, desired, pods, owns):
            return None
        # Only the host knows whether a manifest says the same as what it has, defaults included.
        path = resource.path(key.namespace, key.name)
        try:
            answer = await self._host.replace(path, kept, as_user, _DRY_RUN)
        except InvalidError:
            return None
        if not adopted_pods.same_pods(answer, live):
            return None
        return live if adopted_pods.says_the_same(answer, live) else kept

    async def _pods_in(self, namespace: str) -> list[Object] | None:
        """Return what counts of the pods of a namespace, None where there are too many."""
        query, pods = {"limit": str(PODS_OF_PAGE)}, list[Object]()
        for _ in range(PAGES_AT_MOST):
            content = await self._host.read_page(f"/api/v1/namespaces/{namespace}/pods", query)
            try:
                page = self._codec.page(content)
            except ValueError as error:
                raise UnreadableError(f"cannot read the pods of {namespace}: {error}") from error
            check_version(page.resource_version)
            pods += (msgspec.to_builtins(pod) for pod in page.items)
            if not page.continue_token:
                return pods
            query["continue"] = page.continue_token
        return None
