"""Sources of virtual clusters, which feed the registry; the older wins a name."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


class VirtualClusterSources:
    """The sources of a registry, the oldest first; nothing else is to change the registry.

    No two are served that have one name, or whose names on the host are made from one name: they
    would have each other's namespaces and nodes. The younger waits until the older gives the name
    up; of one source the first wins.
    """

    def __init__(self, registry: VirtualClusters) -> None:
        self._registry = registry
        self._sources: list[VirtualClusterSource] = []
        self._holders: dict[tuple[str, str], _Holder] = {}
        self._rivals: dict[tuple[str, str], _Holder] = {}

    def add(
        self, name: str, virtual_clusters: Iterable[VirtualCluster] = ()
    ) -> "VirtualClusterSource":
        """Return a new source, younger than all others; name: for messages."""
        source = VirtualClusterSource(self, name)
        self._sources.append(source)
        source.replace_all(virtual_clusters)
        return source

    def holder(self, cluster: str, of: "VirtualClusterSource") -> "_Holder | None":
        """Return who keeps a virtual cluster of a source from being served, or None."""
        if cluster in of:
            return self._rivals.get((of.name, cluster))
        holder = self._holders.get((_NAME, cluster)) or self._holders.get((_ON_HOST, cluster))
        is_older = holder and holder[0] in self._sources[: self._sources.index(of)]
        return holder if is_older else None

    def merge(self) -> None:
        """Have the registry hold what the sources define now."""
        merged: dict[str, VirtualCluster] = {}
        self._holders, self._rivals = {}, {}
        for source in self._sources:
            for vc in source.defined():
                keys = (_NAME, vc.name), (_ON_HOST, vc.name_on_host)
                if rival := next(filter(None, map(self._holders.get, keys)), None):
                    self._rivals[source.name, vc.name] = rival
                    continue
                merged[vc.name] = vc
                self._holders |= dict.fromkeys(keys, (source, vc))
        self._registry.replace_all(merged.values())


class VirtualClusterSource:
    """The virtual clusters that one source defines."""

    def __init__(self, sources: VirtualClusterSources, name: str) -> None:
        self.name = name
        self._sources = sources
        self._defined: dict[str, VirtualCluster] = {}

    def __contains__(self, cluster: object) -> bool:
        """Return True if this source defines a virtual cluster of a name, served or not."""
        return cluster in self._defined

    def get(self, cluster: str) -> VirtualCluster | None:
        """Return the virtual cluster of a name, served or not."""
        return self._defined.get(cluster)

    def defined(self) -> Iterable[VirtualCluster]:
        """Return the virtual clusters of this source."""
        return self._defined.values()

    def defines_nodes_of(self, vc: VirtualCluster) -> bool:
        """Return True if it defines one of this name with these nodes; the rest may differ."""
        own = self._defined.get(vc.name)
        nodes = (vc.node_selector, vc.node_names)
        return own is not None and (own.node_selector, own.node_names) == nodes

    def replace_all(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Define exactly these from now on."""
        self._define({vc.name: vc for vc in virtual_clusters})

    def put(self, vc: VirtualCluster) -> None:
        """Define this one, instead of an earlier one of its name."""
        self._define({**self._defined, vc.name: vc})

    def remove(self, cluster: str) -> None:
        """Define the virtual cluster of a name no more."""
        self._define({name: vc for name, vc in self._defined.items() if name != cluster})

    def rival(self, cluster: str) -> "VirtualClusterSource | None":
        """Return the older source that has a name, or its names on the host, or None.

        That is this one itself, where another of its own is first.
        """
        holder = self._sources.holder(cluster, self)
        return holder[0] if holder else None

    def taken(self, cluster: str) -> str:
        """Return which name is taken and who has it, "" if the virtual cluster may be served."""
        if (holder := self._sources.holder(cluster, self)) is None:
            return ""
        source, vc = holder
        own = self._defined.get(cluster)
        shared = own.name_on_host if own is not None else cluster
        text = f"virtual cluster {vc.name} of {source.name}"
        if vc.name == cluster:
            return f"{source.name} already defines a virtual cluster of this name"
        if vc.name == shared:
            return f"formerNames has {shared}, which is {text}"
        if shared == cluster:
            return f"{text} has {shared} in formerNames"
        return f"formerNames has {shared}, and so has {text}"

    def _define(self, virtual_clusters: dict[str, VirtualCluster]) -> None:
        if virtual_clusters != self._defined:
            self._defined = virtual_clusters
            self._sources.merge()


_NAME, _ON_HOST = "name", "name on the host"
_Holder = tuple[VirtualClusterSource, VirtualCluster]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of one.

    text: `NodeGroup shop-a`. is_label: it is a label that nodes have. absence: why that is not
    there any more, and the consequence; "" while it is there.
    """

    text: str
    is_label: bool = False
    absence: str = ""


class Origins:
    """Origins by virtual cluster, and what was discovered but is not served.

    source: of the settings, `nodeGroups`. changed: a virtual cluster whose origin changed.
    """

    def __init__(self) -> None:
        self._origins: dict[tuple[str, str], Origin] = {}
        self._by_cluster: dict[str, Origin] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> Origin | None:
        """Return the origin of a virtual cluster; None for one of the file, or an object."""
        return self._by_cluster.get(cluster)

    def note(self, source: str, cluster: str, origin: Origin | None) -> None:
        """Record the origin of one that a source defines, None if it defines none of this name."""
        before = self._origins.pop((source, cluster), None)
        if origin is not None:
            self._origins[source, cluster] = self._by_cluster[cluster] = origin
        elif before is not None and self._by_cluster.get(cluster) == before:
            del self._by_cluster[cluster]
        if origin != before:
            self.changed.emit(cluster)

    def refuse(self, source: str, cluster: str, problem: str) -> bool:
        """Record why one is not served as discovered, "" if it is; return True if that is new."""
        before = self._refused.pop((source, cluster), "")
        if problem:
            self._refused[source, cluster] = problem
        return problem != before

    def refusals(self) -> list[str]:
        """Return why what was discovered is not served, each in a text."""
        return list(self._refused.values())

    def refused(self) -> Mapping[str, int]:
        """Return how many are not served: source -> number."""
        return Counter(source for source, _ in self._refused)


class LiveSettings:
    """The settings in use, without virtual clusters: those are in the registry.

    changed: emitted after they changed.
    """

    def __init__(self, config: AgentConfig) -> None:
        self.config = replace(config, virtual_clusters=())
        self.changed: Signal[[]] = Signal()

    def use(self, config: AgentConfig) -> None:
        """Use these from now on."""
        config = replace(config, virtual_clusters=())
        if config != self.config:
            self.config = config
            self.changed.emit()
