"""Checks admission policies and whether they are enforced (rewriting-rules 3.5).

The agent reads what `join` installed, for it must not write the policies that confine itself, and
probes what the server enforces by dry runs. The results are the conditions PlacementEnforced and
RightsConfined of each Cluster, a line in the log and an event.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from karmada_vc_agent.access import admission
from karmada_vc_agent.access.admission import CONFINES, GROUP, MUTATING, PLACEMENT, VALIDATING
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.cluster.virtual_clusters import claim_of
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import (
    ControllerSpec,
    Enqueues,
    Requeue,
    RetryError,
    Signal,
    itself,
)
from karmada_vc_agent.kube.discovery import (
    Resource,
    ServedApis,
    items_unless_absent,
    own_user_name,
)
from karmada_vc_agent.kube.errors import ForbiddenError, InvalidError, NotFoundError
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, labels_of
from karmada_vc_agent.model.user_text import JOIN_OF_THIS_VERSION, listed
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, Rule
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts
from karmada_vc_agent.work.reporting import WARNING

PLACEMENT_ENFORCED = ConditionType(
    "PlacementEnforced",
    "Admission keeps pods that the agent did not translate on the nodes of the group "
    "([rewriting-rules 3.5](rewriting-rules.md#3.5)).",
    on_object=Shown.ALWAYS,
)
RIGHTS_CONFINED = ConditionType(
    "RightsConfined",
    "Admission policies restrict what RBAC cannot ([isolation](isolation.md)).",
    on_object=Shown.UNLESS_IDLE,
    for_all=True,
)

POD_NODE_SELECTOR = "PodNodeSelector"
LAYERS = (POD_NODE_SELECTOR, MUTATING, VALIDATING)
"""In the order of admission in an API server (rewriting-rules 3.5)."""

_HOLDS_ALONE = frozenset((POD_NODE_SELECTOR, VALIDATING))
"""MutatingAdmissionPolicy adds a missing selector, but does not reject one for other nodes."""


class PolicyProblem(NamedTuple):
    """Why a layer is not in effect. reason: in CamelCase. policy: its name, "" = all of them."""

    reason: str
    text: str
    policy: str = ""


def placement_enforced(
    layers: Collection[str], problems: Sequence[PolicyProblem] = ()
) -> Condition:
    """Return the condition: True if a layer rejects pods for other nodes. problems: of the rest."""
    held = ", ".join(layer for layer in LAYERS if layer in layers)
    texts = [problem.text for problem in problems]
    if not _HOLDS_ALONE.isdisjoint(layers):
        return PLACEMENT_ENFORCED.true("PodsKept", "; ".join([f"enforced by {held}", *texts]))
    begin = "pods created by operators or tenants may run on any node"
    reason = problems[0].reason if problems else "NothingHolds"
    return PLACEMENT_ENFORCED.false(reason, "; ".join([begin, *texts]))


def with_kept(enforced: Condition | None, kept: Sequence[str]) -> Condition | None:
    """Return PlacementEnforced of one virtual cluster; None before the first check.

    enforced: what holds for all. kept: its adopted workloads whose pods select no nodes yet.
    """
    if not kept:
        return enforced
    text = (
        f"adopted workloads keep running pods that may lack the node selector: {listed(kept)}; the "
        "agent adds it with the next change of the pod template, or when a pod is missing"
    )
    if enforced is None:
        return PLACEMENT_ENFORCED.false("AdoptedNotPlaced", text)
    reason = enforced["reason"] if enforced["status"] == "False" else "AdoptedNotPlaced"
    return PLACEMENT_ENFORCED.false(reason, f"{text}; {enforced['message']}")


def rights_confined(problems: Sequence[PolicyProblem], *, is_confined: bool) -> Condition:
    """Return the condition: True if all policies about rights are installed as expected.

    is_confined: whether a dry run of the agent outside its claims was denied.
    """
    if is_confined and not problems:
        text = "admission policies restrict the agent and tenants with rights of their own"
        return RIGHTS_CONFINED.true("PoliciesInPlace", text)
    begin = (
        "admission policies are missing, changed or not in effect"
        if is_confined
        else "only roles restrict the agent's account, and they allow writes to every namespace"
    )
    reason = problems[0].reason if problems else "NothingHolds"
    return RIGHTS_CONFINED.false(reason, "; ".join([begin, *(each.text for each in problems)]))


_log = logging.getLogger(__name__)

IN_EFFECT_WITHIN_S = 10.0
"""A server acts on a new policy after about a second (1.1 s, 1.34.4); then we go on without."""


class PlacementState:
    """The conditions PlacementEnforced and RightsConfined, the same for all Clusters.

    placement, confinement: None before the first check. changed: one of them differs now.
    """

    def __init__(self) -> None:
        self.placement: Condition | None = None
        self.confinement: Condition | None = None
        self._settled = asyncio.Event()
        self.changed: Signal[[]] = Signal()

    def report(self, placement: Condition, confinement: Condition) -> None:
        """Store the conditions of a check."""
        if (placement, confinement) != (self.placement, self.confinement):
            self.placement, self.confinement = placement, confinement
            extra = {"enforced": placement["status"], "reason": placement["message"]}
            _log.info("Reporting placement", extra=extra)
            self.changed.emit()

    def settle(self) -> None:
        """Release the callers of `wait_settled`."""
        self._settled.set()

    async def wait_settled(self, timeout_s: float = IN_EFFECT_WITHIN_S) -> None:
        """Wait until what can be in effect is, at most for timeout_s."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        except TimeoutError:
            text = "Writing workloads before admission policies are in effect"
            _log.warning(text, extra={"waited_s": timeout_s})


