"""The condition CheckpointKept: whether a start without the hub would serve everything."""

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.features.checkpoint.parts import CheckpointParts
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.condition_spec import ConditionSpec
from karmada_vc_agent.runner.parts import Parts

CHECKPOINT_KEPT = ConditionType(
    "CheckpointKept",
    "A start without the hub would find all of it ([autonomy](autonomy.md#checkpointkept)).",
    idle="Kept",
)


def checkpoint_kept(parts: Parts, vc: VirtualCluster) -> Condition | None:
    """Return the condition; None where no checkpoint is kept, or it is not in use yet."""
    if parts.checkpoint is None:
        return None
    checkpoint = parts.common.part(CheckpointParts)
    problem = checkpoint.problem_of(vc.name)
    if problem is None and checkpoint.is_outdated(vc.name):
        return None
    if problem is None:
        return CHECKPOINT_KEPT.true("Kept", "the state of the hub is kept on the host")
    return CHECKPOINT_KEPT.false(*problem)


CONDITIONS = (ConditionSpec(CHECKPOINT_KEPT, checkpoint_kept),)
