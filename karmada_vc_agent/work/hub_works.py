"""A Work as the hub has it: read in full, and its status written."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.kube.retries import retry_on_conflict
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.work.held_changes import HeldChanges
from karmada_vc_agent.work.rules.work_status import compose_work_status
from karmada_vc_agent.work.work_bounds import WorkBounds
from karmada_vc_agent.work.work_reports import Report
from karmada_vc_agent.work.work_statuses import put_status
from karmada_vc_agent.work.works import Works, is_trimmed, key_of_work, manifests_of, work_path


class HubWorks:
    """Reads Works in full and writes their statuses; the store has each answer at once."""

    def __init__(
        self,
        hub: ApiClient,
        works: Works,
        bounds: WorkBounds,
        held_changes: HeldChanges,
    ) -> None:
        self._hub = hub
        self._works = works
        self._bounds = bounds
        self._held_changes = held_changes

    async def whole(self, work: Object) -> Object | None:
        """Return a Work in full; None if it was deleted or replaced.

        A copy, since the stored one may be trimmed meanwhile.
        """
        if not is_trimmed(work):
            return dict(work)
        metadata = work["metadata"]
        whole = await self._reread(metadata["namespace"], metadata["name"])
        if whole is None or not _is_same(whole, work):
            return None
        whole["metadata"].pop("managedFields", None)
        self._keep(dict(whole), Store.complete)
        return whole

    async def write_status(self, cached: Object, report: Report) -> None:
        """PUT what a report says if anything differs. Raises KubeError, RetryError."""
        work = await self.whole(cached)
        if work is None:
            return
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]

        async def write(current: Object | None) -> None:
            if current is None or not _is_same(current, work):
                return  # the watch will report another Work, or a deletion
            live = current.get("status")
            manifests = manifests_of(current)
            status = compose_work_status(
                live, report.conditions, report.entries, manifests, report.at
            )
            if status == (live or {}):
                return
            with suppress(NotFoundError):  # the Work is deleted; the watch will report it
                answer = await put_status(self._hub, current, status)
                if current is work:
                    # Not after a conflict: the change is still to arrive by the watch.
                    self._observe(answer)

        # After a conflict the status still describes what was applied.
        reread = partial(self._reread, namespace, name)
        try:
            await retry_on_conflict(work, write, reread, ConflictError)
        except ConflictError:
            text = f"work {namespace}/{name} changes faster than its status is written"
            raise RetryError(text) from None

    async def _reread(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._hub.get(work_path(namespace, name))
        except NotFoundError:
            return None

    def _observe(self, work: Object) -> None:
        self._held_changes.saw(key_of_work(work), work)
        work["metadata"].pop("managedFields", None)
        self._keep(work, Store.observe)

    def _keep(self, work: Object, put: Callable[[Store[Object], Object], object]) -> None:
        """Store the hub's answer to a write of a Work, within the bounds; not if it was deleted."""
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]
        store = self._works.store_of_namespace(namespace)
        if store is None:
            return
        self._bounds.observe(work)  # before it is stored: it may be trimmed
        put(store, work)
        stored = store.get(namespace, name)
        if stored is None:
            self._bounds.remove(work)
        elif stored is not work:
            self._bounds.observe(stored)


def _is_same(fresh: Object, work: Object) -> bool:
    """Return whether a result for a Work also applies to its current version."""
    marks = [bool(each["metadata"].get("deletionTimestamp")) for each in (fresh, work)]
    return uid_of(fresh) == uid_of(work) and marks[0] == marks[1]