NETWORK_ISOLATION = ConditionType(
    "NetworkIsolation",
    "The network of the host isolates the virtual cluster; at most Unknown, since the agent cannot "
    "determine whether NetworkPolicies are enforced.",
    normal="Unknown",
    idle="NotIsolated",
)


def network_isolation(vc: VirtualCluster) -> Condition:
    """Return the condition: at most Unknown (rewriting-rules 6)."""
    if vc.network_policy != "isolate":
        return NETWORK_ISOLATION.false("NotIsolated", "network isolation is not configured")
    text = (
        "every namespace has NetworkPolicy vc-isolation; the agent cannot determine whether the "
        "network of the host enforces it, and it does not apply to pods with hostNetwork"
    )
    return NETWORK_ISOLATION.unknown("PolicyInPlace", text)


def _state(parts: Parts) -> PlacementState:
    return parts.common.part(PlacementState)


CONDITIONS = (
    ConditionSpec(
        PLACEMENT_ENFORCED,
        lambda parts, vc: with_kept(_state(parts).placement, parts.works.kept.of(vc.name)),
        lambda parts: (
            (_state(parts).changed.subscribe, parts.names),
            (parts.works.kept.changed.subscribe, itself),
        ),
    ),
    ConditionSpec(RIGHTS_CONFINED, lambda parts, _: _state(parts).confinement),
    ConditionSpec(NETWORK_ISOLATION, lambda _, vc: network_isolation(vc)),
)


PROBED_NAMESPACES = 3

_DRY_RUN = {"dryRun": "All"}
_PLUGIN_REFUSES = "conflicts with its namespace node label selector"
"""How PodNodeSelector rejects a pod; policies are evaluated only after it."""
_POLICY_REFUSES = "ValidatingAdmissionPolicy '"


