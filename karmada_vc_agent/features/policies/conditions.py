"""Conditions about isolation: placement of pods, rights, network."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from karmada_vc_agent.access.policy_owner import MUTATING, VALIDATING
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.kube.controller import Signal, itself
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import ConditionSpec, Parts, Trigger

PLACEMENT_ENFORCED = ConditionType(
    "PlacementEnforced",
    "Admission keeps pods that the agent did not translate on the nodes of the group "
    "([rewriting-rules 3.5](rewriting-rules.md)).",
    on_object=Shown.ALWAYS,
)
RIGHTS_CONFINED = ConditionType(
    "RightsConfined",
    "Admission policies restrict what RBAC cannot ([isolation](isolation.md)).",
    for_all=True,
)

POD_NODE_SELECTOR = "PodNodeSelector"
LAYERS = (POD_NODE_SELECTOR, MUTATING, VALIDATING)
"""In the order of admission in an API server (rewriting-rules 3.5)."""

_HOLDS_ALONE = frozenset((POD_NODE_SELECTOR, VALIDATING))
"""MutatingAdmissionPolicy adds a missing selector, but does not reject one for other nodes."""


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """Why a layer is not in effect, and what to do; reason: in CamelCase, as in a condition."""

    reason: str
    text: str


def placement_enforced(
    layers: Collection[str], problems: Sequence[PolicyProblem] = ()
) -> Condition:
    """Return the condition: True if a layer is in effect that rejects pods for other nodes.

    layers: those in effect. problems: of the others.
    """
    held = ", ".join(layer for layer in LAYERS if layer in layers)
    texts = [problem.text for problem in problems]
    if not _HOLDS_ALONE.isdisjoint(layers):
        message = "; ".join([f"enforced by {held}", *texts])
        return PLACEMENT_ENFORCED.true("PodsKept", message)
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
    texts = [problem.text for problem in problems]
    return RIGHTS_CONFINED.false(reason, "; ".join([begin, *texts]))


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
            _log.warning(
                "Writing workloads before admission policies are in effect",
                extra={"waited_s": timeout_s},
            )


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


def _placement(parts: Parts, vc: VirtualCluster) -> Condition | None:
    return with_kept(parts.common.part(PlacementState).placement, parts.works.kept.of(vc.name))


def _policies(parts: Parts) -> Iterable[Trigger]:
    yield parts.common.part(PlacementState).changed.subscribe, parts.names
    yield parts.works.kept.changed.subscribe, itself


CONDITIONS = (
    ConditionSpec(PLACEMENT_ENFORCED, _placement, _policies),
    ConditionSpec(RIGHTS_CONFINED, lambda parts, _: parts.common.part(PlacementState).confinement),
    ConditionSpec(NETWORK_ISOLATION, lambda _, vc: network_isolation(vc)),
)
