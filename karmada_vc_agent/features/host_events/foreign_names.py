"""Which words of the host's texts name something of other virtual clusters."""

from collections.abc import Mapping

from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.stores import Stores
from karmada_vc_agent.translation.names import cluster_of_host_name


def is_foreign(
    stores: Stores, virtual_clusters: Mapping[str, VirtualCluster], cluster: str, word: str
) -> bool:
    """Return whether a word is the name of something that a virtual cluster must not read.

    Namespaces count by their claims, nodes by their group, other names by how they are made.
    """
    claim = stores.claims.on(word)
    if claim is not None:
        return claim.cluster != cluster
    if stores.nodes.get("", word) is not None:
        return stores.membership.owner_of(word) != cluster
    other = cluster_of_host_name(word)
    if not other:
        return False
    owners = (vc.name for vc in virtual_clusters.values() if vc.name_on_host == other)
    return next(owners, cluster) != cluster
