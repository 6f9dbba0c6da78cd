"""Removes Works and virtual clusters; counts what has no Work.

A Cluster that is being deleted takes its execution namespace along, and the rights in there may be
deleted before the Works. So all its Works are cleaned up at once; if the hub then denies removing
the finalizers, the Cluster is reported not Ready, upon which Karmada strips them itself. Where it
was not Ready before (ADR 33), it does so at once: Works that it took away meanwhile are cleaned up
from what is cached of them.

While hub or host may be at an earlier state (kube/store.py), as after a restore from a backup,
nothing is cleaned up: a real deletion is still there when everything was listed again. What is
remembered of a Work or Cluster is bound to its uid: another one may have its name already.

Orphans are for a person to judge: `karmada-vc-agent leave --prune` lists and removes them.

A departed virtual cluster is one that this agent registered, whose Cluster is no longer on the hub,
and that is not in the settings or stays unregistered by its record. Its objects stay, even one
without other votes. The label of its nodes stays as long as it has namespaces.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from karmada_vc_agent.cluster.host_objects import labelled_objects, unlabel_nodes
from karmada_vc_agent.cluster.hub_clusters import (
    CLUSTERS_PATH,
    AgentState,
    HubClusters,
    find_cluster,
)
from karmada_vc_agent.cluster.registration import VirtualClusterSource
from karmada_vc_agent.cluster.virtual_clusters import Claims, Scopes
from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, Requeue, RetryError, Signal
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.flows import for_each
from karmada_vc_agent.kube.store import doubt_of
from karmada_vc_agent.model.objects import (
    Object,
    dig,
    gvk_of,
    labels_of,
    namespaced_name,
    text_at,
    uid_of,
)
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_LABEL,
    EXECUTION_FINALIZER,
    execution_namespace,
    is_report,
)
from karmada_vc_agent.translation.kind_policy import ClusterScopedKinds, Policy, policy_for
from karmada_vc_agent.work import works
from karmada_vc_agent.work.manifests import Manifests
from karmada_vc_agent.work.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.reporting import Failure, WorkManifest, unless_bug
from karmada_vc_agent.work.rules.apply_plan import object_id
from karmada_vc_agent.work.rules.ownership import work_of
from karmada_vc_agent.work.shared_objects import SharedObjects
from karmada_vc_agent.work.works import WorkKey, Works

_log = logging.getLogger(__name__)

_CLEAN = "the host is clean, and the agent no longer has rights in the execution namespace"
_TOO_LATE = (
    "the agent had no rights in the execution namespace any more when it started; what the Works "
    "created stays on the host until karmada-vc-agent leave removes it"
)


@dataclass(eq=False)
class WorkFinalizer:
    """Finalises Works; remembers which are clean, and whose finalizers the hub keeps from us.

    on_rights_lost: called with such a Cluster. enqueue: with Works that an object is left to.
    on_failure: with a Work, its virtual cluster, and why what it created is not removed.
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
        """Have all Works of a virtual cluster keep what they created, or as each says."""
        self._preserved[cluster] = is_on

    def is_removing(self, cluster: str) -> bool:
        """Return whether the host removes a virtual cluster, not only the hub its Cluster."""
        return cluster in self._preserved and self.clusters.is_deleting(cluster)

    def preserves(self, cluster: str, work: Object) -> bool:
        """Return whether what a Work created stays when it is deleted."""
        is_all_kept = self._preserved.get(cluster) or self.clusters.preserves(cluster)
        return is_all_kept or works.is_preserved(work)

    def is_due(self, cluster: str, work: Object) -> bool:
        """Return whether a Work is being deleted, by itself or with its Cluster."""
        has_mark = bool(work["metadata"].get("deletionTimestamp"))
        return has_mark or self.clusters.is_deleting(cluster)

    def why_terminating(self, cluster: str) -> str:
        """Return why only the hub can finalise the Works of a Cluster, "" while the agent can."""
        if not self.clusters.is_deleting(cluster):
            return ""
        # No one can add the right again in an execution namespace that is being deleted.
        need = errors.need_of("GET", works.work_path(execution_namespace(cluster)))
        if not self._is_listed(cluster) and need in self.hub.denials.lasting():
            return _TOO_LATE
        is_barred = self._barred.get(cluster) == uid_of(self.clusters.ours(cluster))
        is_clean = is_barred and all(map(self._is_cleaned, self.works.of(cluster)))
        return _CLEAN if is_clean else ""

    def _is_listed(self, cluster: str) -> bool:
        store = self.works.store(cluster)
        return store is not None and store.is_synced

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Keep a Work that the hub takes away with its Cluster before it is cleaned up."""
        if old is None or new is not None or not self._is_listed(cluster):
            return  # by a checkpoint nothing is deleted
        if self.clusters.is_deleting(cluster) and not self._is_cleaned(old):
            self._taken[works.key_of_work(old)] = old

    def taken(self, key: WorkKey) -> Object | None:
        """Return a Work that the hub took away, while it is to be cleaned up still."""
        return self._taken.get(key) if self.clusters.is_deleting(key[0]) else None

    def forget(self, key: WorkKey) -> None:
        self._cleaned.pop(key, None)
        self._taken.pop(key, None)

    def abandon(self, cluster: str, name: str, uid: str) -> None:
        """Leave what a Work created: only its finalizer is removed."""
        self._cleaned[cluster, name] = uid

    def _is_cleaned(self, work: Object) -> bool:
        return self._cleaned.get(works.key_of_work(work)) == uid_of(work)

    async def finalise(self, vc: VirtualCluster, work: Object) -> None:
        """Remove what a Work created, then its finalizer. Raises KubeError, RetryError."""
        metadata = work["metadata"]
        key = (vc.name, metadata["name"])
        is_held = EXECUTION_FINALIZER in (metadata.get("finalizers") or [])
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
        except errors.NotFoundError:
            return
        except errors.ForbiddenError:
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
            store.observe(work)

    async def _clean(self, vc: VirtualCluster, work: Object) -> bool:
        is_up = self.clusters.is_ready(vc.name) or self.clusters.is_deleting(vc.name)
        if not is_up and not self.preserves(vc.name, work):
            raise NotReadyError(f"cluster({vc.name}) not ready")
        try:
            failures = await self._remove_all(vc, work)
        except errors.UnreachableError:
            if self.clusters.is_ready(vc.name) or not self.clusters.is_deleting(vc.name):
                raise
            _log.warning(
                "Abandoning the host objects of a deleted Cluster: the host does not answer",
                extra={"virtual_cluster": vc.name, "work": work["metadata"]["name"]},
            )
            return False
        if failures:
            text = works.aggregate([failure.text for failure in failures])
            self.on_failure(work, vc.name, text)
            waits_for = {each for failure in failures for each in failure.waits_for}
            is_own = any(not failure.waits_for for failure in failures)
            raise RetryError(text, waits_for, is_own=is_own)
        return True

    async def _remove_all(self, vc: VirtualCluster, work: Object) -> list[Failure]:
        remove = partial(self._remove, vc, work)
        for is_last in (False, True):
            some = [each for each in works.manifests_of(work) if _is_namespace(each) is is_last]
            if failures := list(filter(None, await for_each(some, remove))):
                return failures
        return []

    async def _remove(self, vc: VirtualCluster, work: Object, manifest: Object) -> Failure | None:
        """Remove one manifest; return why it is not. Raises RetryError, UnreachableError."""
        item = WorkManifest(vc, manifest, works.id_of_work(work))

        async def remove() -> Failure | None:
            self._wait_for_works(vc)
            if self._is_left_to_others(vc.name, work, manifest):
                return None
            self._wait_for_users(vc, work, manifest)
            return await self.manifests.remove(item, preserve=self.preserves(vc.name, work))

        return await unless_bug(item, remove())

    def _is_left_to_others(self, cluster: str, work: Object, manifest: Object) -> bool:
        """Leave an object to other Works that have it, unlike Karmada (contract 5.8)."""
        if self.clusters.is_deleting(cluster):
            return False  # none of them stays; a search by each of thousands takes minutes
        desired, namespace = object_id(manifest), text_at(manifest, "metadata", "namespace")
        heirs = [
            works.id_of_work(other)
            for other in self.works.of(cluster, namespace)
            if not (other["metadata"].get("deletionTimestamp") or is_report(other))
            and uid_of(other) != uid_of(work)
            and any(
                dig(each, "metadata", "name") == desired[2] and object_id(each) == desired
                for each in works.manifests_of(other)
            )
        ]
        for heir in heirs:
            self.enqueue(heir)
        return bool(heirs)

    def _wait_for_works(self, vc: VirtualCluster) -> None:
        """Raise NotReadyError until all Works are listed; those of one left never are."""
        if not self._is_listed(vc.name):
            raise NotReadyError(f"the Works of cluster({vc.name}) are not listed")

    def _wait_for_users(self, vc: VirtualCluster, work: Object, manifest: Object) -> None:
        """Raise RetryError while Works, if it is preserved those deleted, use a Namespace."""
        namespace = text_at(manifest, "metadata", "name")
        if not (namespace and _is_namespace(manifest)):
            return
        stays = self.preserves(vc.name, work)
        for name in () if stays else self.works.unreadable(vc.name):
            text = f"namespace {namespace} may be used by work {name or '?'}, which cannot be read"
            raise RetryError(text)
        taken = [other for key, other in self._taken.items() if key[0] == vc.name]
        users = [other for other in taken if namespace in works.namespaces_used(other)]
        for other in (*self.works.of(vc.name, namespace), *users):
            name, is_leaving = other["metadata"]["name"], self.is_due(vc.name, other)
            if is_report(other) or name == work["metadata"]["name"] or self._is_cleaned(other):
                continue  # a report's manifests create nothing in the namespace
            if is_leaving or not stays:
                raise RetryError(f"namespace {namespace} is still used by work {name}")


async def remove_finalizer(hub: ApiClient, work: Object) -> Object:
    """Remove the agent's finalizer from a Work. Raises KubeError, ConflictError."""
    metadata = work["metadata"]
    rest = [name for name in metadata.get("finalizers") or () if name != EXECUTION_FINALIZER]
    patch = {"metadata": {"finalizers": rest, "resourceVersion": metadata["resourceVersion"]}}
    return await hub.merge_patch(works.work_path(metadata["namespace"], metadata["name"]), patch)


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


