"""The condition CheckpointKept: whether a start without the hub would find all there is."""

from karmada_vc_agent.cluster.rules.conditions import Condition

CHECKPOINT_KEPT = "CheckpointKept"


def checkpoint_kept(problem: tuple[str, str] | None) -> Condition:
    """Return the condition. problem: reason and message of why it is not, None = it is."""
    if problem is None:
        message = "what the hub said is kept on the host"
        return Condition(type=CHECKPOINT_KEPT, status="True", reason="Kept", message=message)
    reason, message = problem
    return Condition(type=CHECKPOINT_KEPT, status="False", reason=reason, message=message)
