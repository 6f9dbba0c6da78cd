"""An outage of an API server: logged once for all of its clients, and its end wakes them all."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

_log = logging.getLogger(__name__)


class Outage:
    """Whether an API server is unreachable, for the log; shared by its clients."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._ended = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def on_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever any client is answered again, whichever met the outage."""
        self._listeners.append(listener)

    def begin(self, server: str, url: str, reason: str) -> None:
        """Log that the server is unreachable, unless that was logged."""
        if self._since is None:
            self._since = time.monotonic()
            extra = {"server": server, "url": url, "reason": reason}
            _log.warning("Waiting for API server", extra=extra)

    def end(self, server: str) -> None:
        """Log that the server answers again if it was unreachable."""
        if self._since is not None:
            away_s = round(time.monotonic() - self._since, 1)
            self._since = None
            self._ended.set()
            self._ended = asyncio.Event()
            _log.info("API server answers again", extra={"server": server, "away_s": away_s})
            for listener in self._listeners:
                listener()

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until an outage ends: whoever is answered first wakes the others."""
        ended = self._ended
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
