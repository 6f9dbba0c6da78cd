"""Keeps the record of what is held on the host, and reads whether it is confirmed (ADR 76)."""

import logging
from collections.abc import Callable, Iterable

import msgspec

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.features.deletion_brake.brake import (
    CONFIRM_PREFIX,
    KEEP,
    RECORD_PREFIX,
    Deletion,
    DeletionBrake,
    Record,
    read_record,
    state_path,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Enqueues, Requeue, itself
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.objects import annotations_of
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.work.reporting import WARNING
from karmada_vc_agent.work.work_finalizer import WorkFinalizer
from karmada_vc_agent.work.works import WorkKey

_log = logging.getLogger(__name__)

CHECK_S = 5.0
"""How often it is checked whether held deletions are confirmed, or taken back."""
KEEPING_S = 1.0
SETTLES_S = 1.0
"""Works are deleted one after the other; the record is not written for each of them."""
COMPONENT = "deletion-brake"


class _DeletionBrakeController:
    """The key is a virtual cluster.

    path: of the ConfigMap with the agent's state. enqueue: called with a Work that waits no more.
    report: called with a virtual cluster, its record, and what was not reported yet.
    """

    def __init__(
        self,
        host: ApiClient,
        finalizer: WorkFinalizer,
        path: str,
        state: AgentState,
        clusters: HubClusters,
        brake: DeletionBrake,
        enqueue: Callable[[WorkKey], None],
        report: Callable[[str, Deletion, Record], None],
    ) -> None:
        self._host = host
        self._finalizer = finalizer
        self._path = path
        self._state = state
        self._clusters = clusters
        self._brake = brake
        self._enqueue = enqueue
        self._report = report

    async def reconcile(self, name: str) -> Requeue | None:
        """Record what is held; release what is confirmed, or not deleted any more."""
        if self._clusters.ours(name) is None:
            if self._clusters.store.is_synced:
                await self._state.erase(RECORD_PREFIX + name)
            return None
        record, stored = self._brake.held(name), self._stored(name)
        pending = self._brake.pending(name)
        confirmed = await self._confirmed(name) if stored is not None else ""
        if stored is not None and confirmed == KEEP + stored.digest:
            return await self._keep(name, pending)
        if record is not None and await self._has_left(name):
            self._brake.leaves(name)
            record = None
        if record is None:
            await self._end(name, self._brake.release(name))
            return None
        if confirmed == record.digest:
            _log.info(
                "Deleting what was confirmed",
                extra={"virtual_cluster": name, "objects": record.objects, "digest": confirmed},
            )
            await self._withdraw(name)
            await self._end(name, self._brake.permit(name, pending))
            return None
        await self._state.write(RECORD_PREFIX + name, msgspec.json.encode(record).decode())
        for deletion in self._brake.report(name, record):
            self._report(name, deletion, record)
        return Requeue(CHECK_S)

    async def _keep(self, name: str, pending: list[Deletion]) -> Requeue | None:
        """Have Works deleted without their objects; it is confirmed until none of them is left."""
        for deletion in pending:
            self._finalizer.abandon(name, deletion.work, deletion.uid)
            self._enqueue((name, deletion.work))
        if pending:
            return Requeue(KEEPING_S)
        _log.info("Kept the objects of deleted Works", extra={"virtual_cluster": name})
        await self._withdraw(name)
        await self._end(name, self._brake.release(name))
        return None

    async def _has_left(self, name: str) -> bool:
        record = await self._state.read_again(name)
        return record is not None and record.has_left

    async def _confirmed(self, name: str) -> str:
        """Return what an administrator confirmed."""
        try:
            state = await self._host.get(self._path)
        except NotFoundError:
            return ""
        return annotations_of(state).get(CONFIRM_PREFIX + name, "")

    def _stored(self, name: str) -> Record | None:
        return read_record(self._state.value(RECORD_PREFIX + name))

    async def _withdraw(self, name: str) -> None:
        """Remove what was confirmed; it was carried out."""
        annotations = {CONFIRM_PREFIX + name: None}
        await self._host.merge_patch(self._path, {"metadata": {"annotations": annotations}})

    async def _end(self, name: str, works: Iterable[str]) -> None:
        await self._state.erase(RECORD_PREFIX + name)
        for work in works:
            self._enqueue((name, work))


def setup(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller."""
    common, works = parts.common, parts.works
    brake = common.part(DeletionBrake)

    def report(cluster: str, deletion: Deletion, record: Record) -> None:
        work = works.watches.works.get(cluster, deletion.work)
        if work is not None:
            text = (
                f"not deleting from cluster({cluster}): {record.objects} of {record.total} objects "
                "are being deleted at once, which an administrator of the host has to confirm"
            )
            works.recorder.record(COMPONENT, work, WARNING, "DeletionHeld", text)

    controller = _DeletionBrakeController(
        common.clients.host,
        works.finalizer,
        state_path(common.config.agent_namespace, common.config.agent_name),
        common.state,
        common.stores.clusters,
        brake,
        common.signals.work_due.emit,
        report,
    )
    return ControllerSpec(
        "deletion-brake",
        common.queues.by_name(),
        controller.reconcile,
        initial_keys=brake.recorded,
        sources=(
            Enqueues(brake.changed.subscribe, itself, SETTLES_S),
            Enqueues(common.scopes.ended.subscribe, itself, SETTLES_S),
        ),
    )
