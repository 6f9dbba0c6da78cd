"""What the host describes of virtual clusters that are not in the settings file, for `join`."""

from collections.abc import Sequence
from dataclasses import dataclass

from karmada_vc_agent.model.virtual_cluster import VirtualCluster


@dataclass(frozen=True, slots=True)
class Described:
    """What is on the host at `join`.

    group_labels: keys of labels of nodes that select groups. virtual_clusters: one of each name,
    the one that is served. objects: those that VirtualCluster objects describe.
    """

    group_labels: frozenset[str] = frozenset()
    virtual_clusters: Sequence[VirtualCluster] = ()
    objects: Sequence[VirtualCluster] = ()

    def allow(self, name: str) -> tuple[str, ...]:
        """Return the exceptions of a virtual cluster, () where nothing describes it."""
        return next((vc.allow for vc in self.virtual_clusters if vc.name == name), ())