async def probe_policies(
    host: ApiClient, owner: admission.PolicyOwner, versions: Mapping[str, str]
) -> tuple[set[str], list[PolicyProblem]]:
    """Return the policies in effect, by dry runs, and the problems of those that are not.

    A denial is an answer; any other failure is raised. versions: the version of each kind of policy
    that the host serves. Raises KubeError.
    """
    names = map(owner.name, (PLACEMENT, admission.SELECTOR, admission.CLAIMS, CONFINES))
    placement, selector, claims, confines = names
    foreign = admission.PROBED_NAMESPACE
    answers = {
        placement: await _dry_run(host, admission.probe_pod(owner, placement)),
        claims: await _dry_run_patch(host, owner.namespace, admission.probe_claim(owner)),
        confines: await _dry_run_patch(host, foreign, admission.probe_foreign()),
    }
    texts = {name: text for name, text in answers.items() if isinstance(text, str)}
    in_effect = {name for name, text in texts.items() if name in text.partition(_POLICY_REFUSES)[2]}
    if MUTATING in versions:
        answer = await _dry_run(host, admission.probe_pod(owner, selector))
        answers[selector] = answer
        if admission.UNPLACED_LABEL in (dig(answer, "spec", "nodeSelector") or {}):
            in_effect.add(selector)
    problems = []
    for name in answers.keys() - in_effect:
        kind, answer = MUTATING if name == selector else VALIDATING, answers[name]
        outcome = f"denied for another reason: {answer}" if isinstance(answer, str) else "allowed"
        text = (
            f"{kind} {name} is not in effect (a probe was {outcome}): check that admission plugin "
            f"{kind} is enabled in the kube-apiserver"
        )
        problems.append(PolicyProblem("PoliciesNotInEffect", text, name))
    return in_effect, sorted(problems)


async def is_plugin_on(
    host: ApiClient, namespaces: Iterable[tuple[VirtualCluster, HostNamespace]]
) -> bool | None:
    """Return whether PodNodeSelector is enabled; None if no claimed namespace shows it.

    The plugin rejects a pod that selects other nodes than its namespace; without it, a policy
    rejects the pod, or nothing does. A limit of the namespace, or a missing ServiceAccount, may
    precede the plugin: then the result is None. Raises KubeError.
    """
    for vc, namespace in namespaces:
        key, value = next(iter(vc.required_selector.items()))
        other = {key: "no" if value != "no" else "yes"}
        answer = await _dry_run(host, admission.bare_pod("probe", namespace, other))
        if isinstance(answer, dict) or _POLICY_REFUSES in answer:
            return False
        if _PLUGIN_REFUSES in answer:
            return True
    return None


async def _dry_run_patch(host: ApiClient, namespace: str, patch: Object) -> Object | str:
    return await _judged(host.merge_patch(f"/api/v1/namespaces/{namespace}", patch, query=_DRY_RUN))


async def _dry_run(host: ApiClient, pod: Object) -> Object | str:
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    return await _judged(host.create(path, pod, query=_DRY_RUN))


async def _judged(write: Awaitable[Object]) -> Object | str:
    """Return the answer to a write, or its denial; all else, as a page, shows no policy."""
    try:
        return await write
    except (ForbiddenError, InvalidError, NotFoundError) as error:
        return str(error)


COMPONENT = "policy-status"
EVERYTHING = "placement"
"""The only key."""
PROBE_AGAIN_S = 0.25
UNDECIDED_S = 10.0
"""A new namespace may lack its ServiceAccount still, and then rejects every pod."""
PROBLEM_S, INTERVAL_S = 10.0, 300.0
"""Rights and flags of the host change without an event."""
SETTLES_S = 5.0
"""Many virtual clusters may end, one by one."""
DISCOVERY_MAX_AGE_S = 30.0

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
_POLICY = GroupVersionKind(GROUP, "v1", VALIDATING)
_JOIN = JOIN_OF_THIS_VERSION

_DISABLED = PolicyProblem(
    "InstallationDisabled",
    f"installPolicies is false, so karmada-vc-agent join installs none: set it to true and {_JOIN}",
)
_NOT_SERVED = PolicyProblem(
    "PoliciesNotServed",
    "the host does not serve ValidatingAdmissionPolicy, which needs Kubernetes 1.30 or newer: "
    "upgrade it, or enable the admission plugin PodNodeSelector of its kube-apiserver",
)
_FORBIDDEN = PolicyProblem(
    "ReadingForbidden",
    f"the agent may not read admission policies: {_JOIN}, or add to its ClusterRole {NEEDED_RULE}",
)


