"""Taints of the nodes of each virtual cluster, as its pods tolerate them now."""

from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters, name_of_change
from karmada_vc_agent.model.core import Taint
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.taint_tolerations import common_taints


class NodeTaints:
    """Remembers the taints between two looks: what is translated in between is translated alike."""

    def __init__(self, membership: Membership, virtual_clusters: VirtualClusters) -> None:
        self._membership = membership
        self._virtual_clusters = virtual_clusters
        self._taints: dict[str, tuple[Taint, ...]] = {}
        virtual_clusters.changed.subscribe(self._changed)

    def of(self, cluster: str) -> tuple[Taint, ...]:
        """Return the taints that the pods of a virtual cluster tolerate."""
        if cluster not in self._virtual_clusters:
            return ()
        if cluster not in self._taints:
            self._taints[cluster] = self._now(cluster)
        return self._taints[cluster]

    def refresh(self, cluster: str) -> bool:
        """Look at the nodes again; return whether pods have to tolerate others than before."""
        before = self._taints.pop(cluster, None)
        return before is not None and before != self.of(cluster)

    def _changed(self, old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        self._taints.pop(name_of_change(old, new), None)

    def _now(self, cluster: str) -> tuple[Taint, ...]:
        vc = self._virtual_clusters.get(cluster)
        if vc is None or not vc.tolerate_node_taints:
            return ()
        return common_taints(self._membership.nodes_of(cluster))
