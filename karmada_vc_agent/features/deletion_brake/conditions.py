"""The condition about held deletions."""

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.features.deletion_brake.brake import DeletionBrake
from karmada_vc_agent.features.deletion_brake.rules import Record
from karmada_vc_agent.kube.keys import itself
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.runner.condition_spec import ConditionSpec

DELETIONS_HELD = ConditionType(
    "DeletionsHeld",
    "The hub deletes so much at once that the agent deletes nothing "
    "([ADR 76](adr/0076-deletion-brake.md)).",
    normal="False",
    idle="NothingHeld",
    on_object=Shown.UNLESS_IDLE,
    has_event=True,
    warning="Holding deletions; karmada-vc-agent confirm-deletions lists them",
)
_NAMED = 3


def deletions_held(cluster: str, record: Record | None) -> Condition:
    """Return the condition; record: of what is held, None = nothing."""
    if record is None:
        return DELETIONS_HELD.false("NothingHeld", "no deletion waits for a confirmation")
    named = listed(record.works, _NAMED)
    text = (
        f"the hub deletes {record.objects + record.removed} of {record.total} objects at once; the "
        f"agent holds {record.objects} deletions ({named}) until the hub takes them back, or an "
        f"administrator of the host runs karmada-vc-agent confirm-deletions {cluster}"
    )
    return DELETIONS_HELD.true("TooManyDeletions", text)


CONDITIONS = (
    ConditionSpec(
        DELETIONS_HELD,
        lambda parts, vc: deletions_held(
            vc.name, parts.common.part(DeletionBrake).reported_of(vc.name)
        ),
        lambda parts: ((parts.common.part(DeletionBrake).reported.subscribe, itself),),
    ),
)
