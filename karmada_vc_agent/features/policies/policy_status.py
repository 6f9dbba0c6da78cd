"""Checks admission policies and whether they are enforced (rewriting-rules 3.5).

    read    what the host serves, our user name there, the policies that `join` installed
    probe   dry runs: whether the server enforces them, and whether
            PodNodeSelector is enabled

The agent must not write the policies that confine itself: an administrator does. There is a
single key. The results are the conditions PlacementEnforced and RightsConfined of each Cluster,
a line in the log and an event.

Nothing is stored: each probe is a write that the server only judges.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from karmada_vc_agent.access import admission
from karmada_vc_agent.access.admission import (
    desired_policies,
    differing_networks,
    gaps_of,
    resource_of,
    served_versions,
)
from karmada_vc_agent.access.policy_owner import (
    GROUP,
    MUTATING,
    VALIDATING,
    PolicyOwner,
    is_about_placement,
    is_as_wanted,
    owner_of,
)
from karmada_vc_agent.cluster.claims import Claims, claim_of
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.policies.conditions import (
    IN_EFFECT_WITHIN_S,
    POD_NODE_SELECTOR,
    PlacementState,
    PolicyProblem,
    placement_enforced,
    rights_confined,
)
from karmada_vc_agent.kube.access_reviews import own_user_name
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue, RetryError, Signal
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.errors import ForbiddenError, InvalidError, NotFoundError
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.kinds import Rule
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, labels_of
from karmada_vc_agent.model.texts import JOIN_OF_THIS_VERSION
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster
from karmada_vc_agent.runner.parts import Parts

PROBED_NAMESPACES = 3

_DRY_RUN = {"dryRun": "All"}
_PLUGIN_REFUSES = "conflicts with its namespace node label selector"
"""How PodNodeSelector rejects a pod; policies are evaluated only after it."""
_POLICY_REFUSES = "ValidatingAdmissionPolicy '"


@dataclass(slots=True)
class _Findings:
    """The result of a check of the policies of an agent.

    layers: those in effect that keep pods in place. is_confined: the agent itself is held.
    by_policy: (policy, problem). everywhere: problems of all of them.
    """

    layers: set[str] = field(default_factory=set)
    is_confined: bool = False
    by_policy: list[tuple[str, PolicyProblem]] = field(default_factory=list)
    everywhere: list[PolicyProblem] = field(default_factory=list)

    def problems(self, *, about_placement: bool) -> tuple[PolicyProblem, ...]:
        """Return the problems about pods and claims, or all others, each text once."""
        selected = [
            problem
            for name, problem in self.by_policy
            if is_about_placement(name) is about_placement
        ]
        return tuple(dict.fromkeys((*self.everywhere, *selected)))


class _PolicyProbes:
    """Checks the host by dry runs. A denial is an answer; any other failure is raised."""

    def __init__(
        self, host: ApiClient, claims: Claims, virtual_clusters: Mapping[str, VirtualCluster]
    ) -> None:
        self._host = host
        self._claims = claims
        self._virtual_clusters = virtual_clusters

    async def effect(self, owner: PolicyOwner, versions: Mapping[str, str]) -> _Findings:
        """Return which policies are in effect.

        versions: the version of each kind of policy that the host serves. Raises KubeError.
        """
        effect = _Findings()
        await self._probe_placement(owner, effect)
        await self._probe_namespaces(owner, effect)
        if MUTATING in versions:
            await self._probe_selector(owner, effect)
        return effect

    async def is_plugin_on(self) -> bool | None:
        """Return whether PodNodeSelector is enabled; None if no claimed namespace shows it.

        The plugin rejects a pod that selects other nodes than its namespace; without it, a policy
        rejects the pod, or nothing does. A limit of the namespace, or a missing ServiceAccount, may
        precede the plugin: then the result is None. Raises KubeError.
        """
        for vc, namespace in self.namespaces():
            key, value = next(iter(vc.required_selector.items()))
            other = {key: "no" if value != "no" else "yes"}
            answer = await self._dry_run(admission.bare_pod("probe", namespace, other))
            if isinstance(answer, dict) or _POLICY_REFUSES in answer:
                return False
            if _PLUGIN_REFUSES in answer:
                return True
        return None

    def namespaces(self) -> list[tuple[VirtualCluster, HostNamespace]]:
        """Return the claimed namespaces to probe, `PROBED_NAMESPACES` at most."""
        namespaces = (
            (vc, namespace)
            for vc in self._virtual_clusters.values()
            for namespace in self._claims.of(vc.name).values()
        )
        return list(islice(namespaces, PROBED_NAMESPACES))

    async def _probe_placement(self, owner: PolicyOwner, effect: _Findings) -> None:
        name = owner.placement_policy
        answer = await self._dry_run(admission.probe_pod(owner, name))
        if _is_refused_by(name, answer):
            effect.layers.add(VALIDATING)
        else:
            effect.by_policy.append(_not_in_effect(VALIDATING, name, answer))

    async def _probe_namespaces(self, owner: PolicyOwner, effect: _Findings) -> None:
        own, foreign = owner.namespace, admission.PROBED_NAMESPACE
        for name, namespace, patch in (
            (owner.claims_policy, own, admission.probe_claim(owner)),
            (owner.confines_policy, foreign, admission.probe_foreign()),
        ):
            answer = await self._dry_run_patch(namespace, patch)
            if not _is_refused_by(name, answer):
                effect.by_policy.append(_not_in_effect(VALIDATING, name, answer))
            elif name == owner.confines_policy:
                effect.is_confined = True

    async def _probe_selector(self, owner: PolicyOwner, effect: _Findings) -> None:
        name = owner.selector_policy
        answer = await self._dry_run(admission.probe_pod(owner, name))
        if admission.UNPLACED_LABEL in (dig(answer, "spec", "nodeSelector") or {}):
            effect.layers.add(MUTATING)
        else:
            effect.by_policy.append(_not_in_effect(MUTATING, name, answer))

    async def _dry_run_patch(self, namespace: str, patch: Object) -> Object | str:
        """Return a Namespace as the server would change it, or its denial."""
        path = f"/api/v1/namespaces/{namespace}"
        return await _judged(self._host.merge_patch(path, patch, query=_DRY_RUN))

    async def _dry_run(self, pod: Object) -> Object | str:
        """Return the pod as the server would store it, or its denial."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        return await _judged(self._host.create(path, pod, query=_DRY_RUN))


