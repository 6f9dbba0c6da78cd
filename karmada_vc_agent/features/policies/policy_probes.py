"""Dry runs that show which admission policies and plugins of the host are in effect.

Nothing is stored: each probe is a write that the server only judges.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from karmada_vc_agent.access import probes
from karmada_vc_agent.access.policy_owner import (
    MUTATING,
    VALIDATING,
    PolicyOwner,
    is_about_placement,
)
from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.features.policies.placement_enforced import PolicyProblem
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, InvalidError, NotFoundError
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster

PROBED_NAMESPACES = 3

_DRY_RUN = {"dryRun": "All"}
_PLUGIN_REFUSES = "conflicts with its namespace node label selector"
"""How PodNodeSelector rejects a pod; policies are evaluated only after it."""
_POLICY_REFUSES = "ValidatingAdmissionPolicy '"


@dataclass(slots=True)
class Findings:
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


class PolicyProbes:
    """Checks the host by dry runs. A denial is an answer; any other failure is raised."""

    def __init__(
        self, host: ApiClient, claims: Claims, virtual_clusters: Mapping[str, VirtualCluster]
    ) -> None:
        self._host = host
        self._claims = claims
        self._virtual_clusters = virtual_clusters

    async def effect(self, owner: PolicyOwner, versions: Mapping[str, str]) -> Findings:
        """Return which policies are in effect.

        versions: the version of each kind of policy that the host serves. Raises KubeError.
        """
        effect = Findings()
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
            answer = await self._dry_run(probes.bare_pod("probe", namespace, other))
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

    async def _probe_placement(self, owner: PolicyOwner, effect: Findings) -> None:
        name = owner.placement_policy
        answer = await self._dry_run(probes.probe_pod(owner, name))
        if _is_refused_by(name, answer):
            effect.layers.add(VALIDATING)
        else:
            effect.by_policy.append(_not_in_effect(VALIDATING, name, answer))

    async def _probe_namespaces(self, owner: PolicyOwner, effect: Findings) -> None:
        own, foreign = owner.namespace, probes.PROBED_NAMESPACE
        for name, namespace, patch in (
            (owner.claims_policy, own, probes.probe_claim(owner)),
            (owner.confines_policy, foreign, probes.probe_foreign()),
        ):
            answer = await self._dry_run_patch(namespace, patch)
            if not _is_refused_by(name, answer):
                effect.by_policy.append(_not_in_effect(VALIDATING, name, answer))
            elif name == owner.confines_policy:
                effect.is_confined = True

    async def _probe_selector(self, owner: PolicyOwner, effect: Findings) -> None:
        name = owner.selector_policy
        answer = await self._dry_run(probes.probe_pod(owner, name))
        if probes.UNPLACED_LABEL in (dig(answer, "spec", "nodeSelector") or {}):
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
