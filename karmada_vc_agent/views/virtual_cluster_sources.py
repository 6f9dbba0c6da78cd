"""Where virtual clusters come from: several sources feed the one registry, the older wins a name.

Each source replaces its own only. A younger one that has a name too waits for it, and is served
once the older one gives the name up.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.views.virtual_clusters import VirtualClusters


class VirtualClusterSources:
    """The sources of a registry, the oldest first; nobody else is to change the registry."""

    def __init__(self, registry: VirtualClusters) -> None:
        self._registry = registry
        self._sources: list[VirtualClusterSource] = []

    def add(
        self, name: str, virtual_clusters: Iterable[VirtualCluster] = ()
    ) -> "VirtualClusterSource":
        """Return a new source, younger than all others; name: for messages."""
        source = VirtualClusterSource(self, name)
        self._sources.append(source)
        source.replace_all(virtual_clusters)
        return source

    def older_holder(
        self, cluster: str, than: "VirtualClusterSource"
    ) -> "VirtualClusterSource | None":
        """Return the oldest source that has a name and is older than another one, or None."""
        older = takewhile(lambda source: source is not than, self._sources)
        return next((source for source in older if cluster in source), None)

    def merge(self) -> None:
        """Have the registry hold what the sources want now."""
        merged: dict[str, VirtualCluster] = {}
        for source in self._sources:
            for vc in source.wanted():
                merged.setdefault(vc.name, vc)
        self._registry.replace_all(merged.values())


class VirtualClusterSource:
    """What one source wants to have served."""

    def __init__(self, sources: VirtualClusterSources, name: str) -> None:
        self.name = name
        self._sources = sources
        self._wanted: dict[str, VirtualCluster] = {}

    def __contains__(self, cluster: object) -> bool:
        """Whether this source wants a virtual cluster of a name, served or not."""
        return cluster in self._wanted

    def wanted(self) -> Iterable[VirtualCluster]:
        """Return what it wants."""
        return self._wanted.values()

    def replace_all(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Want exactly these from now on."""
        self._want({vc.name: vc for vc in virtual_clusters})

    def put(self, vc: VirtualCluster) -> None:
        """Want this one, instead of an earlier one of its name."""
        self._want({**self._wanted, vc.name: vc})

    def remove(self, cluster: str) -> None:
        """Want the virtual cluster of a name no more."""
        self._want({name: vc for name, vc in self._wanted.items() if name != cluster})

    def rival(self, cluster: str) -> "VirtualClusterSource | None":
        """Return the older source that has a name, so that this one is not served, or None."""
        return self._sources.older_holder(cluster, self)

    def _want(self, wanted: dict[str, VirtualCluster]) -> None:
        if wanted != self._wanted:
            self._wanted = wanted
            self._sources.merge()


@dataclass(frozen=True, slots=True)
class FoundSources:
    """The sources of what is found on the host: by NodeGroups, by a node label; None = off."""

    node_groups: VirtualClusterSource | None = None
    labels: VirtualClusterSource | None = None