@dataclass(eq=False)
class OrphansController:
    """Counts orphans; on_count: called with each virtual cluster and their names."""

    host: ApiClient
    discovery: Discovery
    claims: Claims
    works: Works
    clusters: Collection[str]
    on_count: Callable[[str, list[str]], None]

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
            if cluster in orphans and self._is_orphan(cluster, live):
                metadata = live["metadata"]
                name = namespaced_name(metadata.get("namespace") or "", metadata["name"])
                orphans[cluster].append(f"{resource.gvk.kind} {name}")
        for cluster, names in orphans.items():
            if cluster not in self.clusters or self.works.store(cluster) is not stores[cluster]:
                continue  # it left meanwhile, or its Works are listed again
            self.on_count(cluster, names)
        is_open = any(orphans.values()) or len(orphans) < len(stores)
        return COUNT_WHILE_ANY if is_open else COUNT_EVERY

    def _is_orphan(self, cluster: str, live: Object) -> bool:
        work, metadata = work_of(live), live["metadata"]
        is_ending = "deletionTimestamp" in metadata  # a namespace takes a while
        if not work or is_ending or self.works.get(cluster, work) is not None:
            return False
        if {work, ""} & set(self.works.unreadable(cluster)):
            return False  # it exists, though it cannot be read
        # A namespaced object is ours where its namespace is.
        namespace = metadata.get("namespace")
        return not namespace or namespace in self.claims.of(cluster).values()


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


