"""Outages of an API server: logged once for all of its clients, and their end wakes them all."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

_log = logging.getLogger(__name__)

NEVER = float("inf")


class Outage:
    """Return whether an API server answers, according to all of its clients, which share this.

    An idle client does not notice the end of an outage, so all of them count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at: float | None = None
        self._recovered_at = clock()
        self._ended = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def on_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever any client is answered after an outage."""
        self._listeners.append(listener)

    @property
    def is_reachable(self) -> bool:
        """Return whether the last finished request got an answer; True before the first one."""
        return self._began_at is None

    @property
    def since(self) -> float:
        """Return since when all clients get answers, by the clock; NEVER in an outage."""
        return self._recovered_at if self.is_reachable else NEVER

    def recovered(self) -> None:
        """Record that a client that got no answer gets answers again."""
        self._recovered_at = self._clock()

    def begin(self, server: str, url: str, reason: str) -> None:
        """Log that the server is unreachable, unless that was logged."""
        if self._began_at is None:
            self._began_at = self._clock()
            extra = {"server": server, "url": url, "reason": reason}
            _log.warning("Waiting for API server", extra=extra)

    def end(self, server: str) -> None:
        """Log that the server answers again if it was unreachable."""
        if self._began_at is not None:
            away_s = round(self._clock() - self._began_at, 1)
            self._began_at = None
            self._ended.set()
            self._ended = asyncio.Event()
            _log.info("API server answers again", extra={"server": server, "away_s": away_s})
            for listener in self._listeners:
                listener()

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until an outage ends: the first client with an answer wakes all."""
        ended = self._ended
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
