"""All manifests of a Work: applied in order, then reflected."""

from collections.abc import Sequence
from functools import partial

from karmada_vc_agent.features.windows.windows import Waiting
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.bugs import Bugs
from karmada_vc_agent.work.failure import Failure, refused
from karmada_vc_agent.work.held_changes import HeldChanges
from karmada_vc_agent.work.host_objects import Applied
from karmada_vc_agent.work.manifests import Manifests
from karmada_vc_agent.work.reflection import WorkStatus
from karmada_vc_agent.work.rules import apply_order
from karmada_vc_agent.work.rules.manifest_status import Reflection, ordinals
from karmada_vc_agent.work.rules.work_status import is_dispatched
from karmada_vc_agent.work.side_by_side import run_side_by_side
from karmada_vc_agent.work.target import WorkManifest
from karmada_vc_agent.work.work_bounds import WorkBounds
from karmada_vc_agent.work.work_events import WorkEvents
from karmada_vc_agent.work.work_outcome import WorkOutcome
from karmada_vc_agent.work.works import id_of_work, key_of_work, manifests_of


class WorkApplier:
    """Applies Works and reads the status of their objects.

    work_status: None if controller workStatus is disabled: no manifestStatuses are written. A bug
    at one manifest is a failure of that one, and the others go on.
    """

    def __init__(
        self,
        manifests: Manifests,
        work_status: WorkStatus | None,
        events: WorkEvents,
        bounds: WorkBounds,
        held_changes: HeldChanges,
        bugs: Bugs,
    ) -> None:
        self._manifests = manifests
        self._work_status = work_status
        self._events = events
        self._bounds = bounds
        self._held_changes = held_changes
        self._bugs = bugs

    async def apply(self, vc: VirtualCluster, work: Object) -> WorkOutcome:
        """Apply all manifests, then read the status of their objects. Raises UnreachableError."""
        outcome = WorkOutcome()
        items = _items(vc, work)
        results = await self._apply_in_order(items)
        for place, item in enumerate(items):
            result = results[place]
            if result is None:
                continue
            outcome.results.append((item.manifest, result))
            done = result.kept if isinstance(result, Waiting) else result
            if isinstance(done, Applied):
                live: Object | None = done.live
                self._held_changes.saw(key_of_work(work), done.live)
            else:
                # What could not be changed keeps running (contract 6.2); it may be newer than the
                # object that was decided on, so it is reflected and not marked as seen.
                live = await self._cached(item)
            if live is not None:
                await self._reflect(work, item, live, outcome)
        return outcome

    async def _apply_in_order(
        self, items: Sequence[WorkManifest]
    ) -> dict[int, Applied | Failure | Waiting | None]:
        """Apply batch after batch; return the result of each manifest by index."""
        results: dict[int, Applied | Failure | Waiting | None] = {}
        for batch in apply_order.batches([item.manifest for item in items]):
            calls = [partial(self._apply, items[place]) for place in batch]
            applied = await run_side_by_side(calls)
            results.update(zip(batch, applied, strict=True))
        return results

    async def observe(self, vc: VirtualCluster, work: Object) -> WorkOutcome:
        """Write nothing to the host, only read the status. Raises KubeError."""
        outcome = WorkOutcome()
        for item in _items(vc, work):
            live = await self._cached(item)
            if live is not None:
                await self._reflect(work, item, live, outcome)
        return outcome

    async def _apply(self, item: WorkManifest) -> Applied | Failure | Waiting | None:
        with self._bugs.guard(item.work, item.manifest) as guard:
            refusal = self._bounds.refusal_of(item.vc.name, item.manifest)
            if refusal is not None:
                return refused(item.vc, item.manifest, refusal)
            return await self._manifests.apply(item)
        return Failure(guard.problem)

    async def _cached(self, item: WorkManifest) -> Object | None:
        """Return the cached object of a manifest; None if a bug prevents that."""
        with self._bugs.guard(item.work, item.manifest):
            return await self._manifests.cached(item)
        return None

    async def _reflect(
        self, work: Object, item: WorkManifest, live: Object, outcome: WorkOutcome
    ) -> None:
        if self._work_status is None:
            return
        manifest, ordinal = item.manifest, item.ordinal
        context = self._manifests.context_for(item.vc, item.work)
        with self._bugs.guard(item.work, manifest) as guard:
            reflect = self._work_status.reflect
            outcome.reflected(await reflect(work, ordinal, manifest, live, context))
        if guard.problem:
            self._events.reflected(work, manifest, guard.problem)
            outcome.reflected(Reflection(None, guard.problem))


def _items(vc: VirtualCluster, work: Object) -> list[WorkManifest]:
    manifests, is_known = manifests_of(work), is_dispatched(work)
    return [
        WorkManifest(vc, manifest, id_of_work(work), ordinal, is_known)
        for manifest, ordinal in zip(manifests, ordinals(manifests), strict=True)
    ]
