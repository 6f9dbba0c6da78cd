"""Removes from the host what a Work created; counts what has no Work.

A Cluster that is being deleted takes its execution namespace along, and the rights in there may be
deleted before the Works. So all its Works are cleaned up as soon as the Cluster has its
deletionTimestamp; if the hub then denies removing the finalizers, the Cluster is reported not
Ready, upon which Karmada strips them itself. Where the Cluster was not Ready before, as with nodes
that are away (ADR 33), it does so at once: Works that it took away meanwhile are cleaned up from
what is cached of them.

While hub or host may be at an earlier state (kube/store.py), as after a restore from a backup,
nothing is cleaned up: a real deletion is still there when everything was listed again.

A Work may be recreated under its name before the deletion of the first was seen, and a Cluster
likewise: what is remembered of either is bound to its uid.

Orphans: They are for a person to judge: `karmada-vc-agent leave --prune` lists and removes them.
What a start from an old checkpoint made, or a restored host brings back, is among them. Only an
empty role that the agent made for a moment, and could not remove, is deleted (host_objects.py).
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter

from karmada_vc_agent.cluster.host_objects import labelled_objects
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.virtual_clusters import Claims, Scopes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, Requeue, RetryError, Signal
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.errors import ForbiddenError, NotFoundError, UnreachableError, need_of
from karmada_vc_agent.kube.flows import for_each
from karmada_vc_agent.kube.store import doubt_of
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
    namespaced_name,
    text_at,
    uid_of,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_LABEL,
    EXECUTION_FINALIZER,
    STAND_IN_ANNOTATION,
    execution_namespace,
    is_report,
)
from karmada_vc_agent.translation.kind_policy import Policy, policy_for
from karmada_vc_agent.work.host_objects import BOUND, remove_stand_in
from karmada_vc_agent.work.manifests import Manifests
from karmada_vc_agent.work.reporting import Failure, WorkManifest, unless_bug
from karmada_vc_agent.work.rules.apply_plan import object_id
from karmada_vc_agent.work.rules.ownership import work_of
from karmada_vc_agent.work.works import (
    WorkKey,
    Works,
    aggregate,
    id_of_work,
    is_preserved,
    key_of_work,
    manifests_of,
    namespaces_used,
    work_path,
)

_log = logging.getLogger(__name__)

_CLEAN = "the host is clean, and the agent no longer has rights in the execution namespace"
_TOO_LATE = (
    "the agent had no rights in the execution namespace any more when it started; what the Works "
    "created stays on the host until karmada-vc-agent leave removes it"
)


@dataclass(eq=False)
class WorkFinalizer:
    """Finalises Works; remembers which are clean, and whose finalizers the hub keeps from us.

    on_rights_lost: called with such a Cluster. enqueue: called with the Works that an object is
    left to. on_failure: called with a Work, its virtual cluster and why it is not removed.
    """

    hub: ApiClient
    host: ApiClient
    clusters: HubClusters
    works: Works
    manifests: Manifests
    scopes: Scopes
    on_rights_lost: Callable[[str], None]
    enqueue: Callable[[str], None] = lambda _: None
    on_failure: Callable[[Object, str, str], None] = lambda *_: None

    def __post_init__(self) -> None:
        self._cleaned: dict[WorkKey, str] = self.scopes.keep_by(itemgetter(0))
        self._taken: dict[WorkKey, Object] = self.scopes.keep_by(itemgetter(0))
        self._barred: dict[str, str] = self.scopes.keep()
        self._preserved: dict[str, bool] = self.scopes.keep()
        self.before_removal: list[Callable[[str, Object], Awaitable[None]]] = []
        """Awaited with a virtual cluster and a Work, before the objects of that are removed."""

    def preserve(self, cluster: str, *, is_on: bool) -> None:
        """Have all Works of a virtual cluster leave what they created, or as each of them says.

        The mark on a Work alone does not last: the hub writes the Work again from its binding.
        """
        self._preserved[cluster] = is_on

    def is_removing(self, cluster: str) -> bool:
        """Return whether the host removes a virtual cluster, not only the hub its Cluster."""
        return cluster in self._preserved and self.clusters.is_deleting(cluster)

    def preserves(self, cluster: str, work: Object) -> bool:
        """Return whether what a Work created stays when it is deleted."""
        is_all_kept = self._preserved.get(cluster) or self.clusters.preserves(cluster)
        return is_all_kept or is_preserved(work)

    def is_due(self, cluster: str, work: Object) -> bool:
        """Return whether a Work is being deleted, by itself or with its Cluster."""
        has_mark = bool(work["metadata"].get("deletionTimestamp"))
        return has_mark or self.clusters.is_deleting(cluster)

    def why_terminating(self, cluster: str) -> str:
        """Return why only the hub can finalise the Works of a Cluster, "" while the agent can."""
        if not self.clusters.is_deleting(cluster):
            return ""
        if self._is_too_late(cluster):
            return _TOO_LATE
        is_barred = self._barred.get(cluster) == uid_of(self.clusters.ours(cluster))
        is_clean = is_barred and all(map(self._is_cleaned, self.works.of(cluster)))
        return _CLEAN if is_clean else ""

    def _is_too_late(self, cluster: str) -> bool:
        """Return whether the hub deleted the right to list the Works before they were listed.

        No one can add any in an execution namespace that is being deleted.
        """
        store = self.works.store(cluster)
        need = need_of("GET", work_path(execution_namespace(cluster)))
        is_listed = store is not None and store.is_synced
        return not is_listed and need in self.hub.denials.lasting()

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Keep a Work that the hub takes away with its Cluster before it is cleaned up."""
        if old is None or new is not None:
            return
        store = self.works.store(cluster)
        if store is None or not store.is_synced:
            return  # it was of the checkpoint, by which nothing is deleted
        if self.clusters.is_deleting(cluster) and not self._is_cleaned(old):
            self._taken[key_of_work(old)] = old

    def taken(self, key: WorkKey) -> Object | None:
        """Return a Work that the hub took away, while it is to be cleaned up still."""
        return self._taken.get(key) if self.clusters.is_deleting(key[0]) else None

    def forget(self, key: WorkKey) -> None:
        """Forget a deleted Work."""
        self._cleaned.pop(key, None)
        self._taken.pop(key, None)

    def abandon(self, cluster: str, name: str, uid: str) -> None:
        """Leave what a Work created: only its finalizer is removed."""
        self._cleaned[cluster, name] = uid

    def _is_cleaned(self, work: Object) -> bool:
        return self._cleaned.get(key_of_work(work)) == uid_of(work)

    async def finalise(self, vc: VirtualCluster, work: Object) -> None:
        """Remove what a Work created, then its finalizer. Raises KubeError, RetryError."""
        metadata = work["metadata"]
        key = (vc.name, metadata["name"])
        finalizers = metadata.get("finalizers") or []
        is_held = EXECUTION_FINALIZER in finalizers
        if not is_held and (is_report(work) or not self.clusters.is_deleting(vc.name)):
            self._cleaned[key] = metadata["uid"]
            return
        if not self._is_cleaned(work):
            if doubt := doubt_of(self.hub.history, self.host.history):
                raise NotReadyError(doubt)
            self._wait_for_works(vc)
            for wait in self.before_removal:
                await wait(vc.name, work)
            if await self._clean(vc, work):
                self._cleaned[key] = metadata["uid"]
        if not is_held or self._taken.pop(key, None) is not None:
            return
        try:
            answer = await remove_finalizer(self.hub, work)
        except NotFoundError:
            return
        except ForbiddenError:
            if self.clusters.is_deleting(vc.name):
                self._barred[vc.name] = uid_of(self.clusters.ours(vc.name))
                self.on_rights_lost(vc.name)
            raise
        self._observe(answer)

    def _observe(self, work: Object) -> None:
        store = self.works.store_of_namespace(work["metadata"]["namespace"])
        if store is None:
            return
        if work["metadata"].get("deletionTimestamp") and not work["metadata"].get("finalizers"):
            # Its host objects are deleted, too: their watch events must not finalise it again.
            store.remove(work)
        else:
            work["metadata"].pop("managedFields", None)
            store.observe(work)

    async def _clean(self, vc: VirtualCluster, work: Object) -> bool:
        """Remove what a Work created; return False if it was abandoned and still exists."""
        is_up = self.clusters.is_ready(vc.name) or self.clusters.is_deleting(vc.name)
        if not is_up and not self.preserves(vc.name, work):
            raise NotReadyError(f"cluster({vc.name}) not ready")
        try:
            failures = await self._remove_all(vc, work)
        except UnreachableError:
            if self.clusters.is_ready(vc.name) or not self.clusters.is_deleting(vc.name):
                raise
            _log.warning(
                "Abandoning the host objects of a deleted Cluster: the host does not answer",
                extra={"virtual_cluster": vc.name, "work": work["metadata"]["name"]},
            )
            return False
        if failures:
            text = aggregate([failure.text for failure in failures])
            self.on_failure(work, vc.name, text)
            waits_for = {each for failure in failures for each in failure.waits_for}
            is_own = any(not failure.waits_for for failure in failures)
            raise RetryError(text, waits_for, is_own=is_own)
        return True

    async def _remove_all(self, vc: VirtualCluster, work: Object) -> list[Failure]:
        """Remove all manifests, and those of namespaces last: the rights in these end with them.

        One that fails, as in a held namespace, stops no other, but the namespaces of its Work.
        """
        manifests, remove = manifests_of(work), partial(self._remove, vc, work)
        spaces = [manifest for manifest in manifests if _is_namespace(manifest)]
        others = [manifest for manifest in manifests if not _is_namespace(manifest)]
        failures = list(filter(None, await for_each(others, remove)))
        return failures or list(filter(None, await for_each(spaces, remove)))

    async def _remove(self, vc: VirtualCluster, work: Object, manifest: Object) -> Failure | None:
        """Remove one manifest; return why it is not. Raises RetryError, UnreachableError."""
        item = WorkManifest(vc, manifest, id_of_work(work))
        return await unless_bug(item, self._remove_unless_used(work, item))

    async def _remove_unless_used(self, work: Object, item: WorkManifest) -> Failure | None:
        vc = item.vc
        self._wait_for_works(vc)
        if self._is_left_to_others(vc.name, work, item.manifest):
            return None
        self._wait_for_users(vc, work, item.manifest)
        return await self.manifests.remove(item, preserve=self.preserves(vc.name, work))

    def _is_left_to_others(self, cluster: str, work: Object, manifest: Object) -> bool:
        """Leave an object to the other Works that have it and stay; they write it again.

        Karmada's agent deletes such an object with either Work (contract 5.8).
        """
        if self.clusters.is_deleting(cluster):
            return False  # none of them stays; a search by each of thousands takes minutes
        desired, namespace = object_id(manifest), text_at(manifest, "metadata", "namespace")
        others = (
            self.works.using_namespace(cluster, namespace) if namespace else self.works.of(cluster)
        )
        heirs = [
            other
            for other in others
            if not other["metadata"].get("deletionTimestamp")
            and any(
                dig(each, "metadata", "name") == desired[2] and object_id(each) == desired
                for each in manifests_of(other)
            )
            and uid_of(other) != uid_of(work)
            and not is_report(other)
        ]
        for heir in heirs:
            self.enqueue(id_of_work(heir))
        return bool(heirs)

    def _wait_for_works(self, vc: VirtualCluster) -> None:
        """Raise NotReadyError until all Works are listed, and what they use.

        So it is once the virtual cluster is served no more: then nothing of it is removed.
        """
        store = self.works.store(vc.name)
        if store is None or not store.is_synced:
            raise NotReadyError(f"the Works of cluster({vc.name}) are not listed")

    def _wait_for_users(self, vc: VirtualCluster, work: Object, manifest: Object) -> None:
        """Raise RetryError while another Work needs the Namespace, or the rights in it.

        A preserved one is released, and waits only for Works that are being deleted as well.
        """
        if not _is_namespace(manifest):
            return
        namespace = text_at(manifest, "metadata", "name")
        stays = self.preserves(vc.name, work)
        for name in () if stays else self.works.unreadable(vc.name):
            text = f"namespace {namespace} may be used by work {name or '?'}, which cannot be read"
            raise RetryError(text)
        taken = [other for key, other in self._taken.items() if key[0] == vc.name]
        users = [other for other in taken if namespace in namespaces_used(other)]
        for other in (*self.works.using_namespace(vc.name, namespace), *users):
            if is_report(other):
                continue  # its manifests create nothing in the namespace
            if stays and not self.is_due(vc.name, other):
                continue
            name = other["metadata"]["name"]
            if name != work["metadata"]["name"] and not self._is_cleaned(other):
                raise RetryError(f"namespace {namespace} is still used by work {name}")


