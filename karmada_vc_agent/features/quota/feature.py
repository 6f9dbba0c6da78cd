"""One quota for each virtual cluster, divided over its namespaces (ADR 14)."""

from collections.abc import Iterator

from karmada_vc_agent.features.quota import controller
from karmada_vc_agent.features.quota.divisions import Divisions
from karmada_vc_agent.features.quota.quota_divided import CONDITIONS
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.feature import Feature
from karmada_vc_agent.telemetry.families import CLUSTER, Families, Gauge
from karmada_vc_agent.telemetry.metrics import Sample

STALLED = "virtual_cluster_quota_stalled"


def _prepare(common: Common) -> None:
    divisions = Divisions(common.clock.monotonic)

    def samples() -> Iterator[Sample]:
        for name, is_stalled in divisions.all().items():
            if common.stores.clusters.ours(name) is not None:
                yield Sample(STALLED, (name,), is_stalled)

    common.provide(divisions)
    common.hooks.shares = divisions
    common.metrics.add_source(samples)


FEATURE = Feature(
    "quota",
    prepare=_prepare,
    controllers=(controller.setup,),
    conditions=CONDITIONS,
    metrics=Families(
        {STALLED: Gauge("Whether its quota cannot be divided (1) or can (0).", (CLUSTER,))}
    ),
)
