"""Where virtual clusters are defined, and their registration on the hub."""

import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from karmada_vc_agent.cluster import hub_clusters
from karmada_vc_agent.cluster.rules import cluster_objects
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters, selects_the_same
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, Requeue, Signal
from karmada_vc_agent.kube.errors import AlreadyExistsError, InvalidError, KubeError, NotFoundError
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.model.objects import Object, dig, uid_of
from karmada_vc_agent.model.quantity import Duration, Size
from karmada_vc_agent.model.virtual_cluster import (
    ApplyAs,
    Bounds,
    DefaultPodSecurity,
    VirtualCluster,
)


class VirtualClusterSources:
    """The sources of a registry, the oldest first; nothing else is to change the registry.

    No two are served that have one name, or whose names on the host are made from one name: they
    would have each other's namespaces and nodes. The younger waits until the older gives the name
    up; of one source the first wins.
    """

    def __init__(self, registry: VirtualClusters) -> None:
        self._registry, self.serves = registry, registry.serves
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
    def __init__(self, sources: VirtualClusterSources, name: str) -> None:
        self.name, self.serves = name, sources.serves
        self._sources = sources
        self._defined: dict[str, VirtualCluster] = {}

    def __contains__(self, cluster: object) -> bool:
        return cluster in self._defined

    def get(self, cluster: str) -> VirtualCluster | None:
        return self._defined.get(cluster)

    def defined(self) -> Iterable[VirtualCluster]:
        return self._defined.values()

    def defines_nodes_of(self, vc: VirtualCluster) -> bool:
        """Return True if it defines one of this name with these nodes; the rest may differ."""
        own = self._defined.get(vc.name)
        return own is not None and selects_the_same(own, vc)

    def replace_all(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        self._define({vc.name: vc for vc in virtual_clusters})

    def put(self, vc: VirtualCluster) -> None:
        self._define({**self._defined, vc.name: vc})

    def remove(self, cluster: str) -> None:
        self._define({name: vc for name, vc in self._defined.items() if name != cluster})

    def rival(self, cluster: str) -> "VirtualClusterSource | None":
        """Return the source, older or this one itself, that has a name or its names on the host."""
        holder = self._sources.holder(cluster, self)
        return holder[0] if holder else None

    def taken(self, cluster: str) -> str:
        """Return which name is taken and who has it, "" if the virtual cluster may be served."""
        if (holder := self._sources.holder(cluster, self)) is None:
            return ""
        source, vc = holder
        if vc.name == cluster:
            return f"{source.name} already defines a virtual cluster of this name"
        names = f"its name on the host is {vc.name_on_host} (formerNames)"
        return f"{names}, and so is that of virtual cluster {vc.name} of {source.name}"

    def _define(self, virtual_clusters: dict[str, VirtualCluster]) -> None:
        if virtual_clusters != self._defined:
            self._defined = virtual_clusters
            self._sources.merge()


_NAME, _ON_HOST = "name", "name on the host"
_Holder = tuple[VirtualClusterSource, VirtualCluster]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of one, `NodeGroup shop-a`. absence: it was deleted, and the consequence."""

    text: str
    is_label: bool = False
    absence: str = ""


class Origins:
    """Origins by virtual cluster, and what was discovered but is refused, by source and name.

    source: of the settings, `nodeGroups`. changed: a virtual cluster whose origin changed.
    """

    def __init__(self) -> None:
        self._origins: dict[str, tuple[str, Origin]] = {}
        self.refused: dict[tuple[str, str], str] = {}
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> Origin | None:
        """Return the origin of a virtual cluster; None for one of the file, or an object."""
        return self._origins.get(cluster, ("", None))[1]

    def note(self, source: str, cluster: str, origin: Origin | None) -> None:
        """Record the origin of one that a source defines, None if it defines none of this name."""
        before = self._origins.get(cluster)
        if origin is not None:
            self._origins[cluster] = (source, origin)
        elif before is not None and before[0] == source:
            del self._origins[cluster]
        if self._origins.get(cluster) != before:
            self.changed.emit(cluster)

    def refuse(self, source: str, cluster: str, problem: str) -> bool:
        """Record why one is not served as discovered, "" if it is; return True if that is new."""
        before = self.refused.pop((source, cluster), "")
        if problem:
            self.refused[source, cluster] = problem
        return problem != before


class LiveSettings:
    """The settings in use, without virtual clusters: those are in the registry."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = replace(config, virtual_clusters=())
        self.changed: Signal[[]] = Signal()

    def use(self, config: AgentConfig) -> None:
        config = replace(config, virtual_clusters=())
        if config != self.config:
            self.config = config
            self.changed.emit()


_FIRST_BYTES = 64 * 2**20
"""Default of `bounds.bytes` in the first versions: the present one has the same digest."""
_OF_WORKS = frozenset(("paused", "window", "window_passes"))


def settings_digest(vc: VirtualCluster) -> str:
    """Return a text that changes when any setting of a virtual cluster does.

    Defaults do not count, so that a new setting changes nothing, nor does a level of Pod Security
    that the profile requires, nor what says nothing of the Cluster: pause, windows, loop share.
    """
    first = Bounds(bytes=Size(_FIRST_BYTES))
    size = vc.bounds.bytes if vc.bounds.bytes != Bounds().bytes else first.bytes
    defaults = VirtualCluster(vc.name, bounds=first)
    shares = first.loop_milliseconds
    vc = replace(vc, bounds=replace(vc.bounds, loop_milliseconds=shares, bytes=size))
    given = {
        name: value
        for name in vc.__struct_fields__
        if name not in _OF_WORKS
        and (value := getattr(vc, name)) != getattr(defaults, name)
        and not isinstance(value, DefaultPodSecurity)
    }
    return hub_clusters.digest(_plain({"name": vc.name, **given}))


def _plain(value: object) -> object:
    if isinstance(value, ApplyAs):
        return {**msgspec.structs.asdict(value), "is_default": value.is_default}
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value)
        return _plain({name: fields[name] for name in fields if name != "loop_milliseconds"})
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return float(value) if isinstance(value, Duration) else value


