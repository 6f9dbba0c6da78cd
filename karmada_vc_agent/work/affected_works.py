"""Which Works a change concerns: those to be synced again.

Keys are (virtual cluster, name of the Work). Those that failed wait in the queue, by what they
depend on.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from karmada_vc_agent.cluster.claims import Claim, claim_of, claims_in
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.virtual_clusters import NODE_GROUP, Membership
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace, work_name
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
    uid_of,
)
from karmada_vc_agent.translation.shared_names import shared_names
from karmada_vc_agent.work.interpreter_rules import Concerns
from karmada_vc_agent.work.targets import Dependency, kind_dependency
from karmada_vc_agent.work.works import WorkKey, Works, namespaces_used


@dataclass(eq=False)
class AffectedWorks:
    """Finds Works of served virtual clusters. depending_on_claims: ids of those of one."""

    virtual_clusters: Container[str]
    works: Works
    clusters: HubClusters
    depending_on_claims: Callable[[str], Iterable[str]]

    def by_id(self, work: str) -> list[WorkKey]:
        """Return the key of `<execution namespace>/<name>`, None if its cluster is not served."""
        namespace, _, name = work.partition("/")
        cluster = cluster_of_execution_namespace(namespace) or ""
        return [(cluster, name)] if cluster in self.virtual_clusters else []

    def of_clusters(self, clusters: Iterable[str]) -> Iterator[WorkKey]:
        """Yield all Works of some virtual clusters."""
        return ((cluster, name) for cluster in clusters for name in self.works.names(cluster))

    # --- the hub ------------------------------------------------------------------------

    def by_work(self, cluster: str, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works in the namespaces of a deleted Work: they may wait for its deletion."""
        if old is not None and new is None:
            for namespace in namespaces_used(old):
                yield cluster, work_name("Namespace", namespace, "")

    def by_cluster(self, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works of a Cluster that is being deleted."""
        name = (new or old or {"metadata": {"name": ""}})["metadata"]["name"]
        if name in self.virtual_clusters and self.clusters.is_deleting(name):
            yield from self.of_clusters((name,))

    def by_meaning(self, clusters: Iterable[str], concerns: Concerns) -> Iterator[WorkKey]:
        """Yield the Works with objects whose interpretation changed."""
        for cluster in clusters:
            for work in self.works.with_kind(cluster, concerns):
                yield cluster, work

    # --- the host -----------------------------------------------------------------------

    def by_namespace(self, old: Object | None, new: Object | None) -> Iterator[WorkKey]:
        """Yield the Works affected by a change of the claim on a host namespace."""
        before, after = (claim_of(obj) if obj else None for obj in (old, new))
        if before != after:
            for claim in claims_in(old, new):
                if claim.cluster in self.virtual_clusters:
                    yield from self._by_claim(claim)

    def _by_claim(self, claim: Claim) -> Iterator[WorkKey]:
        # Its Work, if there is one, takes over a namespace that was claimed on demand.
        yield claim.cluster, work_name("Namespace", claim.namespace, "")
        for work in self.depending_on_claims(claim.cluster):
            yield from self.by_id(work)


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
        changed: set[Dependency] = set()
        before, after = (claim_of(obj) if obj else None for obj in (old, new))
        if before != after:
            changed.update(claim.cluster for claim in claims_in(old, new))
        namespace = new or old
        if namespace is not None and (old is None or new is None or _marks(old) != _marks(new)):
            changed.add((namespace["metadata"]["name"],))
        self.emit(changed)

    def node_group(self, old: Object | None, new: Object | None) -> None:
        """Report a NodeGroup whose spec changed."""
        group = new or old
        if group is not None and dig(old, "spec") != dig(new, "spec"):
            self.emit({(group["metadata"]["name"],)})

    def served(self, served: ServedApis) -> None:
        """Report kinds that are newly served or rescoped.

        All kinds of the first call, and NodeGroups, concern every virtual cluster.
        """
        before = self._scopes
        self._scopes = {gvk: resource.namespaced for gvk, resource in served.by_kind.items()}
        kinds = [gvk for gvk, scope in self._scopes.items() if before.get(gvk) != scope]
        of_all = not before or NODE_GROUP in kinds
        self.emit({*map(kind_dependency, kinds), *(self.virtual_clusters if of_all else ())})

    def own_object(self, old: Object | None, new: Object | None) -> None:
        """Report what an object released: its names, and its kind once it is deleted.

        The definition of a kind may wait for the last object of it.
        """
        if old is None:
            return
        released = shared_names(old).keys() - shared_names(new or {}).keys()
        changed: set[Dependency] = {(name,) for name in released}
        if new is None:
            gvk = gvk_of(old)
            changed.add((f"{gvk.group}/{gvk.kind}",))
        if changed:
            self.emit(changed)


def _marks(obj: Object) -> tuple[Object, Object]:
    return labels_of(obj), annotations_of(obj)


_OF_EACH_WRITE = frozenset(("resourceVersion", "managedFields"))
_Version = tuple[str, str]
"""(uid, resourceVersion)"""


class HeldChanges:
    """Holds changes for Works being synced, or whose status is being written.

    Watches are often faster than the responses to writes. So a change is held until the sync ends,
    and then enqueues its Work again unless the sync has seen it.
    """

    def __init__(self, enqueue: Callable[[WorkKey], None]) -> None:
        self._enqueue = enqueue
        self._held: dict[tuple[WorkKey, bool], tuple[set[_Version], set[_Version]]] = {}

    def begin(self, key: WorkKey, *, is_status: bool = False) -> None:
        """Start to hold what changes: a sync of a Work begins, or a write of its status."""
        self._held[key, is_status] = (set(), set())

    def end(self, key: WorkKey, *, is_status: bool = False) -> None:
        """Enqueue a Work if anything changed that its sync, or the writer of its status, missed."""
        held, seen = self._held.pop((key, is_status), (set(), set()))
        if held - seen:
            self._enqueue(key)

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Enqueue a Work that was added, changed or deleted, unless its sync has seen that."""
        work = new or old
        if work is None or is_echo(old, new):
            return
        key = (cluster, work["metadata"]["name"])
        writing = self._held.get((key, True))
        if new is not None and writing is not None:
            # A sync meanwhile takes the status for written, though it may be changed again.
            writing[0].add(_version_of(new))
            if _is_of_status(old, new):
                return
        self.changed(key, new)

    def changed(self, key: WorkKey, obj: Object | None) -> None:
        """Enqueue a Work because it or an object of it changed; if it is being synced, at the end.

        obj: its current state; None = deleted.
        """
        syncing = self._held.get((key, False))
        if syncing is None or obj is None:
            self._enqueue(key)
        else:
            syncing[0].add(_version_of(obj))

    def saw(self, key: WorkKey, obj: Object) -> None:
        """Record that the sync of a Work, or who writes its status, knows this version."""
        for is_status in (True, False):
            if (key, is_status) in self._held:
                self._held[key, is_status][1].add(_version_of(obj))


def _is_of_status(old: Object | None, new: Object) -> bool:
    """Return whether a Work differs from before in its status at most."""
    return old is not None and _fixed_metadata_of(old) == _fixed_metadata_of(new)


def _fixed_metadata_of(work: Object) -> Object:
    return {key: value for key, value in work["metadata"].items() if key not in _OF_EACH_WRITE}


def _version_of(obj: Object) -> _Version:
    return uid_of(obj), str(obj["metadata"].get("resourceVersion") or "")


_log = logging.getLogger(__name__)

SETTLES_S = 5.0
"""A node that joins gets its taints shortly after; templates must not roll twice for it."""


async def follow_taints(
    membership: Membership, works: Works, enqueue: Callable[[WorkKey], None], cluster: str
) -> None:
    """Enqueue the Works of a virtual cluster if the taints of its nodes changed.

    Writes nothing: tolerations are part of the translation of each Work.
    """
    if not membership.refresh_taints(cluster):
        return
    names = ", ".join(f"{t.key}={t.value}:{t.effect}" for t in membership.taints_of(cluster))
    extra = {"virtual_cluster": cluster, "taints": names or "none"}
    _log.info("Tolerating the taints of the nodes", extra=extra)
    for name in works.names(cluster):
        enqueue((cluster, name))
