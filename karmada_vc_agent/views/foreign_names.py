"""Which words of the host's texts name something of other virtual clusters."""

from collections.abc import Container

from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.translation.names import cluster_of_host_name
from karmada_vc_agent.views.claims import Claims
from karmada_vc_agent.views.membership import Membership


class ForeignNames:
    """Knows namespaces by their claims, nodes by their group, other names by how they are made."""

    def __init__(
        self,
        claims: Claims,
        nodes: Store[Node],
        membership: Membership,
        clusters: Container[str],
    ) -> None:
        self._claims = claims
        self._nodes = nodes
        self._membership = membership
        self._clusters = clusters

    def is_foreign(self, cluster: str, word: str) -> bool:
        """Whether a word is the name of something that a virtual cluster is not to know of."""
        claim = self._claims.on(word)
        if claim is not None:
            return claim.cluster != cluster
        if self._nodes.get("", word) is not None:
            return self._membership.owner_of(word) != cluster
        other = cluster_of_host_name(word)
        return other != cluster and other in self._clusters
