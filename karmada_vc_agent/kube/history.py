"""The history of an API server that its clients share: outages, resets, versions."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

_MOST_DIGITS = 20
"""Digits of a 64-bit number, which etcd uses; int() itself fails at some thousand digits."""


def is_lower(version: str, other: str) -> bool:
    """Return whether a version is certainly lower than another."""
    return version != other and is_at_most(version, other)


def is_at_most(version: str, other: str) -> bool:
    """Return whether a version is certainly lower than another or the same: both are decimal."""
    return _is_number(version) and _is_number(other) and int(version) <= int(other)


def is_of_storage(version: str) -> bool:
    """Return whether a list can be of a storage: each has a version to watch from."""
    return version not in ("", "0")


def _is_number(version: str) -> bool:
    return version.isdecimal() and len(version) <= _MOST_DIGITS


_log = logging.getLogger(__name__)

SECOND_LIST_S = 10.0


NEVER = float("inf")


class History:
    """The history of one API server, shared by all of its clients and reflectors.

    A watch from a version that a server no longer has, as after a restore, is silent forever. So a
    reader that sees a version lower than before reports it. Then everything is listed again at
    once, and once more after a pause: until then the server is in doubt, and nothing is deleted
    based on its answers.
    """

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._away_since: float | None = None
        self._recovered_at = clock()
        self._ended = asyncio.Event()
        self._end_listeners: list[Callable[[], None]] = []
        self.epoch = 0
        self.time_resets = 0
        self.server = server
        self._listed_epochs: dict[object, int] = {}
        self._settled_at_epoch: int | None = None
        self._second_list: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()
        self._back_listeners: list[Callable[[], None]] = []
        self._settled_listeners: list[Callable[[], None]] = []

    def on_back(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever a reset is seen, before anything is listed."""
        self._back_listeners.append(listener)

    def on_settled(self, listener: Callable[[], None]) -> None:
        """Call `listener` after the second list."""
        self._settled_listeners.append(listener)

    @property
    def is_in_doubt(self) -> bool:
        """Return whether time was reset and not everything was listed twice since."""
        return self._second_list is not None or self._settled_at_epoch is not None

    def check(self, before: str, version: str, what: str, epoch: int) -> bool:
        """Compare a version with a later one of the same thing; report it if lower.

        epoch: in which `before` was seen; earlier epochs are no evidence any more.
        """
        is_back = is_lower(version, before) and epoch == self.epoch
        if is_back:
            self.notice(f"{what} was at version {before} and is at {version}")
        return is_back

    def notice(self, evidence: str) -> None:
        """Report that time was reset."""
        is_reported = self._second_list is not None
        self.time_resets += not is_reported
        if not is_reported:
            _log.warning(
                "An API server went back in time, as after a restore from a backup; listing "
                "everything again",
                extra={"server": self.server, "reason": evidence},
            )
        if self._second_list is not None:
            self._second_list.cancel()
        loop = asyncio.get_running_loop()
        self._second_list = loop.call_later(SECOND_LIST_S, self._list_again)
        self._settled_at_epoch = None
        if not is_reported:
            for listener in self._back_listeners:
                listener()
            self._move()

    def join(self, member: object) -> None:
        """Count a reflector among those that have to list."""
        self._listed_epochs[member] = self.epoch

    def leave(self, member: object) -> None:
        """Stop counting a reflector."""
        self._listed_epochs.pop(member, None)
        self._settle()

    def listed(self, member: object, epoch: int) -> None:
        """Record that a reflector has listed everything, starting in that epoch."""
        self._listed_epochs[member] = epoch
        self._settle()

    async def wait_new_epoch(self, epoch: int) -> None:
        """Wait until everything has to be listed again."""
        while self.epoch == epoch:
            await self._moved.wait()

    def _list_again(self) -> None:
        self._second_list = None
        self._settled_at_epoch = self.epoch + 1
        self._move()
        self._settle()

    def _move(self) -> None:
        self.epoch += 1
        self._moved.set()
        self._moved = asyncio.Event()

    def _settle(self) -> None:
        target = self._settled_at_epoch
        if target is None or any(each < target for each in self._listed_epochs.values()):
            return
        self._settled_at_epoch = None
        _log.info("Listed everything again", extra={"server": self.server})
        for listener in self._settled_listeners:
            listener()

    def on_outage_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever any client is answered after an outage."""
        self._end_listeners.append(listener)

    @property
    def is_reachable(self) -> bool:
        """Return whether the last finished request got an answer; True before the first one."""
        return self._away_since is None

    @property
    def since(self) -> float:
        """Return since when all clients get answers, by the clock; NEVER in an outage."""
        return self._recovered_at if self.is_reachable else NEVER

    def recovered(self) -> None:
        """Record that a client that got no answer gets answers again."""
        self._recovered_at = self._clock()

    def begin_outage(self, url: str, reason: str) -> None:
        """Log that the server is unreachable, unless that was logged."""
        if self._away_since is None:
            self._away_since = self._clock()
            extra = {"server": self.server, "url": url, "reason": reason}
            _log.warning("Waiting for API server", extra=extra)

    def end_outage(self) -> None:
        """Log that the server answers again if it was unreachable."""
        if self._away_since is not None:
            away_s = round(self._clock() - self._away_since, 1)
            self._away_since = None
            self._ended.set()
            self._ended = asyncio.Event()
            _log.info("API server answers again", extra={"server": self.server, "away_s": away_s})
            for listener in self._end_listeners:
                listener()

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until an outage ends: the first client with an answer wakes all."""
        ended = self._ended
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()


def doubt_of(*histories: History) -> str:
    """Return which of some servers may have been reset, as text; "" if none."""
    doubtful = (each.server for each in histories if each.is_in_doubt)
    return next(
        (f"{server} went back in time and is being listed again" for server in doubtful), ""
    )
