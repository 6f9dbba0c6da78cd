"""Pods on nodes that are not of their virtual cluster: reported, or evicted."""

from collections import Counter
from collections.abc import Iterator

from karmada_vc_agent.features.escapes import foreign_pods
from karmada_vc_agent.features.escapes.foreign_pods import EscapeDetector, Evictions
from karmada_vc_agent.runner.parts import Feature, Parts
from karmada_vc_agent.telemetry.metrics import Sample

ESCAPED_PODS = "virtual_cluster_escaped_pods"


def _connect(parts: Parts) -> None:
    common = parts.common
    evictions = Evictions(parts)
    detector = EscapeDetector(parts, evictions)

    def samples() -> Iterator[Sample]:
        escaped = Counter(cluster for cluster, _, _ in detector.escapes.values())
        for name in filter(common.stores.clusters.ours, common.virtual_clusters):
            yield Sample(ESCAPED_PODS, (name,), escaped[name])

    common.provide(evictions)
    common.provide(detector)
    common.metrics.add_source(samples)


FEATURE = Feature(
    "escapes",
    connect=_connect,
    controllers=(foreign_pods.setup_detector, foreign_pods.setup_evictions),
    metrics="features/escapes/metrics.yaml",
)
