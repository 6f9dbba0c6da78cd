"""One quota for each virtual cluster, divided over its namespaces (ADR 14)."""

from collections.abc import Iterator

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.features.quota import controller
from karmada_vc_agent.features.quota.controller import Divisions
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import ConditionSpec, Feature
from karmada_vc_agent.telemetry.metrics import Sample

QUOTA_DIVIDED = ConditionType(
    "QuotaDivided",
    "Every namespace has its share of `quota`.",
    idle="NoQuota",
    on_object=Shown.UNLESS_IDLE,
    warning="Not dividing the quota",
)


def quota_divided(common: Common, vc: VirtualCluster) -> Condition | None:
    """Return the condition; None before the quota was checked."""
    if not vc.quota:
        return QUOTA_DIVIDED.true("NoQuota", "no quota is configured")
    if not common.part(Divisions).is_checked(vc.name):
        return None
    stalled = common.part(Divisions).stalled(vc.name)
    if stalled is None:
        return QUOTA_DIVIDED.true("Divided", "every namespace has its share of the quota")
    virtual = {host: name for name, host in common.stores.claims.of(vc.name).items()}
    names = (str(virtual.get(HostNamespace(host), host)) for host in stalled.namespaces)
    text = " ".join((stalled.problem, ", ".join(names))).strip()
    return QUOTA_DIVIDED.false(stalled.reason, f"cannot raise shares of the quota: {text}")


CONDITIONS = (ConditionSpec(QUOTA_DIVIDED, lambda parts, vc: quota_divided(parts.common, vc)),)


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
    metrics="features/quota/metrics.yaml",
)
