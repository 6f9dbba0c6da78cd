"""Reads the admission policies, and says what holds of them (rewriting-rules 3.5).

    read    what the host serves, who we are there, the policies that `join` left there
    ask     dry runs: whether the server acts on them, and whether PodNodeSelector is on

The policies are the administrator's: what confines the agent is not for the agent to write. One
key stands for all of it. What was found are the conditions PlacementEnforced and RightsConfined
of each Cluster, a line in the log and an event.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.errors import ApiError, ForbiddenError, NotFoundError
from karmada_vc_agent.kube.identity import user_name
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import Object, dig, labels_of
from karmada_vc_agent.model.rbac_rule import Rule
from karmada_vc_agent.model.tenancy import SHARED
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster
from karmada_vc_agent.status.conditions import Condition
from karmada_vc_agent.status.placement_enforced import (
    POD_NODE_SELECTOR,
    Enforcement,
    PolicyProblem,
    placement_enforced,
)
from karmada_vc_agent.status.rights_confined import rights_confined
from karmada_vc_agent.translation import admission_policies as policies
from karmada_vc_agent.translation.admission_confines import PROBED_NAMESPACE, probe_foreign
from karmada_vc_agent.translation.admission_guards import is_about_placement
from karmada_vc_agent.translation.admission_objects import (
    GROUP,
    MUTATING,
    VALIDATING,
    PolicyOwner,
    is_as_wanted,
    owner_of,
)
from karmada_vc_agent.views.claims import Claims, claim_of
from karmada_vc_agent.views.installed_policies import (
    resource_of,
    served_versions,
    unknown_to,
    wanted_policies,
)

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
    (GROUP,),
    (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    ),
    ("get", "list", "watch"),
)
_JOIN = "run karmada-vc-agent join again"

_DISABLED = PolicyProblem(
    "InstallationDisabled",
    f"installPolicies is false, so karmada-vc-agent join installs none: set it to true and {_JOIN}",
)
_NOT_SERVED = PolicyProblem(
    "PoliciesNotServed",
    "the host serves no ValidatingAdmissionPolicy, which Kubernetes 1.30 and newer does: update "
    "it, or turn on the admission plugin PodNodeSelector of its kube-apiserver",
)
_FORBIDDEN = PolicyProblem(
    "ReadingForbidden",
    f"the agent may not read admission policies: {_JOIN}, or add to its ClusterRole {NEEDED_RULE}",
)


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Names of the agent, whether join is to install anything, and the profile."""

    agent_name: str
    agent_namespace: str
    install: bool
    tenancy: str = SHARED


@dataclass(slots=True)
class _Finding:
    """What one look found. layers: those in effect. by_policy: what is wrong, and with which."""

    layers: set[str] = field(default_factory=set)
    everywhere: list[PolicyProblem] = field(default_factory=list)
    by_policy: list[tuple[str, PolicyProblem]] = field(default_factory=list)
    is_confined: bool = False

    def problems(self, *, about_placement: bool) -> tuple[PolicyProblem, ...]:
        """Return what concerns pods and claims, or all the rest, each text once."""
        found = [
            trouble
            for name, trouble in self.by_policy
            if is_about_placement(name) is about_placement
        ]
        return tuple(dict.fromkeys((*self.everywhere, *found)))


