"""Pods on nodes that left their virtual cluster while these ran there."""

from collections.abc import Iterable, Iterator, Mapping

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.host_pods import PODS_BY_NODE
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.virtual_cluster import EVICT, VirtualCluster

PodKey = tuple[str, str]
"""Host namespace and name of a pod."""


class LeftPods:
    """Selects those that `onNodeLeave: Evict` is about, by what is so now: no restart forgets one.

    A pod that selects the nodes of its virtual cluster got onto one of them: where its node is none
    of them, that one left. Pods that never selected them, as in an adopted namespace, were not
    placed like this, and a node that an older virtual cluster selects as well did not leave.
    """

    def __init__(
        self,
        pods: Store[Pod],
        nodes: Store[Node],
        claims: Claims,
        virtual_clusters: Mapping[str, VirtualCluster],
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._claims = claims
        self._virtual_clusters = virtual_clusters

    def pod(self, key: PodKey) -> Pod | None:
        """Return a pod, to be evicted or not."""
        return self._pods.get(*key)

    def evicting(self, pod: Pod) -> VirtualCluster | None:
        """Return the virtual cluster of a pod that is to be evicted, None for any other."""
        node = self._nodes.get("", pod.spec.node_name) if pod.spec.node_name else None
        return self._evicting(pod, node)

    def keys_of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[PodKey]:
        """Return the key of a pod that is bound to such a node; most are not."""
        if new is None or (old is not None and old.spec.node_name == new.spec.node_name):
            return ()
        return self._keys((new,))

    def keys_of_node(self, old: Node | None, new: Node | None) -> Iterator[PodKey]:
        """Yield the pods on a node that leaves or returns."""
        node = new or old
        if node is None:
            return
        if old is not None and new is not None and old.metadata.labels == new.metadata.labels:
            return
        for pod in self._pods.by_index(PODS_BY_NODE, node.metadata.name):
            if self._evicting(pod, old) is not self._evicting(pod, new):
                yield (pod.metadata.namespace, pod.metadata.name)

    def all_keys(self) -> Iterator[PodKey]:
        """Yield all there are."""
        return self._keys(self._pods)

    def keys_of(self, clusters: Iterable[str]) -> Iterator[PodKey]:
        """Yield those of some virtual clusters."""
        names, cluster_on = frozenset(clusters), self._claims.cluster_on
        return self._keys(pod for pod in self._pods if cluster_on(pod.metadata.namespace) in names)

    def _keys(self, pods: Iterable[Pod]) -> Iterator[PodKey]:
        for pod in pods:
            if self.evicting(pod) is not None:
                yield (pod.metadata.namespace, pod.metadata.name)

    def _evicting(self, pod: Pod, node: Node | None) -> VirtualCluster | None:
        if node is None or pod.is_finished or pod.metadata.deletion_timestamp:
            return None
        vc = self._virtual_clusters.get(self._claims.cluster_on(pod.metadata.namespace))
        if vc is None or vc.on_node_leave != EVICT or vc.paused:
            return None
        if not vc.required_selector.items() <= pod.spec.node_selector.items():
            return None
        return None if vc.selects(node.metadata.name, node.metadata.labels) else vc