@dataclass
class Registrations:
    """The virtual clusters whose Cluster was deleted, or left, while the settings stay.

    reregister: names to register again all the same, until they are. troubles: why one is not.
    """

    state: hub_clusters.AgentState
    clusters: hub_clusters.HubClusters
    virtual_clusters: Mapping[str, VirtualCluster]
    reregister: set[str]
    troubles: dict[str, str] = field(default_factory=dict)

    def stays_away(self, name: str) -> bool:
        """Return True for a virtual cluster of the settings that is not to be registered."""
        record = self.state.cluster(name)
        if record is None or name in self.reregister or self.clusters.ours(name) is not None:
            return False
        vc = self.virtual_clusters.get(name)
        is_same = vc is not None and record.settings == settings_digest(vc)
        return record.has_left or (record.was_deleted and is_same)


_log = logging.getLogger(__name__)

REFUSED_RETRY = Requeue(30.0)
"""Interval of retries when a name is taken or the hub rejects a Cluster; logged once."""

_LEFT = (
    "Not registering a virtual cluster that has left; to register it again, run karmada-vc-agent "
    "join and restart the agent, or start it with --reregister"
)
_DELETED = (
    "Not registering a Cluster that was deleted on the hub; to register it again, change its "
    "settings or start with --reregister"
)


def keys_of_registered(
    virtual_clusters: Container[str], old: Object | None, new: Object | None
) -> Iterator[str]:
    name = dig(new or old, "metadata", "name")
    if name in virtual_clusters:
        yield name