async def remove_finalizer(hub: ApiClient, work: Object) -> Object:
    """Remove the agent's finalizer from a Work; return the Work.

    Raises KubeError; ConflictError if the Work changed meanwhile.
    """
    metadata = work["metadata"]
    rest = [name for name in metadata.get("finalizers") or () if name != EXECUTION_FINALIZER]
    patch = {"metadata": {"finalizers": rest, "resourceVersion": metadata["resourceVersion"]}}
    return await hub.merge_patch(work_path(metadata["namespace"], metadata["name"]), patch)


def _is_namespace(manifest: Object) -> bool:
    return policy_for(gvk_of(manifest), namespaced=False) is Policy.MAP


ALL_CLUSTERS = "all virtual clusters"
"""The only key."""
COUNT_EVERY = Requeue(600.0)
"""One look costs a list of metadata for each kind of the host, so it is taken seldom."""
COUNT_WHILE_ANY = Requeue(120.0)
"""They may be being removed: the condition is not to outlast that for long."""
WORKS_SETTLE_S = 5.0
"""Works disappear together, as with the first list after a start from the checkpoint."""
INITIAL_DELAY_S = 30.0
"""The first one waits until what a restart has to apply is applied."""
STAND_IN_LASTS = timedelta(seconds=60.0)
"""A younger one may be in use; clocks that differ by more cost a binding another try."""


