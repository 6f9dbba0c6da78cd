"""Work -> host objects, conditions, manifestStatuses, finalizer (contract 5, 6).

One reconcile handles a Work whole, whatever made it come up: a change on the hub, a change
of one of its objects on the host, a retry. So each Work has one writer and one write.

    read    the Work, its Cluster, the live objects
    decide  translate each manifest, plan its write
    write   the host objects, then one status with Dispatching, Applied, manifestStatuses
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from karmada_vc_agent.fleet.host_objects import Applied, Check, HostObjects
from karmada_vc_agent.fleet.hub_clusters import HubClusters
from karmada_vc_agent.fleet.work_events import WorkEvents
from karmada_vc_agent.fleet.works import Works, is_preserved, is_suspended, manifests_of, work_path
from karmada_vc_agent.interpretation.errors import InterpretationError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, RetryError
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import ApiError, ConflictError, NotFoundError
from karmada_vc_agent.model.domain import WORK_ANNOTATION
from karmada_vc_agent.model.karmada import EXECUTION_FINALIZER
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    copy_object,
    dig,
    gvk_of,
    key_of,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, VirtualNamespace
from karmada_vc_agent.planning.apply_plan import Foreign
from karmada_vc_agent.planning.ownership import conflict_text
from karmada_vc_agent.status import work_conditions
from karmada_vc_agent.status.conditions import Condition, find_condition, set_condition
from karmada_vc_agent.status.manifest_status import ManifestStatus
from karmada_vc_agent.translation.refusal import Code, Refusal, RefusedError
from karmada_vc_agent.translation.restore import restore_text
from karmada_vc_agent.translation.translate import (
    Absorbed,
    HostObject,
    Surroundings,
    assert_placement,
    translate,
)

_log = logging.getLogger(__name__)

WorkKey = tuple[str, str]
"""Virtual cluster and name of a Work."""

NAMESPACE = GroupVersionKind("", "v1", "Namespace")

FindResource = Callable[[GroupVersionKind], Awaitable[Resource | None]]
Around = Callable[[VirtualCluster, str], Surroundings]
"""(virtual cluster, `<execution namespace>/<work>`) -> the facts a translation rests on."""


class NamespaceKeeper(Protocol):
    """What execution asks of the namespaces controller."""

    async def claim(self, vc: VirtualCluster, namespace: VirtualNamespace) -> object: ...

    async def apply(
        self, vc: VirtualCluster, namespace: VirtualNamespace, desired: Object, check: Check
    ) -> Applied | None: ...

    async def release(
        self, vc: VirtualCluster, namespace: VirtualNamespace, *, preserve: bool
    ) -> None: ...


class StatusReflector(Protocol):
    """What execution asks of work status."""

    def reflect(
        self,
        work: Object,
        ordinal: int,
        manifest: Object,
        live: Object,
        surroundings: Surroundings,
    ) -> ManifestStatus | InterpretationError: ...


@dataclass(frozen=True, slots=True)
class Collaborators:
    """Whom execution works with; handed in by agent.py."""

    hub: ApiClient
    clusters: HubClusters
    works: Works
    host_objects: HostObjects
    namespaces: NamespaceKeeper
    work_status: StatusReflector
    events: WorkEvents
    find_resource: FindResource
    around: Around
    lost_node: Callable[[str], str | None]
    now: Callable[[], str]


@dataclass(slots=True)
class _Outcome:
    """What became of the manifests of one Work."""

    errors: list[str] = field(default_factory=list)
    entries: list[ManifestStatus] = field(default_factory=list)
    is_final: bool = True
    was_written: bool = False
    was_recreated: bool = False
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A manifest that could not be applied; code where a rule refused it for good."""

    text: str
    code: Code | None = None


