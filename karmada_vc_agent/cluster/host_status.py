"""Observes the host for the status of Clusters: nodes, pods, APIs (contract 4)."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cachetools import LRUCache

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.host_nodes import (
    PENDING_BY_NAMESPACE,
    PENDING_BY_SELECTOR,
    PODS_BY_NODE,
)
from karmada_vc_agent.cluster.rules import cluster_objects
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.virtual_clusters import Membership
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, HealthProbe, ServedApis
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Pod
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.kind_policy import (
    ClusterScopedKinds,
    hidden_from_api_enablements,
)

VERSION_MAX_AGE_S = 60.0
ENABLEMENTS_KEPT = 64
"""Lists of what is served, 100 KB each; virtual clusters that may have the same kinds share one."""

_Kinds = tuple[tuple[str, ...], ...]


@dataclass(kw_only=True)
class HostStatus:
    """Reads the host for the status of one virtual cluster after another.

    conditions: return those of a virtual cluster, by the live status of its Cluster.
    with_resources, with_models: whether sums, and modelings, are reported. discovery_max_age_s: how
    old what the host serves may be. is_reached: whether the hub reads virtual clusters (gateway).
    """

    client: ApiClient
    probe: HealthProbe
    discovery: Discovery
    membership: Membership
    pods: Store[Pod]
    claims: Claims
    cluster_scoped_kinds: ClusterScopedKinds
    conditions: Callable[[VirtualCluster, Object], Sequence[Condition]]
    clock: Callable[[], float] = time.monotonic
    with_resources: bool = True
    with_models: bool = True
    discovery_max_age_s: float = 0.0
    is_reached: bool = False
    _version: tuple[str, float] = field(init=False, default=("", float("-inf")))
    _enablements: LRUCache[_Kinds, tuple[ServedApis, list[Object]]] = field(
        init=False, default_factory=lambda: LRUCache(ENABLEMENTS_KEPT)
    )

    async def observe(
        self, vc: VirtualCluster, cluster: Object, judged: Sequence[Condition]
    ) -> tuple[Object, list[Condition]]:
        """Return the fields and conditions to report of a virtual cluster; None = no such field.

        judged: its conditions that are damped, of which Ready is the first.
        """
        is_partial = False
        try:
            served = await self.discovery.refresh(self.discovery_max_age_s)
        except KubeError:
            served, is_partial = self.discovery.served, True
        enablements = self._api_enablements(served, vc)
        is_partial = is_partial or not served.is_complete
        fields: Object = {"apiEnablements": enablements or None}
        fields |= self._resources(vc, cluster)
        fields["kubernetesVersion"] = await self._kubernetes_version() or None
        return fields, [
            cluster_objects.complete_api_enablements(len(enablements), is_partial=is_partial),
            *judged,
            *self.conditions(vc, cluster.get("status") or {}),
        ]

    def _resources(self, vc: VirtualCluster, cluster: Object) -> Object:
        """Return the summaries of nodes and resources, by field; None = not reported."""
        if not self.with_resources:
            return {"nodeSummary": None, "resourceSummary": None}
        nodes = self.membership.nodes_of(vc.name)
        models = (dig(cluster, "spec", "resourceModels") or []) if self.with_models else []
        on_nodes = [
            pod for node in nodes for pod in self.pods.by_index(PODS_BY_NODE, node.metadata.name)
        ]
        return {
            "nodeSummary": cluster_objects.node_summary(nodes),
            "resourceSummary": cluster_objects.resource_summary(
                nodes, on_nodes, self._pending(vc), models, vc.quota
            ),
        }

    def _pending(self, vc: VirtualCluster) -> list[Pod]:
        """Return unscheduled pods of the claimed namespaces, or that select these nodes."""
        pods = self.pods
        pending: dict[tuple[str, str], Pod] = {}
        for namespace in self.claims.of(vc.name).values():
            for pod in pods.by_index(PENDING_BY_NAMESPACE, namespace):
                pending[pod.metadata.namespace, pod.metadata.name] = pod
        required = vc.required_selector.items()
        key, value = next(iter(required))
        for pod in pods.by_index(PENDING_BY_SELECTOR, f"{key}={value}"):
            if required <= pod.spec.node_selector.items():
                pending[pod.metadata.namespace, pod.metadata.name] = pod
        return list(pending.values())

    async def _kubernetes_version(self) -> str:
        version, read_at = self._version
        if self.clock() - read_at > VERSION_MAX_AGE_S:
            try:
                version = str((await self.client.get("/version")).get("gitVersion") or "")
            except KubeError:
                return ""
            self._version = (version, self.clock())
        return version

    def _api_enablements(self, served: ServedApis, vc: VirtualCluster) -> list[Object]:
        """Return the list for one virtual cluster; those with the same kinds share one."""
        kinds = (vc.allowed_kinds, vc.denied_kinds)
        cached = self._enablements.get(kinds)
        enablements = cached[1] if cached else []
        if cached is None or cached[0] is not served:

            def is_hidden(gvk: GroupVersionKind) -> bool:
                resource = served.by_kind.get(gvk)
                namespaced = resource is not None and resource.namespaced
                return hidden_from_api_enablements(
                    gvk,
                    namespaced=namespaced,
                    configured=self.cluster_scoped_kinds,
                    vc=vc,
                    is_reached=self.is_reached,
                )

            enablements = cluster_objects.api_enablements(served.lists, is_hidden)
            self._enablements[kinds] = (served, enablements)
        return enablements
