"""The nodes of each virtual cluster, kept up to date node by node.

A node that several virtual clusters select counts for the oldest of them: first by the
creation of its Cluster on the hub, then by name (rewriting-rules 3.1).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters, name_of_change
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


class Membership:
    """Nodes by virtual cluster.

    created_at: returns the creation time of a virtual cluster's Cluster, RFC 3339, or "".
    changed: a virtual cluster one of whose nodes was added, removed or changed.
    """

    def __init__(
        self,
        virtual_clusters: VirtualClusters,
        nodes: Store[Node],
        created_at: Callable[[str], str],
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._nodes = nodes
        self._created_at = created_at
        self._claimants: dict[str, tuple[str, ...]] = {}
        self._selected: dict[str, set[str]] = defaultdict(set)
        self._shared: set[str] = set()
        self.changed: Signal[[str]] = Signal()
        nodes.add_handler(self._node_changed)
        virtual_clusters.changed.subscribe(self._selector_changed)

    def reconsider(self) -> list[str]:
        """Notify all that share a node, since a Cluster was added or deleted; return these nodes.

        The oldest Cluster may be another one now.
        """
        shared = sorted(self._shared)
        for cluster in dict.fromkeys(each for node in shared for each in self._claimants[node]):
            self.changed.emit(cluster)
        return shared

    def owner_of(self, node_name: str) -> str | None:
        """Return the virtual cluster that a node counts for."""
        claimants = self._claimants.get(node_name, ())
        if len(claimants) < 2:
            return claimants[0] if claimants else None
        return min(claimants, key=self._seniority)

    def nodes_of(self, cluster: str) -> list[Node]:
        """Return the nodes that count for a virtual cluster, by name."""
        names = sorted(n for n in self._selected[cluster] if self.owner_of(n) == cluster)
        nodes = (self._nodes.get("", name) for name in names)
        return [node for node in nodes if node is not None]

    def selected_by(self, labels: Mapping[str, str] | None, names: Iterable[str]) -> set[str]:
        """Return the nodes that a NodeGroup selects: by labels, None selects none, and by name.

        Source: kubeedge 3.
        """
        by_label = {
            node.metadata.name
            for node in self._nodes
            if labels is not None and labels.items() <= node.metadata.labels.items()
        }
        return by_label | set(names)

    def overlaps(self, cluster: str) -> list[tuple[str, str]]:
        """Return (node, owner or other claimant) of each node that others select too."""
        overlaps = []
        for name in sorted(self._selected[cluster]):
            claimants = self._claimants.get(name, ())
            if len(claimants) > 1:
                owner = self.owner_of(name) or ""
                other = owner if owner != cluster else next(c for c in claimants if c != cluster)
                overlaps.append((name, other))
        return overlaps

    def lost_node(self, cluster: str) -> str | None:
        """Return a node that this virtual cluster selects but an older one owns."""
        for name in sorted(self._selected[cluster]):
            if self.owner_of(name) != cluster:
                return name
        return None

    def _seniority(self, cluster: str) -> tuple[str, str]:
        return (self._created_at(cluster) or "~", cluster)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        name = node.metadata.name
        before = self._claimants.get(name, ())
        after: tuple[str, ...] = ()
        if new is not None:
            labels = new.metadata.labels
            vcs = self._virtual_clusters.values()
            after = tuple(vc.name for vc in vcs if vc.selects(name, labels))
        self._claim(name, before, after)
        if before == after and old is not None and new is not None and _is_same(old, new):
            return
        for cluster in dict.fromkeys((*before, *after)):
            self.changed.emit(cluster)

    def _selector_changed(self, old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        """Release the nodes that a virtual cluster selects no longer, and add the others."""
        cluster = name_of_change(old, new)
        if old is not None and new is not None and _selects_the_same(old, new):
            self.changed.emit(cluster)
            return
        concerned = {cluster: None}
        for node in self._nodes:
            name = node.metadata.name
            before = self._claimants.get(name, ())
            after = tuple(other for other in before if other != cluster)
            if new is not None and new.selects(name, node.metadata.labels):
                after = (*after, cluster)
            if set(before) != set(after):
                self._claim(name, before, after)
                concerned |= dict.fromkeys((*before, *after))
        if new is None:
            self._selected.pop(cluster, None)
        for each in concerned:
            self.changed.emit(each)

    def _claim(self, node: str, before: Iterable[str], after: tuple[str, ...]) -> None:
        self._claimants[node] = after
        if not after:
            del self._claimants[node]
        (self._shared.add if len(after) > 1 else self._shared.discard)(node)
        for cluster in before:
            self._selected[cluster].discard(node)
        for cluster in after:
            self._selected[cluster].add(node)


def _selects_the_same(old: VirtualCluster, new: VirtualCluster) -> bool:
    """Return True if no node moves; many may change at once, and nodes are many."""
    return (old.node_selector, old.node_names) == (new.node_selector, new.node_names)


def _is_same(old: Node, new: Node) -> bool:
    """Return True if nothing that is reported changed; most updates are heartbeats."""
    return (
        old.status == new.status
        and old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
    )