class ExecutionController:
    """Carries Works out; the only writer of the objects it makes and of Work.status."""

    def __init__(
        self, virtual_clusters: Mapping[str, VirtualCluster], others: Collaborators
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._o = others
        self._refused: set[WorkKey] = set()
        self._generations: dict[WorkKey, int] = {}

    def refused(self, cluster: str) -> list[WorkKey]:
        """Return the Works that a rule refused; retried when what the rule rests on changes."""
        return [key for key in self._refused if key[0] == cluster]

    async def reconcile(self, key: WorkKey) -> None:
        """Make host and status fit one Work."""
        cluster, name = key
        vc = self._virtual_clusters.get(cluster)
        work = self._o.works.get(cluster, name)
        if vc is None or work is None or self._o.clusters.ours(cluster) is None:
            self._forget(key)
            return
        if work["metadata"].get("deletionTimestamp"):
            await self._finalise(vc, work)
            self._forget(key)
            return
        if is_suspended(work):
            await self._suspend(vc, work)
            return
        if not self._o.clusters.is_ready(cluster):
            raise NotReadyError(f"cluster({cluster}) not ready")
        await self._carry_out(key, vc, work)

    def _forget(self, key: WorkKey) -> None:
        self._refused.discard(key)
        self._generations.pop(key, None)

    async def _suspend(self, vc: VirtualCluster, work: Object) -> None:
        """Write nothing to the host, but go on reporting what is there (contract 5.3, 6.2)."""
        surroundings = self._o.around(vc, _work_id(work))
        entries: list[ManifestStatus] = []
        for ordinal, manifest in enumerate(manifests_of(work)):
            live = await self._cached(manifest, surroundings)
            if live is None:
                continue
            entry = self._o.work_status.reflect(work, ordinal, manifest, live, surroundings)
            if not isinstance(entry, InterpretationError):
                entries.append(entry)
        condition = work_conditions.dispatching(suspended=True)
        self._tell_dispatching(work, condition)
        await self._write_status(work, [condition], entries)

    async def _cached(self, manifest: Object, surroundings: Surroundings) -> Object | None:
        """Return the live object of a manifest if it is known and this Work's."""
        resource = await self._o.find_resource(gvk_of(manifest))
        if resource is None:
            return None
        translated = translate(manifest, resource.namespaced, surroundings)
        if not isinstance(translated, HostObject):
            return None
        key = translated.host_key
        live = self._o.host_objects.cached(resource, key.namespace, key.name)
        is_ours = annotations_of(live or {}).get(WORK_ANNOTATION) == surroundings.work
        return live if is_ours else None

    # --- apply --------------------------------------------------------------------------

    async def _carry_out(self, key: WorkKey, vc: VirtualCluster, work: Object) -> None:
        surroundings = self._o.around(vc, _work_id(work))
        manifests = manifests_of(work)
        outcome = _Outcome()
        for ordinal, manifest in enumerate(manifests):
            result = await self._apply_manifest(vc, manifest, surroundings)
            if isinstance(result, _Failure):
                self._note_failure(vc, work, manifest, result, outcome)
            else:
                self._note_success(work, ordinal, manifest, result, surroundings, outcome)
        is_new = self._generations.get(key) != work["metadata"].get("generation")
        conditions = [
            work_conditions.dispatching(suspended=False),
            _applied(work, len(manifests), outcome, is_new=is_new),
        ]
        self._tell(vc, work, outcome, conditions, is_new=is_new)
        await self._write_status(work, conditions, outcome.entries)
        self._generations[key] = work["metadata"].get("generation") or 0
        self._refused.discard(key)
        if outcome.errors and outcome.is_final:
            self._refused.add(key)
        elif outcome.errors:
            raise RetryError(work_conditions.aggregate(outcome.errors))
        elif outcome.unreadable:
            raise RetryError(outcome.unreadable)

    async def _apply_manifest(
        self, vc: VirtualCluster, manifest: Object, surroundings: Surroundings
    ) -> Applied | _Failure | None:
        """Apply one manifest; None where it is applied without an object."""
        gvk = gvk_of(manifest)
        resource = await self._o.find_resource(gvk)
        if resource is None:
            return _Failure(f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"')
        try:
            return await self._apply_translated(vc, manifest, resource, surroundings)
        except RefusedError as error:
            return _refusal(vc, manifest, error.refusal)
        except (ApiError, InterpretationError, RetryError) as error:
            claims = self._o.around(vc, surroundings.work).claims
            return _Failure(restore_text(str(error), claims))

    async def _apply_translated(
        self,
        vc: VirtualCluster,
        manifest: Object,
        resource: Resource,
        surroundings: Surroundings,
    ) -> Applied | _Failure | None:
        translated = translate(manifest, resource.namespaced, surroundings)
        if isinstance(translated, Refusal):
            return _refusal(vc, manifest, translated)
        if isinstance(translated, Absorbed):
            return None
        check = _asserting(translated, surroundings)
        if translated.host_key.gvk == NAMESPACE:
            namespace = VirtualNamespace(translated.virtual_key.name)
            return await self._o.namespaces.apply(vc, namespace, translated.obj, check)
        namespace = VirtualNamespace(translated.virtual_key.namespace)
        await self._o.namespaces.claim(vc, namespace)
        self._refuse_overlap(vc, resource, translated)
        applied = await self._o.host_objects.apply(resource, translated.obj, check)
        if isinstance(applied, Foreign):
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            return _Failure(conflict_text(kind, namespace, name, vc.name))
        return applied

    def _refuse_overlap(
        self, vc: VirtualCluster, resource: Resource, translated: HostObject
    ) -> None:
        """Refuse to create anything while an older virtual cluster owns one of our nodes."""
        node = self._o.lost_node(vc.name)
        if node is None:
            return
        key = translated.host_key
        if self._o.host_objects.cached(resource, key.namespace, key.name) is None:
            detail = f'node "{node}" also belongs to another virtual cluster'
            raise RefusedError(Code.NODE_OVERLAP, "", detail)

    def _note_failure(
        self,
        vc: VirtualCluster,
        work: Object,
        manifest: Object,
        failure: _Failure,
        outcome: _Outcome,
    ) -> None:
        outcome.errors.append(failure.text)
        outcome.is_final &= failure.code is not None
        if failure.code is not None:
            self._o.events.refused(work, failure.code, failure.text)
        self._o.events.not_applied(manifest, vc.name, failure.text)

    def _note_success(
        self,
        work: Object,
        ordinal: int,
        manifest: Object,
        applied: Applied | None,
        surroundings: Surroundings,
        outcome: _Outcome,
    ) -> None:
        if applied is None:
            return
        outcome.was_written |= applied.was_written
        outcome.was_recreated |= applied.was_recreated
        # The claim may be younger than the surroundings of the translation.
        around = self._o.around(surroundings.vc, surroundings.work)
        entry = self._o.work_status.reflect(work, ordinal, manifest, applied.live, around)
        if isinstance(entry, InterpretationError):
            outcome.unreadable = str(entry)
        else:
            outcome.entries.append(entry)

    def _tell(
        self,
        vc: VirtualCluster,
        work: Object,
        outcome: _Outcome,
        conditions: list[Condition],
        *,
        is_new: bool,
    ) -> None:
        self._tell_dispatching(work, conditions[0])
        if outcome.errors:
            error = work_conditions.aggregate(outcome.errors)
            self._o.events.sync_failed(work, vc.name, error)
        elif is_new or outcome.was_written:
            self._o.events.synced(work, vc.name)
            for manifest in manifests_of(work):
                self._o.events.applied(manifest, vc.name)

    def _tell_dispatching(self, work: Object, condition: Condition) -> None:
        before = find_condition(dig(work, "status", "conditions"), work_conditions.DISPATCHING)
        if before is None or before["status"] != condition["status"]:
            self._o.events.dispatching(work, condition["message"])

    # --- status -------------------------------------------------------------------------

    async def _write_status(
        self, work: Object, conditions: list[Condition], entries: list[ManifestStatus] | None
    ) -> None:
        """Write conditions and entries if they differ; None leaves the entries alone."""
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]
        while True:
            status = _with(work, conditions, entries, self._o.now())
            if status == (work.get("status") or {}):
                return
            try:
                answer = await self._o.hub.replace(
                    work_path(namespace, name, "status"), {**work, "status": status}
                )
            except NotFoundError:
                return
            except ConflictError:
                # Somebody changed the Work meanwhile: the status still says what was done.
                work = await self._o.hub.get(work_path(namespace, name))
                continue
            self._observe(answer)
            return

    def _observe(self, work: Object) -> None:
        work["metadata"].pop("managedFields", None)
        cluster_store = self._o.works.store_of_namespace(work["metadata"]["namespace"])
        if cluster_store is not None:
            cluster_store.observe(work)

    # --- delete -------------------------------------------------------------------------

    async def _finalise(self, vc: VirtualCluster, work: Object) -> None:
        """Remove or release the host objects of a Work that goes, then its finalizer."""
        finalizers = work["metadata"].get("finalizers") or []
        if EXECUTION_FINALIZER not in finalizers:
            return
        clusters = self._o.clusters
        if is_preserved(work) or clusters.is_ready(vc.name):
            await self._clean(vc, work)
        elif not clusters.is_deleting(vc.name):
            raise NotReadyError(f"cluster({vc.name}) not ready")
        else:
            _log.warning(
                "Abandoning host objects of a Cluster that goes while the host is away",
                extra={"virtual_cluster": vc.name, "work": work["metadata"]["name"]},
            )
        rest = [name for name in finalizers if name != EXECUTION_FINALIZER]
        metadata = work["metadata"]
        patch = {"metadata": {"finalizers": rest, "resourceVersion": metadata["resourceVersion"]}}
        try:
            await self._o.hub.merge_patch(work_path(metadata["namespace"], metadata["name"]), patch)
        except NotFoundError:
            return

    async def _clean(self, vc: VirtualCluster, work: Object) -> None:
        surroundings = self._o.around(vc, _work_id(work))
        for manifest in manifests_of(work):
            resource = await self._o.find_resource(gvk_of(manifest))
            if resource is None:
                continue  # a kind that nobody serves has no objects
            translated = translate(manifest, resource.namespaced, surroundings)
            if not isinstance(translated, HostObject):
                continue  # refused or absorbed: never written
            if translated.host_key.gvk == NAMESPACE:
                await self._release_namespace(vc, work, translated)
            elif is_preserved(work):
                foreign = await self._o.host_objects.release(resource, translated.obj)
                if foreign is not None:
                    _log.info("Leaving a foreign object", extra={"key": str(key_of(manifest))})
            else:
                await self._o.host_objects.remove(resource, translated.obj)

    async def _release_namespace(
        self, vc: VirtualCluster, work: Object, translated: HostObject
    ) -> None:
        namespace = translated.virtual_key.name
        preserve = is_preserved(work)
        users = [
            other["metadata"]["name"]
            for other in self._o.works.using_namespace(vc.name, namespace)
            if other["metadata"]["name"] != work["metadata"]["name"]
        ]
        if users and not preserve:
            raise RetryError(f"namespace {namespace} is still used by work {users[0]}")
        await self._o.namespaces.release(vc, VirtualNamespace(namespace), preserve=preserve)


def _work_id(work: Object) -> str:
    return f"{work['metadata']['namespace']}/{work['metadata']['name']}"


def _refusal(vc: VirtualCluster, manifest: Object, refusal: Refusal) -> _Failure:
    metadata = manifest.get("metadata") or {}
    text = refusal.text(
        vc.name,
        str(manifest.get("kind") or ""),
        metadata.get("namespace") or "",
        metadata.get("name") or "",
    )
    return _Failure(text, refusal.code)


def _asserting(translated: HostObject, surroundings: Surroundings) -> Check:
    def check(retained: Object, live: Object | None) -> Object:
        asserted = assert_placement(retained, translated, live, surroundings)
        if isinstance(asserted, Refusal):
            raise RefusedError(asserted.code, asserted.path, asserted.detail)
        return asserted.obj

    return check


def _applied(work: Object, total: int, outcome: _Outcome, *, is_new: bool) -> Condition:
    """Return Applied; a re-creation keeps its own reason until the Work changes (contract 5.6)."""
    if outcome.was_recreated and not is_new:
        error = work_conditions.aggregate(outcome.errors) if outcome.errors else None
        return work_conditions.recreated(error)
    condition = work_conditions.applied(total, outcome.errors)
    before = find_condition(dig(work, "status", "conditions"), work_conditions.APPLIED)
    keeps = before is not None and before["status"] == condition["status"] == "True"
    if keeps and not is_new and before is not None:
        return before
    return condition


def _with(
    work: Object,
    conditions: list[Condition],
    entries: list[ManifestStatus] | None,
    now: str,
) -> Object:
    status: Object = copy_object(work.get("status") or {})
    merged = status.get("conditions")
    for condition in conditions:
        merged = set_condition(merged, condition, now)
    status["conditions"] = merged
    if entries is not None and (entries or "manifestStatuses" in status):
        known = {entry["identifier"]["ordinal"] for entry in entries}
        kept = [
            entry
            for entry in status.get("manifestStatuses") or ()
            if entry["identifier"]["ordinal"] not in known
            and entry["identifier"]["ordinal"] < len(manifests_of(work))
        ]
        ordered = sorted([*kept, *entries], key=lambda entry: entry["identifier"]["ordinal"])
        status["manifestStatuses"] = ordered
    return status