@dataclass
class RegistrationController:
    """Registers each virtual cluster once, and keeps what it registered up to date.

    registrations: which are to be registered, and which stay away. access_of: prepares what the
    hub needs to reach a virtual cluster; returns what its new Cluster says of it.
    """

    hub: ApiClient
    clusters: hub_clusters.HubClusters
    state: hub_clusters.AgentState
    virtual_clusters: Mapping[str, VirtualCluster]
    registrations: Registrations
    access_of: Callable[[VirtualCluster], Awaitable[Object]]
    _once: LogOnce = field(init=False, default_factory=lambda: LogOnce(_log))

    async def reconcile(self, name: str) -> Requeue | None:
        try:
            outcome = await self._reconcile(name)
        except KubeError as error:
            self.registrations.troubles[name] = str(error)
            raise
        if outcome is not REFUSED_RETRY:
            self.registrations.troubles.pop(name, None)
        return outcome

    async def _reconcile(self, name: str) -> Requeue | None:
        vc = self.virtual_clusters.get(name)
        if vc is None:
            self._once.ended(name)  # logged again once it is back
            return None
        if not self.clusters.has_listed(name):
            raise NotReadyError(f"the hub has not listed cluster({name}) yet")
        record, marked = self.state.cluster(name), self.clusters.marked.get(name)
        if marked and record is not None and record.uid == marked and not record.was_deleted:
            # Our Cluster was deleted, which counts across restarts.
            record = await self.state.remember_deleted(name, marked, record.settings)
        settings = settings_digest(vc)
        if (rival := self.clusters.other_agent(name)) is not None:
            return self._refused(name, cluster_objects.served_by_another(name, rival))
        if (cluster := self.clusters.ours(name)) is not None:
            return await self._maintain(vc, cluster, record, settings)
        if self.clusters.conflicting_cluster(name) is not None:
            text = (
                f"the cluster ID {self.clusters.id_of(name)} or the cluster name {name} "
                "has been registered"
            )
            return self._refused(name, text)
        if record is not None and not record.was_deleted:
            # It may have left while it was not served here, and its deletion was not observed.
            record = await self.state.read_again(name)
        if self.registrations.stays_away(name):
            message = _LEFT if record and record.has_left else _DELETED
            self._once.warning(message, about=name, virtual_cluster=name)
            return None
        if record is not None and not record.was_deleted:
            _log.warning(
                "Registering a Cluster again that disappeared without being deleted",
                extra={"virtual_cluster": name},
            )
        return await self._register(vc, settings)

    async def _register(self, vc: VirtualCluster, settings: str) -> Requeue | None:
        _log.info("Registering", extra={"virtual_cluster": vc.name})
        access = await self.access_of(vc)
        cluster = cluster_objects.new_cluster(
            vc, self.clusters.id_of(vc.name), self.clusters.agent, self.clusters.host, access
        )
        created = await self._written(vc.name, self.hub.create(hub_clusters.CLUSTERS_PATH, cluster))
        if isinstance(created, Requeue):
            return created
        await self.state.remember(vc.name, hub_clusters.ClusterRecord(uid_of(created), settings))
        cluster = self.clusters.ours(vc.name) or created  # the hub has written it meanwhile
        return await self._maintain(vc, cluster, self.state.cluster(vc.name), settings)

    async def _maintain(
        self,
        vc: VirtualCluster,
        cluster: Object,
        record: hub_clusters.ClusterRecord | None,
        settings: str,
    ) -> Requeue | None:
        if cluster["metadata"].get("deletionTimestamp"):
            await self.state.remember_deleted(vc.name, uid_of(cluster), settings)
            return None
        self._once.ended(vc.name)
        self.registrations.reregister.discard(vc.name)  # not after a later deletion
        changes = cluster_objects.cluster_changes(
            cluster,
            vc,
            self.clusters.agent,
            self.clusters.host,
            settings_changed=record is None or record.settings != settings,
        )
        if changes:
            version = {"resourceVersion": hub_clusters.version_of(cluster)}
            changes["metadata"] = {**changes.get("metadata", {}), **version}
            patched = self.hub.merge_patch(f"{hub_clusters.CLUSTERS_PATH}/{vc.name}", changes)
            if isinstance(answer := await self._written(vc.name, patched), Requeue):
                return answer
        await self.state.remember(vc.name, hub_clusters.ClusterRecord(uid_of(cluster), settings))
        return None

    async def _written(self, name: str, write: Awaitable[Object]) -> Object | Requeue:
        try:
            cluster = await write
        except InvalidError as error:
            return self._refused(name, str(error))
        except (AlreadyExistsError, NotFoundError):
            return Requeue(0.5)  # the watch will report it; then it is ours, or a conflict
        self.clusters.store.observe(cluster)
        return cluster

    def _refused(self, name: str, text: str) -> Requeue:
        self.registrations.troubles[name] = text
        self._once.error("Not registered", about=name, virtual_cluster=name, reason=text)
        return REFUSED_RETRY
