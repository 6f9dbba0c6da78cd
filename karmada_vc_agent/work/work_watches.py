"""Which Works are watched, and which a change concerns.

There is a watch for each registered virtual cluster, or one for all. Of Works of those that are not
served the one watch keeps next to nothing, so one that is added later has a watch of its own.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial

from karmada_vc_agent.cluster import virtual_clusters
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.rules.conditions import find_condition
from karmada_vc_agent.cluster.virtual_clusters import Claim, Membership, Scopes, VirtualClusters
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.flows import ALONE, Supervisor, measured
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store, is_echo
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
    text_at,
    uid_of,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.guards import shared_names
from karmada_vc_agent.work import memory_bounds
from karmada_vc_agent.work.reporting import Dependency, kind_dependency
from karmada_vc_agent.work.served_kinds import Concerns
from karmada_vc_agent.work.works import (
    WorkKey,
    Works,
    key_of_work,
    manifests_of,
    namespaces_used,
    new_store,
    trim,
    work_path,
)

ALL_WORKS_PATH = "/apis/work.karmada.io/v1alpha1/works"

OnChange = Callable[[str, Object | None, Object | None], None]
"""(virtual cluster, old Work, new Work)"""


@dataclass(eq=False)
class WorkWatches:
    """Starts and stops reflectors of Works; `works` reads what they list.

    clusters: those that are served now. cluster_wide: one watch over all, which needs the right.
    """

    hub: ApiClient
    clusters: Collection[str]
    on_change: OnChange
    bounds: memory_bounds.WorkBounds
    _: KW_ONLY
    cluster_wide: bool
    supervisor: Supervisor = ALONE

    def __post_init__(self) -> None:
        self._covered: set[str] = set()
        self._stores: dict[str, Store[Object]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._reflectors: dict[str, Reflector[Object]] = {}
        self._requested = asyncio.Event()
        self.works = Works(self._stores)

    def start(self, cluster: str) -> None:
        """Watch the Works of a virtual cluster from now on; their store is there at once."""
        if not self._is_covered(cluster) and cluster not in self._stores:
            self._stores[cluster] = self._new_store(lambda: (cluster,))
        self._requested.set()

    def stop(self, cluster: str) -> None:
        """Watch them no longer; what is cached of them is dropped."""
        if self._is_covered(cluster):
            return  # its Works are read on: no other watch does
        task = self._running.pop(cluster, None)
        self._reflectors.pop(cluster, None)
        if task is not None:
            task.cancel()
        works, store = self.works.of(cluster), self._stores.pop(cluster, None)
        self.bounds.forget_cluster(cluster)
        for work in works if store is self._stores.get("") else ():
            trim(work, memory_bounds.NOT_MEASURED)  # the one watch for all keeps its identity

    def leave(self, cluster: str) -> None:
        """Watch them no longer, not even by the one watch for all; `start` lists them again."""
        if cluster in self._covered:
            self._stores.setdefault(cluster, self._stores[""])  # to drop what it holds of it
        self._covered.discard(cluster)
        self.stop(cluster)

    def failing_s(self, cluster: str) -> float:
        """Return for how long the Works of a virtual cluster are not followed, 0 if they are."""
        reflector = self._reflectors.get("" if cluster in self._covered else cluster)
        return reflector.failing_s if reflector is not None else 0.0

    async def run(self) -> None:
        """Watch what was started until cancelled; go on with what an earlier run began."""
        self._running.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                self._requested.clear()
                for cluster in [each for each in self._stores if each not in self._running]:
                    store = self._stores[cluster]
                    if cluster == "" or store is not self._stores.get(""):
                        self._watch(group, cluster, store)
                await self._requested.wait()

    def _is_covered(self, cluster: str) -> bool:
        if self.cluster_wide and "" not in self._stores:
            self._covered = set(self.clusters)
            self._stores[""] = self._new_store(lambda: self._covered)
            self._requested.set()
        if cluster in self._covered:
            self._stores.setdefault(cluster, self._stores[""])
        return cluster in self._covered

    def _watch(self, group: asyncio.TaskGroup, cluster: str, store: Store[Object]) -> None:
        path = work_path(vocabulary.execution_namespace(cluster)) if cluster else ALL_WORKS_PATH
        reflector = self._reflectors[cluster] = Reflector(self.hub, path, store.codec, store)

        async def run() -> None:
            with flows.of(cluster):
                await measured(reflector.run())

        start = self.supervisor.start
        self._running[cluster] = start(group, "reflector", run, f"reflector {path}")

    def _new_store(self, read: Callable[[], Collection[str]]) -> Store[Object]:
        codec = memory_bounds.WorkCodec(self.bounds, read)
        store = new_store(codec)
        store.add_handler(partial(self._changed, read))
        store.on_replaced = lambda _: self.bounds.listed(store, read())
        return store

    def _changed(
        self, read: Callable[[], Collection[str]], old: Object | None, new: Object | None
    ) -> None:
        work = new or old
        cluster = key_of_work(work)[0] if work is not None else ""
        if work is None or cluster not in read():
            return
        if new is not None:
            self.bounds.observe(new, None)  # again, where it was observed and not decoded
        else:
            self.bounds.remove(work)
        if cluster in self.clusters:
            self.on_change(cluster, old, new)


@dataclass(eq=False)
class RegisteredClusters:
    """Watches Works of registered virtual clusters; became: Ready; disputed: a node's owner."""

    virtual_clusters: VirtualClusters
    clusters: HubClusters
    membership: Membership
    watches: WorkWatches
    scopes: Scopes

    def __post_init__(self) -> None:
        self._ready: dict[str, str | None] = self.scopes.keep()
        self.became: Signal[[str]] = Signal()
        self.disputed: Signal[[str]] = Signal()
        self.clusters.store.add_handler(self._changed)
        self.virtual_clusters.changed.subscribe(self._settings_changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        cluster = new or old
        name = cluster["metadata"]["name"] if cluster else ""
        if name not in self.virtual_clusters:
            is_ours = self.clusters.is_ours  # of another process: which of its nodes it has
            if name in self.virtual_clusters.everywhere and is_ours(old) != is_ours(new):
                self._reconsider()
            return
        # Not compared with `old`: after our own write that is what we wrote (Store.observe).
        is_new = name not in self._ready
        if self.clusters.ours(name) is None:
            if not is_new or self.clusters.is_ours(old):
                self._end(name)
            return
        self.watches.start(name)
        if is_new:
            self._reconsider()
            for work in self.watches.works.of(name):  # the one watch for all has listed them
                self.watches.on_change(name, None, work)
        condition = find_condition(dig(cluster, "status", "conditions"), "Ready")
        ready = condition and condition["status"]
        if self._ready.setdefault(name, None) != ready:
            self._ready[name] = ready
            self.became.emit(name)

    def _settings_changed(self, old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        name = virtual_clusters.name_of_change(old, new)
        if new is None:
            self.watches.leave(name)
            self._end(name)
        elif old is None:
            self._changed(None, self.clusters.store.get("", name))
        elif old.bounds != new.bounds:  # of what was out, not all is cached
            self.watches.leave(name)
            if self.clusters.ours(name) is not None:
                self.watches.start(name)

    def _end(self, name: str) -> None:
        self.watches.stop(name)
        self.scopes.end(name)
        self._reconsider()

    def _reconsider(self) -> None:
        for node in self.membership.reconsider():
            self.disputed.emit(node)


@dataclass(eq=False)
class AffectedWorks:
    """Finds Works of served virtual clusters. depending_on_claims: ids of those of one."""

    virtual_clusters: Container[str]
    works: Works
    clusters: HubClusters
    depending_on_claims: Callable[[str], Iterable[str]]

    def by_id(self, work: str) -> list[WorkKey]:
        """Return the key of `<execution namespace>/<name>`; none if its cluster is not served."""
        cluster, name = vocabulary.cluster_of_work(work), work.partition("/")[2]
        return [(cluster, name)] if cluster in self.virtual_clusters else []

    def of_clusters(self, clusters: Iterable[str]) -> Iterator[WorkKey]:
        """Yield all Works of some virtual clusters."""
        return ((cluster, name) for cluster in clusters for name in self.works.names(cluster))

    def by_work(self, cluster: str, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works in the namespaces of a deleted Work: they may wait for its deletion."""
        if old is not None and new is None:
            for namespace in namespaces_used(old):
                yield cluster, vocabulary.work_name("Namespace", namespace, "")

    def by_cluster(self, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works of a Cluster that is being deleted."""
        name = text_at(new or old, "metadata", "name")
        if name in self.virtual_clusters and self.clusters.is_deleting(name):
            yield from self.of_clusters((name,))

    def by_meaning(self, clusters: Iterable[str], concerns: Concerns) -> Iterator[WorkKey]:
        """Yield the Works with objects whose interpretation changed."""
        for cluster in clusters:
            for work in self.works.of(cluster):
                if any(concerns(gvk_of(manifest)) for manifest in manifests_of(work)):
                    yield cluster, work["metadata"]["name"]

    def by_namespace(self, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works affected by a change of the claim on a host namespace."""
        for claim in changed_claims(old, new):
            if claim.cluster in self.virtual_clusters:
                # Its Work, if there is one, takes over a namespace that was claimed on demand.
                yield claim.cluster, vocabulary.work_name("Namespace", claim.namespace, "")
                for work in self.depending_on_claims(claim.cluster):
                    yield from self.by_id(work)
                if old and new:  # changes of what it holds are reported only while it is claimed
                    yield from map(key_of_work, self.works.of(claim.cluster, claim.namespace))


def changed_claims(old: Object | None, new: Object | None) -> Iterable[Claim]:
    """Return the claims of a host namespace, old and new, if they differ."""
    before, after = (virtual_clusters.claim_of(obj) if obj else None for obj in (old, new))
    return virtual_clusters.claims_in(old, new) if before != after else ()


@dataclass(eq=False)
class DependencyChanges:
    """Handlers of changes; emit: receives the dependencies that changed."""

    virtual_clusters: Iterable[str]
    emit: Callable[[set[Dependency]], None]

    def __post_init__(self) -> None:
        self._scopes: Mapping[GroupVersionKind, bool] = {}

    def cluster(self, cluster: str) -> None:
        """Report a virtual cluster: its readiness, nodes or window changed."""
        self.emit({cluster})

    def namespace(self, old: Object | None, new: Object | None) -> None:
        """Report a host namespace, and the virtual clusters whose claim on it changed."""
        changed: set[Dependency] = {claim.cluster for claim in changed_claims(old, new)}
        before, after = (each and (labels_of(each), annotations_of(each)) for each in (old, new))
        if before != after:
            changed.add((text_at(new or old, "metadata", "name"),))
        self.emit(changed)

    def node_group(self, old: Object | None, new: Object | None) -> None:
        """Report a NodeGroup whose spec changed."""
        group = new or old
        if group is not None and dig(old, "spec") != dig(new, "spec"):
            self.emit({(group["metadata"]["name"],)})

    def served(self, served: ServedApis) -> None:
        """Report new or rescoped kinds; the first ones, and NodeGroups, concern all."""
        before = self._scopes
        self._scopes = {gvk: resource.namespaced for gvk, resource in served.by_kind.items()}
        kinds = [gvk for gvk, scope in self._scopes.items() if before.get(gvk) != scope]
        changed = set(map(kind_dependency, kinds))
        if not before or virtual_clusters.NODE_GROUP in kinds:
            changed.update(self.virtual_clusters)
        self.emit(changed)

    def own_object(self, old: Object | None, new: Object | None) -> None:
        """Report the names an object released, and once deleted its kind, for which a CRD waits."""
        if old is None:
            return
        released = shared_names(old).keys() - shared_names(new or {}).keys()
        kind = () if new is not None else ("/".join(gvk_of(old).group_kind),)
        changed: set[Dependency] = {(name,) for name in (*released, *kind)}
        if changed:
            self.emit(changed)


_OF_EACH_WRITE = frozenset(("resourceVersion", "managedFields"))
_Version = tuple[str, str]
"""(uid, resourceVersion)"""


class HeldChanges:
    """Holds changes for Works being synced.

    Watches are often faster than the responses to writes. So a change is held until the sync ends,
    and then enqueues its Work again unless the sync has seen it.
    """

    def __init__(
        self, enqueue: Callable[[WorkKey], None], enqueue_status: Callable[[WorkKey, Object], None]
    ) -> None:
        self._enqueue, self._enqueue_status = enqueue, enqueue_status
        self._held: dict[WorkKey, tuple[set[_Version], set[_Version]]] = {}
        self.writing: dict[WorkKey, Object] = {}
        """Statuses that are being written: a watch event with just that enqueues nothing."""
        self.current: set[WorkKey] = set()
        """Works since whose last sync nothing changed that any may depend on, but themselves."""

    def begin(self, key: WorkKey) -> bool:
        """Start to hold what changes: a sync begins; return whether the last one is current."""
        self._held[key] = (set(), set())
        is_current = key in self.current
        self.current.add(key)
        return is_current

    def dependencies_changed(self, changed: set[Dependency]) -> None:
        """Have each Work synced in full at its next change, even if it is of a status alone."""
        if changed:
            self.current.clear()

    def end(self, key: WorkKey) -> None:
        """Enqueue a Work if anything changed that its sync missed."""
        held, seen = self._held.pop(key, (set(), set()))
        if held - seen:
            self._enqueue(key)

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Enqueue a Work that was added, changed or deleted, but for our own writes."""
        work = new or old
        if work is None or is_echo(old, new):
            return
        key = (cluster, work["metadata"]["name"])
        is_ours = key in self.writing and work.get("status") == self.writing[key]
        if not (is_ours and old and new and _fixed_metadata_of(old) == _fixed_metadata_of(new)):
            self.changed(key, new)

    def changed(self, key: WorkKey, obj: Object | None, old: Object | None = None) -> None:
        """Enqueue a Work for a change (None = deletion); if it is being synced, at the end.

        old: the host object before, if that is what changed; its status alone is synced by itself.
        """
        if key in self._held and obj is not None:
            self._held[key][0].add(_version_of(obj))
        elif obj is not None and old is not None and _is_status_alone(old, obj):
            self._enqueue_status(key, obj)
        else:
            self._enqueue(key)

    def saw(self, key: WorkKey, obj: Object) -> None:
        """Record that the sync of a Work has seen this version."""
        if key in self._held:
            self._held[key][1].add(_version_of(obj))


def _fixed_metadata_of(work: Object) -> Object:
    return {key: value for key, value in work["metadata"].items() if key not in _OF_EACH_WRITE}


def _is_status_alone(old: Object, new: Object) -> bool:
    are_whole = memory_bounds.ObjectIdentity not in (type(old), type(new))
    return are_whole and _fixed_of(old) == _fixed_of(new)


def _fixed_of(obj: Object) -> Object:
    return {**obj, "metadata": _fixed_metadata_of(obj), "status": None}


def _version_of(obj: Object) -> _Version:
    return uid_of(obj), str(obj["metadata"].get("resourceVersion") or "")


_log = logging.getLogger(__name__)

SETTLES_S = 5.0
"""A node that joins gets its taints shortly after; templates must not roll twice for it."""


async def follow_taints(
    membership: Membership, works: Works, enqueue: Callable[[WorkKey], None], cluster: str
) -> None:
    """Enqueue the Works of a virtual cluster if the taints of its nodes changed."""
    if not membership.refresh_taints(cluster):
        return
    names = ", ".join(f"{t.key}={t.value}:{t.effect}" for t in membership.taints_of(cluster))
    extra = {"virtual_cluster": cluster, "taints": names or "none"}
    _log.info("Tolerating the taints of the nodes", extra=extra)
    for name in works.names(cluster):
        enqueue((cluster, name))
