"""Serves what is found on the host, and lets go of what is gone: after a time, and if it may.

One virtual cluster is one key: what is wrong with one costs no other.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from karmada_vc_agent.cluster.origins import Origin, Origins
from karmada_vc_agent.cluster.virtual_cluster_sources import VirtualClusterSource
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.features.found.finding import Finder, Found, Making, record_of
from karmada_vc_agent.features.found.found_records import FoundRecord, FoundRecords
from karmada_vc_agent.kube.controller import Requeue, RetryError
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.durations import format_duration
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.timestamps import timestamp
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.removal import Removal

_log = logging.getLogger(__name__)

LOOK_S = 20.0
"""How often one is looked at that waits for what nobody tells of, such as rights."""
STEP_S = 1.0
SYNC_S = 1.0
TELL_AGAIN_S = 1800.0
"""API servers keep events for an hour."""


@dataclass(frozen=True, slots=True)
class FollowerContext:
    """What a follower needs of the rest.

    check: raises ConfigError where hub or host forbid a virtual cluster. stays_away: whether its
    Cluster was deleted on the hub, or left. is_in_doubt: whether hub or host may have gone back in
    time. tell: says about an object of the host, with a reason, what users should know.
    """

    removal: Removal
    origins: Origins
    check: Callable[[VirtualCluster], Awaitable[None]]
    stays_away: Callable[[str], bool]
    is_in_doubt: Callable[[], bool]
    tell: Callable[[Object, str, str], None]


class Follower:
    """Keeps a source of the registry equal to what a finder finds.

    making: what makes virtual clusters, by the settings as they are now.
    """

    def __init__(
        self,
        finder: Finder,
        source: VirtualClusterSource,
        records: FoundRecords,
        making: Callable[[], Making],
        around: FollowerContext,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._finder = finder
        self._source = source
        self._records = records
        self._making_now = making
        self._around = around
        self._now = wall_clock
        self._told: dict[str, float] = {}

    @property
    def _making(self) -> Making:
        return self._making_now()

    async def reconcile(self, name: str) -> Requeue | None:
        """Serve one virtual cluster, or take the next step of letting it go."""
        if not self._making.is_on:
            return await self._switched_off(name)
        if not self._finder.is_synced:
            return Requeue(SYNC_S)  # all would be gone
        found, record = self._finder.find(name), self._records.of(name)
        if record is not None and record.is_draining:
            return await self._drain(name, record, found)
        if found is not None:
            return await self._serve(found, record)
        self._around.origins.refuse(self._finder.source, name, "")
        self._told.pop(name, None)
        if record is not None:
            return await self._let_go(name, record)
        self._stop_serving(name)
        return None

    async def _switched_off(self, name: str) -> Requeue | None:
        """Serve one no more; nothing of it is deleted, but a removal is brought to its end.

        Its record stays: it is served again where the setting is switched on again.
        """
        record = self._records.of(name)
        if record is not None and record.is_draining and self._around.removal.has_begun(name):
            return await self._drain(name, record, None)
        self._around.origins.refuse(self._finder.source, name, "")
        self._told.pop(name, None)
        self._stop_serving(name)
        return None

    def _stop_serving(self, name: str) -> None:
        self._source.remove(name)
        self._around.origins.note(self._finder.source, name, None)

    # --- what is there ------------------------------------------------------------------

    async def _serve(self, found: Found, record: FoundRecord | None) -> Requeue | None:
        name = found.name
        try:
            vc = self._making.of(found)
        except ValueError as error:
            return self._refused(found, str(error))
        if self._source.rival(name) is not None:
            await self._records.drop(name)
            self._source.put(vc)  # it is served once the other one is given up
            self._around.origins.note(self._finder.source, name, None)
            return self._refused(found, self._source.taken(name))
        if problem := await self._forbids(vc, record):
            return self._refused(found, problem)
        await self._records.keep(name, record_of(self._finder.source, found))
        if record is None:
            self._say("Serving a found virtual cluster", name, found.subject)
        self._source.put(vc)
        self._around.origins.refuse(self._finder.source, name, "")
        self._note(name, found.subject, "")
        return None

    async def _forbids(self, vc: VirtualCluster, record: FoundRecord | None) -> str:
        """Return why a virtual cluster is not to be served, "" where nothing speaks against it."""
        if self._source.wants_nodes_of(vc):
            return ""
        limit = self._making.limit
        if record is None and limit and len(self._records) >= limit:
            return f"{self._finder.source}.limit of {limit} virtual clusters is reached"
        try:
            await self._around.check(vc)
        except ConfigError as error:
            return error.problem
        return ""

    def _refused(self, found: Found, problem: str) -> Requeue:
        """Say why what was found is not served as it is; what was served before stays."""
        text = (
            f"cannot serve {self._finder.text_of(found.subject)} as virtual cluster {found.name}: "
            f"{problem}"
        )
        is_new = self._around.origins.refuse(self._finder.source, found.name, text)
        if is_new:
            _log.warning("Not serving a found virtual cluster", extra={"reason": text})
        if is_new or self._now() - self._told.get(found.name, 0.0) > TELL_AGAIN_S:
            self._told[found.name] = self._now()
            about = self._finder.object_of(found.subject)
            if about is not None:
                self._around.tell(about, "NotServed", text)
        return Requeue(LOOK_S)

    # --- what is gone -------------------------------------------------------------------

    async def _let_go(self, name: str, record: FoundRecord) -> Requeue | None:
        if self._source.rival(name) is not None or self._around.stays_away(name):
            await self._forget(name)  # it is another's by now, or was taken away already
            return None
        if self._around.is_in_doubt() or not await self._finder.is_gone(name, record.subject):
            return Requeue(LOOK_S)
        common, gone = self._making.common, self._finder.text_of(record.subject)
        if name not in self._source:  # it went while the setting was off
            self._serve_gone(name, record)
        if record.gone_at is None:
            record = replace(record, gone_at=self._now())
            await self._records.keep(name, record)
            self._say("Source of a virtual cluster is gone", name, record.subject)
        ends_at = (record.gone_at or 0.0) + common.grace_period
        if (left_s := ends_at - self._now()) > 0:
            off = f"stays registered, because {self._finder.source}.drain is off"
            then = "is removed" if common.drain else off
            until = timestamp(datetime.fromtimestamp(ends_at, UTC))
            waits = f"nothing changes until {until} ({format_duration(common.grace_period)})"
            self._note(
                name, record.subject, f"{gone} is gone; {waits}, then the virtual cluster {then}"
            )
            return Requeue(min(left_s, LOOK_S))
        if common.drain:
            record = replace(record, is_draining=True)
            await self._records.keep(name, record)
            self._say("Removing a virtual cluster whose source is gone", name, record.subject)
            return await self._drain(name, record, None)
        if not self._around.removal.is_anywhere(name):
            await self._forget(name)
            return None
        stays = f"the virtual cluster stays registered, because {self._finder.source}.drain is off"
        leave = f"to remove it, run karmada-vc-agent leave {name}"
        self._stays(name, record.subject, f"{gone} is gone; {stays}; {leave}")
        return Requeue(LOOK_S)

    def _serve_gone(self, name: str, record: FoundRecord) -> None:
        """Serve what is gone by what is remembered of it, as after a start. Raises RetryError."""
        try:
            self._source.put(self._making.of_gone(name, record))
        except ValueError as error:
            gone = self._finder.text_of(record.subject)
            text = f"{gone} is gone; the virtual cluster cannot be served: {error}"
            self._stays(name, record.subject, text)
            raise RetryError(text) from error

    def _stays(self, name: str, subject: str, text: str) -> None:
        known = self._around.origins.of(name)
        if known is None or known.absence != text:
            _log.warning(
                "Keeping a virtual cluster whose source is gone",
                extra={"virtual_cluster": name, "reason": text},
            )
        self._note(name, subject, text)

    async def _drain(self, name: str, record: FoundRecord, found: Found | None) -> Requeue | None:
        """Take the next step of a removal; it ends before it began where it is not wanted now."""
        vc = self._source.get(name)
        if vc is None or self._source.rival(name) is not None:
            await self._forget(name)
            return None
        is_wanted = found is not None or not self._making.common.drain
        if is_wanted and not self._around.removal.has_begun(name):
            await self._records.keep(name, replace(record, is_draining=False))
            return Requeue(0.0)
        try:
            text = await self._around.removal.step(vc, self._source)
        except KubeError as error:
            self._note_removal(name, record, str(error))
            raise
        if text:
            self._note_removal(name, record, text)
            return Requeue(STEP_S)
        self._say("Removed a virtual cluster", name, record.subject)
        await self._forget(name)
        return Requeue(0.0) if found is not None else None

    def _note_removal(self, name: str, record: FoundRecord, text: str) -> None:
        gone = self._finder.text_of(record.subject)
        self._note(name, record.subject, f"{gone} is gone; removing the virtual cluster: {text}")

    async def _forget(self, name: str) -> None:
        await self._records.drop(name)
        self._stop_serving(name)

    def _note(self, name: str, subject: str, absence: str) -> None:
        origin = Origin(self._finder.text_of(subject), self._finder.by_label, absence)
        self._around.origins.note(self._finder.source, name, origin)

    def _say(self, what: str, name: str, subject: str) -> None:
        found_by = self._finder.text_of(subject)
        _log.info(what, extra={"virtual_cluster": name, "found_by": found_by})