class PlacementGuard:
    """Reads the agent's admission policies, which are the administrator's, and says what holds.

    is_needed: whether there is anything to protect, or will be. watch: asked to follow the
    policies of one kind; changes bring `EVERYTHING` up again. on_change: called when a
    condition changed. on_problem: told once of each thing that is wrong.
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
        on_problem: Callable[[PolicyProblem], None] = lambda _: None,
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
        self._on_trouble = on_problem
        self._clock = clock
        self._seen: frozenset[str] | None = None
        self._changed_at = float("-inf")
        self._told: frozenset[PolicyProblem] = frozenset()
        self._is_plugin_on: bool | None = None
        self._placement: Condition | None = None
        self._confinement: Condition | None = None
        self._settled = asyncio.Event()

    def condition(self) -> Condition | None:
        """Return PlacementEnforced, the same for all Clusters; None while it is not known."""
        return self._placement

    def confinement(self, _vc: VirtualCluster, _live: Object) -> list[Condition]:
        """Return RightsConfined, the same for all Clusters; nothing while it is not known."""
        return [self._confinement] if self._confinement is not None else []

    def keys_of_namespace(self, old: Object | None, new: Object | None) -> Iterator[str]:
        """Yield the one key where a claim that came tells more, or the last one is gone.

        PodNodeSelector shows in a claimed namespace only; without one, no policies may be left.
        """
        before, after = (claim_of(obj) if obj is not None else None for obj in (old, new))
        is_last = before is not None and self._claims.is_empty()
        is_telling = before != after and new is not None and self.is_undecided()
        if is_last or is_telling:
            yield EVERYTHING

    def is_undecided(self) -> bool:
        """Whether it is not known yet if the API server has the plugin PodNodeSelector."""
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
        """Read the policies and find out what holds. Raises KubeError."""
        served = await self._discovery.refresh(DISCOVERY_MAX_AGE_S)
        versions = served_versions(served)
        if not self._is_needed():
            self._settled.set()
            return Requeue(LOOK_AGAIN_S)
        found = _Finding()
        if VALIDATING not in versions:
            found.everywhere.append(_NOT_SERVED)
        else:
            is_complete = await self._compare(served, versions, found)
            unconfirmed = await self._ask(versions, found)
            is_recent = self._clock() - self._changed_at < IN_EFFECT_WITHIN_S
            if is_recent and (unconfirmed if is_complete else found.layers):
                return Requeue(ASK_AGAIN_S)
            if is_complete:
                found.by_policy += unconfirmed
        self._is_plugin_on = await self._ask_plugin()
        if self._is_plugin_on:
            found.layers.add(POD_NODE_SELECTOR)
        self._report(found)
        return Requeue(self._pause_s(found))

    def _owner(self) -> PolicyOwner:
        return PolicyOwner(self._settings.agent_name, self._settings.agent_namespace, "")

    def _pause_s(self, found: _Finding) -> float:
        if self.is_undecided() and self._some_namespaces():
            return UNDECIDED_S
        return TROUBLED_S if found.everywhere or found.by_policy else LOOK_AGAIN_S

    def _report(self, found: _Finding) -> None:
        about_placement = found.problems(about_placement=True)
        about_rights = found.problems(about_placement=False)
        placement = placement_enforced(Enforcement(frozenset(found.layers), about_placement))
        confinement = rights_confined(about_rights, is_confined=found.is_confined)
        if (placement, confinement) != (self._placement, self._confinement):
            self._placement, self._confinement = placement, confinement
            extra = {"enforced": placement["status"], "reason": placement["message"]}
            _log.info("Reporting placement", extra=extra)
            self._on_change()
        problems = frozenset((*about_placement, *about_rights))
        new = [each for each in (*about_placement, *about_rights) if each not in self._told]
        for trouble in new:
            self._on_trouble(trouble)
        for reason in sorted({each.reason for each in new}):
            first, *others = (each.text for each in new if each.reason == reason)
            extra = {"reason": reason, "detail": first}
            if others:
                extra["others"] = str(len(others))
            _log.warning("Finding an admission policy wrong", extra=extra)
        self._told = problems
        self._settled.set()

    # --- policies ---------------------------------------------------------------------------

    async def _compare(
        self, served: ServedApis, versions: Mapping[str, str], found: _Finding
    ) -> bool:
        """Compare the policies with those that join makes; return whether there are any."""
        try:
            live = await self._read(served, versions)
        except ForbiddenError:
            found.everywhere.append(_FORBIDDEN)
            return False
        seen = frozenset(
            f"{path} {obj['metadata']['resourceVersion']}" for path, obj in live.items()
        )
        if seen != self._seen:
            self._seen, self._changed_at = seen, self._clock()
        confines = resource_of(served, wanted_policies(self._owner(), versions)[0]).path(
            name=self._owner().confines_policy
        )
        owner = owner_of(live.get(confines) or {})
        if not live and not self._settings.install:
            found.everywhere.append(_DISABLED)
            return False
        wanted = wanted_policies(owner or self._owner(), versions)
        for policy in wanted:
            name = policy["metadata"]["name"]
            there = live.get(resource_of(served, policy).path(name=name))
            trouble = _difference(policy, there)
            if trouble is not None:
                found.by_policy.append((name, trouble))
        if owner is not None:
            found.by_policy += await self._outdated(owner)
        return bool(live)

    async def _read(self, served: ServedApis, versions: Mapping[str, str]) -> dict[str, Object]:
        """Return the policies of the names that ours have, by path, and follow them."""
        live = {}
        for policy in wanted_policies(self._owner(), versions):
            resource = resource_of(served, policy)
            path = resource.path(name=policy["metadata"]["name"])
            try:
                live[path] = await self._host.get(path)
            except NotFoundError:
                continue
            finally:
                self._watch(resource)
        return live

    async def _outdated(self, owner: PolicyOwner) -> list[tuple[str, PolicyProblem]]:
        """Say what the policies do not know yet of who we are and what we serve."""
        user = await user_name(self._host)
        lacking = unknown_to(owner, user, self._virtual_clusters, self._settings.tenancy)
        return [
            (
                owner.confines_policy,
                PolicyProblem("PoliciesOutdated", f"the policies {what}: {_JOIN}"),
            )
            for what in lacking
        ]

    # --- what holds -------------------------------------------------------------------------

    async def _ask(
        self, versions: Mapping[str, str], found: _Finding
    ) -> list[tuple[str, PolicyProblem]]:
        """Note the policies that are in effect; return what is said of the others."""
        owner = self._owner()
        unconfirmed = []
        name = owner.placement_policy
        answer = await self._dry_run(policies.probe_pod(owner, name))
        if isinstance(answer, str) and _is_refused_by(name, answer):
            found.layers.add(VALIDATING)
        else:
            unconfirmed.append(_not_in_effect(VALIDATING, name, answer))
        own, foreign = owner.namespace, PROBED_NAMESPACE
        for name, namespace, patch in (
            (owner.claims_policy, own, policies.probe_claim(owner)),
            (owner.confines_policy, foreign, probe_foreign()),
        ):
            refusal = await self._dry_run_patch(namespace, patch)
            if not _is_refused_by(name, refusal or ""):
                unconfirmed.append(_not_in_effect(VALIDATING, name, refusal))
            elif name == owner.confines_policy:
                found.is_confined = True
        if MUTATING in versions:
            name = owner.selector_policy
            answer = await self._dry_run(policies.probe_pod(owner, name))
            if policies.UNPLACED_LABEL in (dig(answer, "spec", "nodeSelector") or {}):
                found.layers.add(MUTATING)
            else:
                unconfirmed.append(_not_in_effect(MUTATING, name, answer))
        return unconfirmed

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

    async def _dry_run_patch(self, namespace: str, patch: Object) -> str | None:
        """Return how the server refuses to change a Namespace, None where it does not."""
        path = f"/api/v1/namespaces/{namespace}"
        try:
            await self._host.merge_patch(path, patch, query={"dryRun": "All"})
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


def _difference(wanted: Object, live: Object | None) -> PolicyProblem | None:
    """Say what is wrong with one policy or binding, None where it is as join makes it."""
    said = f"{wanted['kind']} {wanted['metadata']['name']}"
    if live is None:
        return PolicyProblem("PolicyMissing", f"{said} is not there: {_JOIN}")
    if labels_of(live).get(AGENT_LABEL) != labels_of(wanted)[AGENT_LABEL]:
        return PolicyProblem(
            "ForeignPolicy", f"{said} was not made by join: remove it, and {_JOIN}"
        )
    if not is_as_wanted(wanted, live):
        return PolicyProblem("PolicyChanged", f"{said} was changed and may be weaker: {_JOIN}")
    return None


def _is_refused_by(policy: str, answer: str) -> bool:
    return policy in answer.partition(_POLICY_REFUSES)[2]


def _not_in_effect(kind: str, name: str, answer: Object | str | None) -> tuple[str, PolicyProblem]:
    said = f"refused for another reason: {answer}" if isinstance(answer, str) else "let through"
    text = (
        f"{kind} {name} is not in effect (a probe was {said}): see that the kube-apiserver has "
        f"admission plugin {kind} on"
    )
    return name, PolicyProblem("PoliciesNotInEffect", text)
