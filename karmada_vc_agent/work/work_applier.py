"""All manifests of a Work: applied in order, and each reflected.

Nothing but the result is kept of a manifest that was applied: not what it was translated into, and
not its object.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from karmada_vc_agent.kube.errors import TooLargeError
from karmada_vc_agent.kube.flows import FairSlots
from karmada_vc_agent.model.memory import OBJECT_BYTES, SMALL_BYTES, bytes_of
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.refusal import Code, Refusal
from karmada_vc_agent.work.bugs import Bugs
from karmada_vc_agent.work.failure import Failure, refused
from karmada_vc_agent.work.held_changes import HeldChanges
from karmada_vc_agent.work.host_objects import Applied
from karmada_vc_agent.work.kept_objects import held_bytes
from karmada_vc_agent.work.live_objects import reading_at_most
from karmada_vc_agent.work.manifests import Manifests
from karmada_vc_agent.work.reflection import WorkStatus
from karmada_vc_agent.work.rules import apply_order
from karmada_vc_agent.work.rules.manifest_status import Reflection, ordinals
from karmada_vc_agent.work.rules.work_status import is_dispatched
from karmada_vc_agent.work.side_by_side import run_side_by_side
from karmada_vc_agent.work.target import WorkManifest
from karmada_vc_agent.work.window_gate import Waiting
from karmada_vc_agent.work.work_bounds import WorkBounds
from karmada_vc_agent.work.work_events import WorkEvents
from karmada_vc_agent.work.work_outcome import WorkOutcome
from karmada_vc_agent.work.works import id_of_work, key_of_work, manifests_of

LARGE_AT_ONCE = 2
"""Large manifests that are applied concurrently, of all virtual clusters.

They bound what is in memory: small ones are bounded by the number of workers. A manifest whose
object on the host turns out to be large is applied again among the large ones.
"""

_Result = Applied | Failure | Waiting | None


class WorkApplier:
    """Applies Works and reads the status of their objects.

    work_status: None if controller workStatus is disabled: no manifestStatuses are written.
    large_slots: LARGE_AT_ONCE of them. A bug at one manifest is a failure of that one alone.
    """

    def __init__(
        self,
        manifests: Manifests,
        work_status: WorkStatus | None,
        events: WorkEvents,
        bounds: WorkBounds,
        held_changes: HeldChanges,
        bugs: Bugs,
        large_slots: FairSlots,
    ) -> None:
        self._manifests = manifests
        self._work_status = work_status
        self._events = events
        self._bounds = bounds
        self._held_changes = held_changes
        self._bugs = bugs
        self._large_slots = large_slots

    async def apply(self, vc: VirtualCluster, work: Object) -> WorkOutcome:
        """Apply all manifests, and read the status of their objects. Raises UnreachableError."""
        items, are_small = _items(vc, work), self._bounds.byte_count(work) <= SMALL_BYTES
        settled: dict[int, tuple[_Result, Reflection | None]] = {}
        for batch in apply_order.batches([item.manifest for item in items]):
            calls = [
                partial(self._settle, work, items[place], is_small=are_small) for place in batch
            ]
            settled.update(zip(batch, await run_side_by_side(calls), strict=True))
        outcome = WorkOutcome()
        for place, item in enumerate(items):
            result, reflection = settled[place]
            if result is not None:
                outcome.results.append((item.manifest, result))
            outcome.reflected(reflection)
        return outcome

    async def _settle(
        self, work: Object, item: WorkManifest, *, is_small: bool
    ) -> tuple[_Result, Reflection | None]:
        """Apply and reflect one manifest, among the large ones if it or its object is large."""
        size = 0 if is_small else bytes_of(item.manifest)
        if size > OBJECT_BYTES:
            return _too_large(item, "it holds"), None
        first: _Result = None
        if size <= SMALL_BYTES:
            with suppress(TooLargeError), reading_at_most(SMALL_BYTES):
                first, live = await self._apply(work, item)
                if live is None or held_bytes(live) <= SMALL_BYTES:
                    return first, await self._reflect(work, item, live)
            live = None
        async with self._large_slots.hold():
            try:
                with reading_at_most(OBJECT_BYTES):
                    again, live = await self._apply(work, item)
                    # The first attempt may have written what the second one reads.
                    both = isinstance(first, Applied) and isinstance(again, Applied)
                    result = first if both else again
                    return result, await self._reflect(work, item, live)
            except TooLargeError:
                return _too_large(item, "its object on the host holds"), None

    async def observe(self, vc: VirtualCluster, work: Object) -> WorkOutcome:
        """Write nothing to the host, only read the status. Raises KubeError."""
        outcome = WorkOutcome()
        for item in _items(vc, work):
            outcome.reflected(await self._reflect(work, item, await self._cached(item)))
        return outcome

    async def _apply(self, work: Object, item: WorkManifest) -> tuple[_Result, Object | None]:
        """Apply one manifest; return the result, and the object that is to be reflected."""
        result = await self._try(item)
        done = result.kept if isinstance(result, Waiting) else result
        if result is None:
            return None, None
        if not isinstance(done, Applied):
            # What could not be changed keeps running (contract 6.2); it may be newer than the
            # object that was decided on, so it is reflected and not marked as seen.
            return result, await self._cached(item)
        live, slim = done.live, replace(done, live={})
        self._held_changes.saw(key_of_work(work), live)
        return replace(result, kept=slim) if isinstance(result, Waiting) else slim, live

    async def _try(self, item: WorkManifest) -> _Result:
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
        self, work: Object, item: WorkManifest, live: Object | None
    ) -> Reflection | None:
        item.translation = None
        if self._work_status is None or live is None:
            return None
        manifest, ordinal = item.manifest, item.ordinal
        context = self._manifests.context_for(item.vc, item.work)
        with self._bugs.guard(item.work, manifest) as guard:
            return await self._work_status.reflect(work, ordinal, manifest, live, context)
        self._events.reflected(work, manifest, guard.problem)
        return Reflection(None, guard.problem)


def _too_large(item: WorkManifest, what: str) -> Failure:
    detail = f"{what} more than {OBJECT_BYTES} bytes of memory; divide it"
    return refused(item.vc, item.manifest, Refusal(Code.BOUND_EXCEEDED, "", detail))


def _items(vc: VirtualCluster, work: Object) -> list[WorkManifest]:
    manifests, is_known = manifests_of(work), is_dispatched(work)
    return [
        WorkManifest(vc, manifest, id_of_work(work), ordinal, is_known)
        for manifest, ordinal in zip(manifests, ordinals(manifests), strict=True)
    ]
