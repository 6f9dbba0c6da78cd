"""Conditions about isolation: placement of pods, rights, network."""

from collections.abc import Iterable

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.features.policies.placement_enforced import (
    PLACEMENT_ENFORCED,
    RIGHTS_CONFINED,
    with_kept,
)
from karmada_vc_agent.features.policies.placement_state import PlacementState
from karmada_vc_agent.kube.keys import itself
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.condition_spec import ConditionSpec, Trigger
from karmada_vc_agent.runner.parts import Parts

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