_SHOWN = 3


@dataclass(eq=False)
class Removal:
    """Takes virtual clusters away, step by step."""

    hub: ApiClient
    host: ApiClient
    clusters: HubClusters
    works: Works
    claims: Claims
    namespaces: NamespaceWriter
    finalizer: WorkFinalizer
    state: AgentState

    async def step(
        self, vc: VirtualCluster, source: VirtualClusterSource, *, keeps: bool = False
    ) -> str:
        """Take a step; return what it waits for, "" once `source` has lost it. Raises KubeError."""
        name = vc.name
        if doubt := doubt_of(self.hub.history, self.host.history):
            return f"waiting: {doubt}"
        self.finalizer.preserve(name, is_on=keeps)
        if cluster := await self._cluster(name):
            return await self._end_cluster(cluster, keeps=keeps)
        release = partial(self.namespaces.release, vc, preserve=keeps)
        await for_each(tuple(self.claims.of(name)), release)
        if left := sorted(self.claims.of(name).values()):
            return f"waiting for host namespaces: {listed(left, _SHOWN)}"
        source.remove(name)  # before its nodes lose their label: who serves it restores that
        try:
            if vc.needs_membership_label:
                await unlabel_nodes(self.host, vc.name_on_host)
            await self.state.forget(name)
        except errors.KubeError:
            source.put(vc)  # the next step ends it
            raise
        return ""

    def has_begun(self, name: str) -> bool:
        """Return whether it is too late to keep everything: the Cluster is being deleted."""
        return self.clusters.ours(name) is None or self.clusters.is_deleting(name)

    def is_anywhere(self, name: str) -> bool:
        """Return whether a virtual cluster has anything on hub or host, by the caches."""
        return self.clusters.ours(name) is not None or bool(self.claims.of(name))

    async def _cluster(self, name: str) -> Object | None:
        cached = self.clusters.ours(name)
        if cached is not None or self.clusters.other_agent(name) is not None:
            return cached
        live = await find_cluster(self.hub, name)
        return live if live is not None and self.clusters.is_ours(live) else None

    async def _end_cluster(self, cluster: Object, *, keeps: bool) -> str:
        name = cluster["metadata"]["name"]
        left, unmarked = self.works.of(name), 0
        for work in left if keeps else ():
            if not works.is_preserved(work) and not work["metadata"].get("deletionTimestamp"):
                await preserve_work(self.hub, work)
                unmarked += 1
        if unmarked and not cluster["metadata"].get("deletionTimestamp"):
            # The finalizer goes by the watch, which is to show the mark first.
            return f"waiting for Works to be marked as preserved ({unmarked} left)"
        if not cluster["metadata"].get("deletionTimestamp"):
            _log.info("Deleting the Cluster on the hub", extra={"virtual_cluster": name})
            try:
                await self.hub.delete_same(f"{CLUSTERS_PATH}/{name}", cluster)
            except errors.ForbiddenError as error:
                return (
                    f"the agent may not delete Cluster {name} on the hub: run karmada-vc-agent "
                    f"join again, or delete the Cluster yourself ({error})"
                )
            except (errors.NotFoundError, errors.ConflictError):
                pass  # the next step sees what became of it
        if left:
            return f"waiting for Works of Cluster {name} to be finalised ({len(left)} left)"
        return f"waiting for the hub to remove Cluster {name}"