async def _judged(write: Awaitable[Object]) -> Object | str:
    """Return the answer to a write, or its denial; all else, as a page, shows no policy."""
    try:
        return await write
    except (ForbiddenError, InvalidError, NotFoundError) as error:
        return str(error)


def _is_refused_by(policy: str, answer: Object | str) -> bool:
    return isinstance(answer, str) and policy in answer.partition(_POLICY_REFUSES)[2]


def _not_in_effect(kind: str, name: str, answer: Object | str) -> tuple[str, PolicyProblem]:
    said = f"denied for another reason: {answer}" if isinstance(answer, str) else "allowed"
    text = (
        f"{kind} {name} is not in effect (a probe was {said}): check that admission plugin "
        f"{kind} is enabled in the kube-apiserver"
    )
    return name, PolicyProblem("PoliciesNotInEffect", text)


_log = logging.getLogger(__name__)

EVERYTHING = "placement"
"""The only key."""
PROBE_AGAIN_S = 0.25
UNDECIDED_S = 10.0
"""A new namespace may lack its ServiceAccount still, and then rejects every pod."""
PROBLEM_S, INTERVAL_S = 10.0, 300.0
"""Rights and flags of the host change without an event."""
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
    """Checks the agent's admission policies, which are the administrator's.

    is_needed: whether there is anything to protect, or will be. watch: called to watch the policies
    of one kind; changes enqueue `EVERYTHING`. state: gets the result. on_problem: called once for
    each problem.
    """

    def __init__(
        self,
        host: ApiClient,
        discovery: Discovery,
        claims: Claims,
        virtual_clusters: Mapping[str, VirtualCluster],
        config: AgentConfig,
        state: PlacementState,
        *,
        is_needed: Callable[[], bool],
        watch: Callable[[Resource], object],
        on_problem: Callable[[PolicyProblem], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._discovery = discovery
        self._claims = claims
        self._virtual_clusters = virtual_clusters
        self._config = config
        self._owner = PolicyOwner(config.agent_name, config.agent_namespace, "")
        self._state = state
        self._is_needed = is_needed
        self._watch = watch
        self._on_problem = on_problem
        self._clock = clock
        self._seen: frozenset[str] | None = None
        self._changed_at = float("-inf")
        self._reported: frozenset[PolicyProblem] = frozenset()
        self._probes = _PolicyProbes(host, claims, virtual_clusters)
        self._is_plugin_on: bool | None = None

    def keys_of_namespace(self, old: Object | None, new: Object | None) -> Iterator[str]:
        """Yield the key if a new claim allows a better check, or the last claim was removed.

        PodNodeSelector shows in a claimed namespace only; without claims, policies may be removed.
        """
        before, after = (claim_of(obj) if obj is not None else None for obj in (old, new))
        is_last = before is not None and self._claims.is_empty()
        is_conclusive = before != after and new is not None and self.is_undecided()
        if is_last or is_conclusive:
            yield EVERYTHING

    def is_undecided(self) -> bool:
        """Return True until a check showed whether the plugin PodNodeSelector is enabled."""
        return self._is_plugin_on is None

    async def reconcile(self, _: str) -> Requeue:
        """Read the policies and check which are in effect. Raises KubeError, RetryError."""
        served = await self._discovery.refresh(DISCOVERY_MAX_AGE_S)
        versions = served_versions(served)
        if not self._is_needed():
            self._state.settle()
            return Requeue(INTERVAL_S)
        findings = _Findings()
        if VALIDATING not in versions:
            if not self._discovery.covers(_POLICY):
                raise RetryError(f"the host does not say whether it serves {GROUP}")
            findings.everywhere.append(_NOT_SERVED)
        else:
            is_complete = await self._compare(served, versions, findings)
            effect = await self._probes.effect(self._owner, versions)
            is_recent = self._clock() - self._changed_at < IN_EFFECT_WITHIN_S
            if is_recent and (effect.by_policy if is_complete else effect.layers):
                return Requeue(PROBE_AGAIN_S)
            findings.layers, findings.is_confined = effect.layers, effect.is_confined
            if is_complete:
                findings.by_policy += effect.by_policy
        is_plugin_on = await self._probes.is_plugin_on()
        if is_plugin_on is not None:
            self._is_plugin_on = is_plugin_on
        if self._is_plugin_on:
            findings.layers.add(POD_NODE_SELECTOR)
        self._report(findings)
        return Requeue(self._pause_s(findings))

    def _pause_s(self, findings: _Findings) -> float:
        if self.is_undecided() and self._probes.namespaces():
            return UNDECIDED_S
        return PROBLEM_S if findings.everywhere or findings.by_policy else INTERVAL_S

    def _report(self, findings: _Findings) -> None:
        about_placement = findings.problems(about_placement=True)
        about_rights = findings.problems(about_placement=False)
        placement = placement_enforced(findings.layers, about_placement)
        confinement = rights_confined(about_rights, is_confined=findings.is_confined)
        self._state.report(placement, confinement)
        problems = (*about_placement, *about_rights)
        new = [each for each in problems if each not in self._reported]
        for problem in new:
            self._on_problem(problem)
        for reason in sorted({each.reason for each in new}):
            first, *others = (each.text for each in new if each.reason == reason)
            extra = {"reason": reason, "detail": first}
            if others:
                extra["others"] = str(len(others))
            _log.warning("Admission policies need attention", extra=extra)
        self._reported = frozenset(problems)
        self._state.settle()

    # --- policies ---------------------------------------------------------------------------

    async def _compare(
        self, served: ServedApis, versions: Mapping[str, str], findings: _Findings
    ) -> bool:
        """Compare the policies with those that join would create; return whether there are any."""
        try:
            live = await self._read(served, versions)
        except ForbiddenError:
            findings.everywhere.append(_FORBIDDEN)
            return False
        seen = frozenset(
            f"{path} {obj['metadata']['resourceVersion']}" for path, obj in live.items()
        )
        if seen != self._seen:
            self._seen, self._changed_at = seen, self._clock()
        confines = resource_of(served, desired_policies(self._owner, versions)[0]).path(
            name=self._owner.confines_policy
        )
        owner = owner_of(live.get(confines) or {})
        if not live and not self._config.install_policies:
            findings.everywhere.append(_DISABLED)
            return False
        for policy in desired_policies(owner or self._owner, versions):
            name = policy["metadata"]["name"]
            problem = _difference(policy, live.get(resource_of(served, policy).path(name=name)))
            if problem is not None:
                findings.by_policy.append((name, problem))
        if owner is not None:
            findings.by_policy += await self._outdated(owner)
        return bool(live)

    async def _read(self, served: ServedApis, versions: Mapping[str, str]) -> dict[str, Object]:
        """Return the live policies by path, and watch them."""
        live = {}
        with_gateway = replace(self._owner, gateway="gateway")  # for the name of its policy, too
        for policy in desired_policies(with_gateway, versions):
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
        """Return what the policies do not cover yet of our user name and our virtual clusters."""
        user = await own_user_name(self._host)
        tenancy, pod_cidrs = self._config.tenancy, self._config.pod_cidrs
        lacking = (
            *gaps_of(owner, user, self._virtual_clusters, tenancy),
            *differing_networks(owner, tenancy, pod_cidrs),
        )
        return [
            (
                owner.confines_policy,
                PolicyProblem("PoliciesOutdated", f"the policies {what}: {_JOIN}"),
            )
            for what in lacking
        ]


def _difference(desired: Object, live: Object | None) -> PolicyProblem | None:
    """Return what is wrong with one policy or binding, None if it is as join creates it."""
    policy = f"{desired['kind']} {desired['metadata']['name']}"
    if live is None:
        return PolicyProblem("PolicyMissing", f"{policy} does not exist: {_JOIN}")
    if labels_of(live).get(AGENT_LABEL) != labels_of(desired)[AGENT_LABEL]:
        return PolicyProblem(
            "ForeignPolicy", f"{policy} was not created by join: delete it, and {_JOIN}"
        )
    if not is_as_wanted(desired, live):
        return PolicyProblem("PolicyChanged", f"{policy} was changed and may be weaker: {_JOIN}")
    return None


def setup(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; it has one key."""
    common, config = parts.common, parts.common.config
    claims, vcs = common.stores.claims, common.virtual_clusters
    host, stays_away = common.clients.host, common.registrations.stays_away
    changed: Signal[[Object | None, Object | None]] = Signal()
    informers = InformerSet(
        host,
        {"labelSelector": f"{AGENT_LABEL}={config.agent_name}"},
        changed.emit,
        supervisor=common.supervisor,
    )
    guard = PolicyStatusController(
        host,
        common.discoveries.host,
        claims,
        vcs,
        config,
        common.part(PlacementState),
        is_needed=lambda: not claims.is_empty() or not all(map(stays_away, vcs)),
        watch=informers.store,
        on_problem=partial(_report_problem, parts),
    )
    return ControllerSpec(
        "policy-status",
        common.queues.by_name(),
        guard.reconcile,
        by_cluster=False,
        initial_keys=lambda: (EVERYTHING,),
        sources=(
            Enqueues(changed.subscribe, lambda *_: (EVERYTHING,)),
            Enqueues(parts.common.scopes.ended.subscribe, lambda _: (EVERYTHING,)),
            Enqueues(common.stores.namespaces.add_handler, guard.keys_of_namespace),
        ),
        resync_keys=lambda _: (EVERYTHING,),
        runs={"policies": informers.run},
    )


def _report_problem(parts: Parts, problem: PolicyProblem) -> None:
    report = parts.works.on_cluster(parts.works.events.policy_wrong)
    for name in parts.names():
        report(name, problem.reason, problem.text)
