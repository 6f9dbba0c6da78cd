"""Deletions by the hub that are too many at once wait for a confirmation (ADR 76)."""

from collections.abc import Iterator

from karmada_vc_agent.features.deletion_brake import controller
from karmada_vc_agent.features.deletion_brake.brake import DeletionBrake
from karmada_vc_agent.features.deletion_brake.conditions import CONDITIONS
from karmada_vc_agent.runner.feature import Feature
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.telemetry.families import CLUSTER, Families, Gauge
from karmada_vc_agent.telemetry.metrics import Sample

HELD = "virtual_cluster_deletions_held"


def _connect(parts: Parts) -> None:
    common, works = parts.common, parts.works
    brake = DeletionBrake(
        common.config.deletion_brake,
        works.watches.works,
        works.finalizer,
        common.state,
        common.scopes,
        common.clock.monotonic,
    )

    def samples() -> Iterator[Sample]:
        for name in filter(common.stores.clusters.ours, common.virtual_clusters):
            record = brake.reported_of(name)
            held = record.objects if record is not None else 0
            yield Sample(HELD, (name,), held)

    common.provide(brake)
    common.metrics.add_source(samples)
    works.finalizer.before_removal.append(brake.check)


FEATURE = Feature(
    "deletion_brake",
    connect=_connect,
    controllers=(controller.setup,),
    conditions=CONDITIONS,
    metrics=Families(
        {
            HELD: Gauge(
                "Number of its host objects whose deletion waits for a confirmation.", (CLUSTER,)
            )
        }
    ),
    commands={"confirm-deletions": "karmada_vc_agent.features.deletion_brake.command"},
)
