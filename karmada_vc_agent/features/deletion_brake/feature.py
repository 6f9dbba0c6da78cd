"""Deletions by the hub that are too many at once wait for a confirmation (ADR 76)."""

from collections.abc import Iterator

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.features.deletion_brake.brake import (
    DeletionBrake,
    DeletionBrakeFields,
    Record,
    setup,
)
from karmada_vc_agent.kube.controller import itself
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts
from karmada_vc_agent.telemetry.metrics import Sample

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
            vc.name, parts.common.part(DeletionBrake).recorded_of(vc.name)
        ),
        lambda parts: ((parts.common.part(DeletionBrake).reported.subscribe, itself),),
    ),
)


HELD = "virtual_cluster_deletions_held"


def _connect(parts: Parts) -> None:
    common = parts.common
    brake = DeletionBrake(parts)

    def samples() -> Iterator[Sample]:
        for name in filter(common.stores.clusters.ours, common.virtual_clusters):
            record = brake.recorded_of(name)
            yield Sample(HELD, (name,), record.objects if record is not None else 0)

    common.provide(brake)
    common.metrics.add_source(samples)
    parts.works.finalizer.before_removal.append(brake.check)


FEATURE = Feature(
    "deletion_brake",
    settings=DeletionBrakeFields,
    connect=_connect,
    controllers=(setup,),
    conditions=CONDITIONS,
    metrics="features/deletion_brake/metrics.yaml",
    commands={"confirm-deletions": "karmada_vc_agent.features.deletion_brake.command"},
)