class PolicyStatusController:
    """Checks the administrator's admission policies. watch: called to watch those of a kind."""

    def __init__(self, parts: Parts, watch: Callable[[Resource], object]) -> None:
        common = parts.common
        self._watch = watch
        self._host = common.clients.host
        self._discovery = common.discoveries.host
        self._claims = common.stores.claims
        self._clusters = common.stores.clusters
        self._virtual_clusters = common.virtual_clusters
        self._stays_away = common.registrations.stays_away
        self._config = config = common.config
        self._owner = admission.PolicyOwner(config.agent_name, config.agent_namespace, "")
        self._state = common.part(PlacementState)
        self._recorder = parts.works.recorder
        self._clock = common.clock
        self._seen: dict[str, str] | None = None
        self._changed_at = float("-inf")
        self._reported: frozenset[PolicyProblem] = frozenset()
        self._is_plugin_on: bool | None = None  # until a check showed whether it is

    def keys_of_namespace(self, old: Object | None, new: Object | None) -> Iterator[str]:
        """Yield the key if a new claim allows a better check, or the last claim was removed.

        PodNodeSelector shows in a claimed namespace only; without claims, policies may be removed.
        """
        before, after = (claim_of(obj) if obj is not None else None for obj in (old, new))
        is_last = before is not None and not self._claims.clusters()
        if is_last or (before != after and new is not None and self._is_plugin_on is None):
            yield EVERYTHING

    async def reconcile(self, _: str) -> Requeue:
        """Read the policies and check which are in effect. Raises KubeError, RetryError."""
        served = await self._discovery.refresh(DISCOVERY_MAX_AGE_S)
        versions = admission.served_versions(served)
        if not self._claims.clusters() and all(map(self._stays_away, self._virtual_clusters)):
            self._state.settle()  # there is nothing to protect, and will be nothing
            return Requeue(INTERVAL_S)
        problems, in_effect = [_NOT_SERVED], set[str]()
        if VALIDATING in versions:
            problems, is_complete = await self._compare(served, versions)
            in_effect, lacking = await probe_policies(self._host, self._owner, versions)
            is_recent = self._clock.monotonic() - self._changed_at < IN_EFFECT_WITHIN_S
            keeping = in_effect & {*map(self._owner.name, (PLACEMENT, admission.SELECTOR))}
            if is_recent and (lacking if is_complete else keeping):
                return Requeue(PROBE_AGAIN_S)
            problems += lacking if is_complete else ()
        elif not self._discovery.covers(_POLICY):
            raise RetryError(f"the host does not say whether it serves {GROUP}")
        vcs, of = self._virtual_clusters.values(), self._claims.of
        namespaces = ((vc, each) for vc in vcs for each in of(vc.name).values())
        probed = list(islice(namespaces, PROBED_NAMESPACES))
        if (is_on := await is_plugin_on(self._host, probed)) is not None:
            self._is_plugin_on = is_on
        self._report(problems, in_effect)
        if self._is_plugin_on is None and probed:
            return Requeue(UNDECIDED_S)
        return Requeue(PROBLEM_S if problems else INTERVAL_S)

    def _report(self, problems: list[PolicyProblem], in_effect: set[str]) -> None:
        placement = [p for p in problems if not p.policy or admission.is_about_placement(p.policy)]
        rights = [p for p in problems if not p.policy or not admission.is_about_placement(p.policy)]
        layers = [VALIDATING] if self._owner.name(PLACEMENT) in in_effect else []
        layers += [MUTATING] if self._owner.name(admission.SELECTOR) in in_effect else []
        layers += [POD_NODE_SELECTOR] if self._is_plugin_on else []
        confined = rights_confined(rights, is_confined=self._owner.name(CONFINES) in in_effect)
        self._state.report(placement_enforced(layers, placement), confined)
        new = [each for each in problems if each not in self._reported]
        for reason in sorted({each.reason for each in new}):
            first, *others = (each.text for each in new if each.reason == reason)
            more = f" ({len(others)} more: see the conditions of the Cluster)" if others else ""
            extra = {"reason": reason, "detail": first + more}
            _log.warning("Admission policies need attention", extra=extra)
            for cluster in filter(None, map(self._clusters.ours, self._virtual_clusters)):
                conditions = dig(cluster, "status", "conditions") or ()
                reported = "".join(str(each.get("message")) for each in conditions)
                if not all(text in reported for text in (first, *others)):  # by an earlier process
                    self._recorder.record(COMPONENT, cluster, WARNING, reason, first + more)
        self._reported = frozenset(problems)
        self._state.settle()

    async def _compare(
        self, served: ServedApis, versions: Mapping[str, str]
    ) -> tuple[list[PolicyProblem], bool]:
        try:
            live = await self._read(served, versions)
        except ForbiddenError:
            return [_FORBIDDEN], False
        seen = {path: obj["metadata"]["resourceVersion"] for path, obj in live.items()}
        if seen != self._seen:
            self._seen, self._changed_at = seen, self._clock.monotonic()
        if not live and not self._config.install_policies:
            return [_DISABLED], False
        confines = self._owner.name(CONFINES)
        owners = (admission.owner_of(p) for p in live.values() if p["metadata"]["name"] == confines)
        owner = next(filter(None, owners), None)
        problems = []
        for policy in admission.desired_policies(owner or self._owner, versions):
            path = admission.resource_of(served, policy).path(name=policy["metadata"]["name"])
            if (problem := _difference(policy, live.get(path))) is not None:
                problems.append(problem)
        if owner is not None:
            # What the policies do not cover yet of our user name and our virtual clusters.
            user = await own_user_name(self._host)
            tenancy, pod_cidrs = self._config.tenancy, self._config.pod_cidrs
            lacking = (
                *admission.gaps_of(owner, user, self._virtual_clusters, tenancy),
                *admission.differing_networks(owner, tenancy, pod_cidrs),
            )
            texts = (f"the policies {what}: {_JOIN}" for what in lacking)
            name = owner.name(CONFINES)
            problems += (PolicyProblem("PoliciesOutdated", text, name) for text in texts)
        return problems, bool(live)

    async def _read(self, served: ServedApis, versions: Mapping[str, str]) -> dict[str, Object]:
        with_gateway = replace(self._owner, gateway="gateway")  # for the name of its policy, too
        desired, live = admission.desired_policies(with_gateway, versions), {}
        names = {policy["metadata"]["name"] for policy in desired}
        for resource in dict.fromkeys(admission.resource_of(served, policy) for policy in desired):
            self._watch(resource)
            for policy in await items_unless_absent(self._host, resource.path()) or ():
                if (name := policy["metadata"]["name"]) in names:
                    live[resource.path(name=name)] = policy
        return live


