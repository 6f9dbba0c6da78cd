"""Installs the admission policies, keeps them right, and says what holds (rewriting-rules 3.5).

    read    what the host serves, who we are there, the policies that are there
    write   the policies that are missing or changed; never one that somebody else made
    ask     dry runs: whether the server acts on them, and whether PodNodeSelector is on

They go when the settings do not want them, and with the last virtual cluster: else nobody could
delete what it leaves. One key stands for all of it. What was found is the condition
PlacementEnforced of each Cluster.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from karmada_vc_agent.fleet.claims import Claims
from karmada_vc_agent.fleet.hub_clusters import digest
from karmada_vc_agent.fleet.installed_policies import remove_policies
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.errors import ApiError, ForbiddenError, InvalidError, NotFoundError
from karmada_vc_agent.kube.identity import user_name
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, gvk_of, labels_of
from karmada_vc_agent.model.rbac import Rule
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster
from karmada_vc_agent.status.conditions import Condition
from karmada_vc_agent.status.placement_enforced import (
    MUTATING,
    POD_NODE_SELECTOR,
    VALIDATING,
    Enforcement,
    Trouble,
    placement_enforced,
)
from karmada_vc_agent.translation import admission_policies as policies
from karmada_vc_agent.translation.admission_policies import PolicyOwner

_log = logging.getLogger(__name__)

EVERYTHING = "placement"
"""The only key."""
IN_EFFECT_WITHIN_S = 10.0
"""A server acts on a new policy after about a second (1.1 s, 1.34.4); then we go on without."""
ASK_AGAIN_S = 0.25
UNDECIDED_S = 10.0
"""A namespace that was just made may lack its ServiceAccount still, and refuse every pod."""
TROUBLED_S, LOOK_AGAIN_S = 10.0, 300.0
"""Rights and flags of the host change without an event."""
DISCOVERY_MAX_AGE_S = 30.0
PROBED_NAMESPACES = 3

_PLUGIN_REFUSES = "conflicts with its namespace node label selector"
"""How PodNodeSelector refuses a pod; policies are asked only after it."""
_POLICY_REFUSES = "ValidatingAdmissionPolicy '"

NEEDED_RULE = Rule(
    (policies.GROUP,),
    (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    ),
    ("get", "list", "watch", "create", "update", "delete"),
)

_DISABLED = Trouble(
    "InstallationDisabled",
    "installPolicies is false: set it to true, or turn on the admission plugin PodNodeSelector "
    "of the kube-apiserver",
)
_NOT_SERVED = Trouble(
    "PoliciesNotServed",
    "the host serves no ValidatingAdmissionPolicy, which Kubernetes 1.30 and newer does: update "
    "it, or turn on the admission plugin PodNodeSelector of its kube-apiserver",
)
_FORBIDDEN = Trouble(
    "InstallationForbidden",
    f"the agent may not install admission policies: add to its ClusterRole {NEEDED_RULE}",
)
_NAMELESS = Trouble(
    "InstallationForbidden",
    "the agent may not ask the host for its own name, which admission policies must know: add to "
    f"its ClusterRole {Rule(('authentication.k8s.io',), ('selfsubjectreviews',), ('create',))}",
)
_REMOVAL_FORBIDDEN = Trouble(
    "RemovalForbidden",
    "those that an earlier start installed, if any, stay, since the agent may not remove them: "
    f"add to its ClusterRole {NEEDED_RULE}",
)


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Names of the agent, and whether it is to install anything."""

    agent_name: str
    agent_namespace: str
    install: bool


@dataclass(frozen=True, slots=True)
class _Left:
    """A policy as it was left: what was wanted, what the server made of it, and its UID."""

    wanted: str
    spec: str
    uid: str


