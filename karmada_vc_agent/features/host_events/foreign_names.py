"""Which words of the host's texts name something of other virtual clusters."""

from collections.abc import Mapping

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.names import cluster_of_host_name


class ForeignNames:
    """Knows namespaces by their claims, nodes by their group, other names by how they are made."""

    def __init__(
        self,
        claims: Claims,
        nodes: Store[Node],
        membership: Membership,
        virtual_clusters: Mapping[str, VirtualCluster],
    ) -> None:
        self._claims = claims
        self._nodes = nodes
        self._membership = membership
        self._virtual_clusters = virtual_clusters

    def is_foreign(self, cluster: str, word: str) -> bool:
        """Whether a word is the name of something that a virtual cluster is not to know of."""
        claim = self._claims.on(word)
        if claim is not None:
            return claim.cluster != cluster
        if self._nodes.get("", word) is not None:
            return self._membership.owner_of(word) != cluster
        other = cluster_of_host_name(word)
        if not other:
            return False
        owners = (vc.name for vc in self._virtual_clusters.values() if vc.name_on_host == other)
        return next(owners, cluster) != cluster