async def preserve_work(hub: ApiClient, work: Object) -> None:
    """Mark a Work, so that what it created stays once it is deleted. Raises KubeError."""
    path = works.work_path(work["metadata"]["namespace"], work["metadata"]["name"])
    with suppress(errors.NotFoundError):
        await hub.merge_patch(path, {"spec": {"preserveResourcesOnDeletion": True}})


FRESH_S = 60.0


@dataclass(eq=False)
class DeparturesController:
    """Withdraws the votes of departed virtual clusters; is_served: others are departed."""

    hub: ApiClient
    host: ApiClient
    discovery: Discovery
    clusters: HubClusters
    state: AgentState
    shared_objects: SharedObjects
    cluster_scoped_kinds: ClusterScopedKinds
    claims: Claims
    virtual_clusters: Mapping[str, VirtualCluster]
    is_served: Callable[[str], bool]

    async def reconcile(self, name: str) -> None:
        """Withdraw the votes of one virtual cluster if it departed."""
        if self.state.cluster(name) is None or self.is_served(name):
            return
        if await self._is_on_hub(name):
            return  # merely not served now
        served, leave = await self.discovery.refresh(FRESH_S), self.shared_objects.leave_all
        for resource, shared in await leave(served, name, preserve=True, selects=self._is_shared):
            _log.info(
                "Removed a virtual cluster that left from the owners of a shared object",
                extra={"virtual_cluster": name, "kind": resource.gvk.kind, "object": shared},
            )
        if name not in self.virtual_clusters:
            if not self.claims.of(name):
                former = {value for value, of in self.state.labels().items() if of == name}
                in_use = {vc.name_on_host for vc in self.virtual_clusters.values()}
                for value in {name, *former} - in_use:
                    await unlabel_nodes(self.host, value)
            await self.state.forget(name)

    async def _is_on_hub(self, name: str) -> bool:
        """Return whether a Cluster exists, of any owner. Raises NotReadyError in doubt."""
        if self.clusters.store.get("", name) is not None:
            return True
        if doubt := doubt_of(self.hub.history, self.host.history):
            raise NotReadyError(doubt)
        return await find_cluster(self.hub, name) is not None

    def _is_shared(self, resource: Resource) -> bool:
        """Return True for shared kinds: others have no votes, and may not all be read."""
        policy = policy_for(
            resource.gvk, namespaced=resource.namespaced, configured=self.cluster_scoped_kinds
        )
        return policy is Policy.SHARE
