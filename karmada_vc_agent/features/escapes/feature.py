"""Pods on nodes that are not of their virtual cluster: reported, or evicted."""

from collections.abc import Iterator

from karmada_vc_agent.features.escapes import escape_detector, evictions
from karmada_vc_agent.features.escapes.escape_detector import EscapedPods
from karmada_vc_agent.features.escapes.evictions import LeftPods
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import Feature
from karmada_vc_agent.telemetry.metrics import Sample

ESCAPED_PODS = "virtual_cluster_escaped_pods"


def _prepare(common: Common) -> None:
    stores, escaped = common.stores, EscapedPods()

    def samples() -> Iterator[Sample]:
        by_cluster = escaped.by_cluster()
        for name in filter(stores.clusters.ours, common.virtual_clusters):
            yield Sample(ESCAPED_PODS, (name,), by_cluster.get(name, 0))

    common.provide(escaped)
    common.provide(LeftPods(stores.pods, stores.nodes, stores.claims, common.virtual_clusters))
    common.metrics.add_source(samples)


FEATURE = Feature(
    "escapes",
    prepare=_prepare,
    controllers=(escape_detector.setup, evictions.setup),
    metrics="features/escapes/metrics.yaml",
)