def _difference(desired: Object, live: Object | None) -> PolicyProblem | None:
    name = desired["metadata"]["name"]
    policy = f"{desired['kind']} {name}"
    if live is None:
        return PolicyProblem("PolicyMissing", f"{policy} does not exist: {_JOIN}", name)
    if labels_of(live).get(AGENT_LABEL) != labels_of(desired)[AGENT_LABEL]:
        text = f"{policy} was not created by join: delete it, and {_JOIN}"
        return PolicyProblem("ForeignPolicy", text, name)
    if not admission.is_as_wanted(desired, live):
        text = f"{policy} was changed and may be weaker: {_JOIN}"
        return PolicyProblem("PolicyChanged", text, name)
    return None


def setup(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; it has one key."""
    common = parts.common
    changed: Signal[[Object | None, Object | None]] = Signal()
    informers = InformerSet(
        common.clients.host,
        {"labelSelector": f"{AGENT_LABEL}={common.config.agent_name}"},
        changed.emit,
        supervisor=common.supervisor,
    )
    guard = PolicyStatusController(parts, informers.store)
    return ControllerSpec(
        COMPONENT,
        common.queues.by_name(),
        guard.reconcile,
        by_cluster=False,
        initial_keys=lambda: (EVERYTHING,),
        sources=(
            Enqueues(changed.subscribe, lambda *_: (EVERYTHING,)),
            Enqueues(parts.common.scopes.ended.subscribe, lambda _: (EVERYTHING,), SETTLES_S),
            Enqueues(common.stores.namespaces.add_handler, guard.keys_of_namespace),
        ),
        resync_keys=lambda _: (EVERYTHING,),
        runs={"policies": informers.run},
    )


def _prepare(common: Common) -> None:
    placement = PlacementState()
    common.provide(placement)
    common.hooks.writes_ready.append(placement.wait_settled)


FEATURE = Feature("policies", prepare=_prepare, controllers=(setup,), conditions=CONDITIONS)