class PlacementGuard:
    """Sole writer of the agent's admission policies.

    is_needed: whether there is anything to protect, or will be. watch: asked to follow the
    policies of one kind; changes bring `EVERYTHING` up again. on_change: called when the
    condition changed.
    """

    def __init__(
        self,
        host: ApiClient,
        discovery: Discovery,
        claims: Claims,
        virtual_clusters: Mapping[str, VirtualCluster],
        settings: GuardSettings,
        *,
        is_needed: Callable[[], bool],
        watch: Callable[[Resource], object],
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._discovery = discovery
        self._claims = claims
        self._virtual_clusters = virtual_clusters
        self._settings = settings
        self._is_needed = is_needed
        self._watch = watch
        self._on_change = on_change
        self._clock = clock
        self._left: dict[str, _Left] = {}
        self._written_at = float("-inf")
        self._is_plugin_on: bool | None = None
        self._condition: Condition | None = None
        self._settled = asyncio.Event()

    def condition(self) -> Condition | None:
        """Return PlacementEnforced, the same for all Clusters; None while it is not known."""
        return self._condition

    def is_undecided(self) -> bool:
        """Whether a new claim would tell more: PodNodeSelector shows in a claimed namespace."""
        return self._is_plugin_on is None

    async def wait_settled(self, timeout_s: float) -> None:
        """Wait until what can be in effect is; then go on, the condition says what is not."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        except TimeoutError:
            _log.warning(
                "Writing workloads before admission policies are in effect",
                extra={"waited_s": timeout_s},
            )

    async def reconcile(self, _: str) -> Requeue:
        """Install what is missing and find out what holds. Raises KubeError."""
        served = await self._discovery.refresh(DISCOVERY_MAX_AGE_S)
        kinds = _served_kinds(served)
        if not self._is_needed():
            for trouble in await self._uninstall(served):
                _log.warning("Leaving admission policies behind", extra={"reason": trouble.text})
            self._settled.set()
            return Requeue(LOOK_AGAIN_S)
        layers: set[str] = set()
        troubles = await self._arrange(kinds, served)
        if VALIDATING in kinds:
            unheard = await self._ask(self._owner(), kinds, layers)
            is_as_wanted = not (unheard if self._settings.install else layers)
            if not is_as_wanted and self._clock() - self._written_at < IN_EFFECT_WITHIN_S:
                return Requeue(ASK_AGAIN_S)
            troubles = troubles or unheard
        self._is_plugin_on = await self._ask_plugin()
        if self._is_plugin_on:
            layers.add(POD_NODE_SELECTOR)
        self._report(Enforcement(frozenset(layers), tuple(troubles)))
        return Requeue(self._pause_s(troubles))

    async def _arrange(self, kinds: Mapping[str, str], served: ServedApis) -> list[Trouble]:
        """Make the policies be there, or not, as the settings say; return what stood in the way."""
        if VALIDATING not in kinds:
            return [_NOT_SERVED if self._settings.install else _DISABLED]
        if not self._settings.install:
            return [_DISABLED, *await self._uninstall(served)]
        try:
            # As the server tells it to the policies; a credential may be changed at any time.
            user = await user_name(self._host)
        except ForbiddenError:
            return [_NAMELESS]
        return await self._install(self._owner(user), kinds, served)

    def _owner(self, user: str = "") -> PolicyOwner:
        return PolicyOwner(self._settings.agent_name, self._settings.agent_namespace, user)

    def _pause_s(self, troubles: list[Trouble]) -> float:
        if self.is_undecided() and self._some_namespaces():
            return UNDECIDED_S
        return TROUBLED_S if troubles else LOOK_AGAIN_S

    def _report(self, enforcement: Enforcement) -> None:
        condition = placement_enforced(enforcement)
        if condition != self._condition:
            self._condition = condition
            extra = {"enforced": condition["status"], "reason": condition["message"]}
            _log.info("Reporting placement", extra=extra)
            self._on_change()
        self._settled.set()

    # --- policies ---------------------------------------------------------------------------

    async def _install(
        self, owner: PolicyOwner, kinds: Mapping[str, str], served: ServedApis
    ) -> list[Trouble]:
        wanted = policies.validating_policies(owner)
        if MUTATING in kinds:
            wanted += policies.mutating_policies(owner, kinds[MUTATING])
        troubles: dict[Trouble, None] = {}
        for policy in wanted:
            resource = served.by_kind.get(gvk_of(policy))
            if resource is None:
                continue  # a server that has the policy has its binding, but for a moment
            try:
                trouble = await self._ensure(resource, policy)
            except ForbiddenError:
                trouble = _FORBIDDEN
            except InvalidError as error:
                text = f"the host does not take {_said(policy)}: {error}"
                trouble = Trouble("PolicyRejected", text)
            if trouble is None:
                self._watch(resource)
            else:
                troubles[trouble] = None
        return list(troubles)

    async def _uninstall(self, served: ServedApis) -> list[Trouble]:
        """Remove what we installed, now or in an earlier process."""
        try:
            removed = await remove_policies(self._host, served, self._settings.agent_name)
        except ForbiddenError:
            return [_REMOVAL_FORBIDDEN]
        if removed:
            _log.info("Removed admission policies", extra={"policies": ", ".join(removed)})
            self._left.clear()
            self._written_at = self._clock()
        return []

    async def _ensure(self, resource: Resource, wanted: Object) -> Trouble | None:
        """Make one policy be there as wanted; a foreign one of that name is left alone."""
        path = resource.path("", wanted["metadata"]["name"])
        try:
            live = await self._host.get(path)
        except NotFoundError:
            _log.info("Installing admission policy", extra={"policy": _said(wanted)})
            self._note(path, wanted, await self._host.create(resource.path(), wanted))
            return None
        left = self._left.get(path)
        if not self._is_ours(live, left):
            text = (
                f"{_said(wanted)} was not made by agent {self._settings.agent_name}: remove it, "
                "and the agent makes its own"
            )
            return Trouble("ForeignPolicy", text)
        if left != _left(wanted, live) or not self._has_mark(live):
            metadata = {
                **live["metadata"],
                "labels": {**labels_of(live), **wanted["metadata"]["labels"]},
            }
            answer = await self._host.replace(path, {**wanted, "metadata": metadata})
            if answer["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
                _log.info("Restored admission policy", extra={"policy": _said(wanted)})
                self._note(path, wanted, answer)
            self._left[path] = _left(wanted, answer)
        return None

    def _is_ours(self, live: Object, left: _Left | None) -> bool:
        """Whether we made it: by its mark, or, where that is gone, by what we remember."""
        return self._has_mark(live) or (left is not None and left.uid == live["metadata"]["uid"])

    def _has_mark(self, live: Object) -> bool:
        return labels_of(live).get(AGENT_LABEL) == self._settings.agent_name

    def _note(self, path: str, wanted: Object, answer: Object) -> None:
        self._left[path] = _left(wanted, answer)
        self._written_at = self._clock()

    # --- what holds -------------------------------------------------------------------------

    async def _ask(
        self, owner: PolicyOwner, kinds: Mapping[str, str], layers: set[str]
    ) -> list[Trouble]:
        """Add the policies that are in effect to `layers`; return what is said of the others."""
        unheard = []
        name = owner.placement_policy
        answer = await self._dry_run(policies.probe_pod(owner, name))
        if isinstance(answer, str) and name in answer.partition(_POLICY_REFUSES)[2]:
            layers.add(VALIDATING)
        else:
            unheard.append(_not_in_effect(VALIDATING, name, answer))
        refusal = await self._dry_run_claim(owner)
        if owner.claims_policy not in (refusal or "").partition(_POLICY_REFUSES)[2]:
            unheard.append(_not_in_effect(VALIDATING, owner.claims_policy, refusal))
        if MUTATING in kinds:
            name = owner.selector_policy
            answer = await self._dry_run(policies.probe_pod(owner, name))
            if policies.UNPLACED_LABEL in (dig(answer, "spec", "nodeSelector") or {}):
                layers.add(MUTATING)
            else:
                unheard.append(_not_in_effect(MUTATING, name, answer))
        return unheard

    async def _ask_plugin(self) -> bool | None:
        """Tell whether PodNodeSelector is on; None where no claimed namespace shows it.

        A pod that selects other nodes than its namespace says is refused by the plugin, or it
        gets past it: then a policy refuses it, or nobody does. A limit of the namespace, or its
        missing account, may come before the plugin: that tells nothing.
        """
        for vc, namespace in self._some_namespaces():
            key, value = next(iter(vc.required_selector.items()))
            other = {key: "no" if value != "no" else "yes"}
            answer = await self._dry_run(policies.bare_pod("probe", namespace, other))
            if isinstance(answer, dict) or _POLICY_REFUSES in answer:
                return False
            if _PLUGIN_REFUSES in answer:
                return True
        return self._is_plugin_on

    def _some_namespaces(self) -> list[tuple[VirtualCluster, HostNamespace]]:
        found = [
            (vc, namespace)
            for vc in self._virtual_clusters.values()
            for namespace in self._claims.of(vc.name).values()
        ]
        return found[:PROBED_NAMESPACES]

    async def _dry_run_claim(self, owner: PolicyOwner) -> str | None:
        """Return how the server refuses a claim on our own namespace, None where it does not."""
        path = f"/api/v1/namespaces/{owner.namespace}"
        try:
            await self._host.merge_patch(path, policies.probe_claim(owner), query={"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return None

    async def _dry_run(self, pod: Object) -> Object | str:
        """Return the pod as the server would take it, or how it refuses it."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        try:
            return await self._host.create(path, pod, query={"dryRun": "All"})
        except ApiError as error:
            return str(error)


def _served_kinds(served: ServedApis) -> dict[str, str]:
    """Return the version to use of each kind of policy that the host serves."""
    found = {}
    for kind, versions in policies.VERSIONS.items():
        for version in versions:
            if GroupVersionKind(policies.GROUP, version, kind) in served.by_kind:
                found[kind] = version
                break
    return found


def _left(wanted: Object, live: Object) -> _Left:
    return _Left(digest(wanted), digest(live.get("spec")), live["metadata"]["uid"])


def _said(policy: Object) -> str:
    return f"{policy['kind']} {policy['metadata']['name']}"


def _not_in_effect(kind: str, name: str, answer: Object | str | None) -> Trouble:
    said = f"refused for another reason: {answer}" if isinstance(answer, str) else "let through"
    text = (
        f"{kind} {name} is not in effect (a probe was {said}): see that the kube-apiserver does "
        "not disable the admission plugin of that name"
    )
    return Trouble("PoliciesNotInEffect", text)