@dataclass(eq=False)
class OrphansController:
    """Looks at all virtual clusters together.

    on_count: called with each virtual cluster and the names of its objects that are orphaned.
    """

    host: ApiClient
    discovery: Discovery
    claims: Claims
    works: Works
    clusters: Collection[str]
    on_count: Callable[[str, list[str]], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def reconcile(self, _: str) -> Requeue:
        """Count once; a virtual cluster whose Works are not all listed yet is left out."""
        pairs = ((name, self.works.store(name)) for name in self.clusters)
        stores = {name: store for name, store in pairs if store is not None}
        orphans: dict[str, list[str]] = {
            name: [] for name, store in stores.items() if store.is_synced
        }
        served = await self.discovery.refresh(COUNT_EVERY.after_s)
        homes = [name for cluster in orphans for name in self.claims.of(cluster).values()]
        async for resource, live in labelled_objects(self.host, served, CLUSTER_LABEL, homes):
            cluster = labels_of(live)[CLUSTER_LABEL]
            if cluster not in orphans or await self._has_removed(resource, live):
                continue
            if self._is_orphan(cluster, live):
                metadata = live["metadata"]
                name = namespaced_name(metadata.get("namespace") or "", metadata["name"])
                orphans[cluster].append(f"{resource.gvk.kind} {name}")
        for cluster, names in orphans.items():
            if cluster not in self.clusters or self.works.store(cluster) is not stores[cluster]:
                continue  # it left meanwhile, or its Works are listed again
            self.on_count(cluster, names)
        is_open = any(orphans.values()) or len(orphans) < len(stores)
        return COUNT_WHILE_ANY if is_open else COUNT_EVERY

    async def _has_removed(self, resource: Resource, live: Object) -> bool:
        """Remove a stand-in that is not in use any more; return whether it was one."""
        if resource.gvk.group_kind not in BOUND or STAND_IN_ANNOTATION not in annotations_of(live):
            return False
        metadata = live["metadata"]
        if datetime.fromisoformat(metadata["creationTimestamp"]) <= self.now() - STAND_IN_LASTS:
            path = resource.path(metadata.get("namespace") or "", metadata["name"])
            await remove_stand_in(self.host, path, live)
        return True

    def _is_orphan(self, cluster: str, live: Object) -> bool:
        work = work_of(live)
        if not work or self.works.get(cluster, work) is not None:
            return False
        unread = self.works.unreadable(cluster)
        if work in unread or "" in unread:
            return False  # it exists, though it cannot be read
        metadata = live["metadata"]
        # A namespaced object is ours where its namespace is; a Namespace where it has our claim.
        namespace = metadata.get("namespace") or metadata["name"]
        return not metadata.get("namespace") or namespace in self.claims.of(cluster).values()


def orphan_keys(_cluster: str, old: Object | None, new: Object | None) -> Iterable[str]:
    """Return the key where a Work disappears whose deletion was not seen: it leaves its objects."""
    was_deleted = old is None or old["metadata"].get("deletionTimestamp")
    return () if new is not None or was_deleted else (ALL_CLUSTERS,)


NAMED_ORPHANS = 10
"""Objects of a virtual cluster that are remembered by name."""


class OrphanedObjects:
    """By virtual cluster, as of the last look; changed: one of which the number differs."""

    def __init__(self, scopes: Scopes) -> None:
        self._counted: dict[str, tuple[int, list[str]]] = scopes.keep()
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> tuple[int, list[str]]:
        """Return how many there are, and the names of the first ones."""
        return self._counted.get(cluster, (0, []))

    def counts(self) -> Mapping[str, int]:
        """Return virtual cluster -> how many there are."""
        return {cluster: count for cluster, (count, _) in self._counted.items()}

    def note(self, cluster: str, names: Sequence[str]) -> None:
        """Take the result of a count."""
        before, _ = self.of(cluster)
        self._counted[cluster] = len(names), sorted(names)[:NAMED_ORPHANS]
        if before != len(names):
            self.changed.emit(cluster)
