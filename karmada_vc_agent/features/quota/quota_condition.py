"""The condition QuotaDivided of a Cluster."""

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition
from karmada_vc_agent.features.quota.divisions import Divisions
from karmada_vc_agent.features.quota.quota_divided import QUOTA_DIVIDED, no_quota, quota_divided
from karmada_vc_agent.features.quota.shares import Pending
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster


class QuotaCondition:
    """Says how the division of a quota stands, with the virtual names of namespaces."""

    def __init__(self, divisions: Divisions, claims: Claims) -> None:
        self._divisions = divisions
        self._claims = claims

    def condition(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the condition QuotaDivided where there is a quota, or was."""
        if not vc.quota:
            has_had = find_condition(live.get("conditions"), QUOTA_DIVIDED) is not None
            return [no_quota()] if has_had else []
        if not self._divisions.is_known(vc.name):
            return []
        stalled = self._divisions.stalled(vc.name)
        if stalled is None:
            return [quota_divided(None)]
        return [quota_divided(stalled.reason, self._message(vc, stalled))]

    def stalled(self, vc: VirtualCluster) -> str | None:
        """Return why shares of a quota cannot be raised, None if they can."""
        stalled = self._divisions.stalled(vc.name) if vc.quota else None
        if stalled is None:
            return None
        return quota_divided(stalled.reason, self._message(vc, stalled))["message"]

    def _message(self, vc: VirtualCluster, stalled: Pending) -> str:
        virtual = {host: name for name, host in self._claims.of(vc.name).items()}
        names = (str(virtual.get(HostNamespace(host), host)) for host in stalled.namespaces)
        return " ".join((stalled.problem, ", ".join(names))).strip()
