"""Room in memory for what is large: one thing of each virtual cluster, and a few of all.

A gateway has 512 MiB. What is below LARGE_BYTES needs no room: of it, a virtual cluster has as many
as it may have requests.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from karmada_vc_agent.gateway.server.statuses import RefusalError

LARGE_BYTES = 256 * 1024
LARGE_AT_ONCE = 3
"""Of all virtual clusters. Each has one that waits at most, so they take turns."""
WAIT_S = 20.0
"""How long to wait for room, then 429."""
HELD_S = 60.0
"""How long to have it: what goes to a client that reads slowly ends then."""


class Room:
    """Lets large things in, one after the other."""

    def __init__(
        self, at_once: int = LARGE_AT_ONCE, wait_s: float = WAIT_S, held_s: float = HELD_S
    ) -> None:
        self._wait_s = wait_s
        self._held_s = held_s
        self._of_all = asyncio.Semaphore(at_once)
        self._of_cluster: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def taken(self, cluster: str) -> AsyncIterator[None]:
        """Have room for one large thing. Raises RefusalError: 429; 504 if it was had too long."""
        own = self._of_cluster.setdefault(cluster, asyncio.Lock())
        async with _patience(own, self._wait_s), _patience(self._of_all, self._wait_s):
            try:
                async with asyncio.timeout(self._held_s):
                    yield
            except TimeoutError as error:
                text = "what is large was not sent or read in time"
                raise RefusalError(504, text, counted="large-late") from error

    def forget(self, cluster: str) -> None:
        """Let go of a virtual cluster that is no longer served."""
        if (own := self._of_cluster.get(cluster)) is not None and not own.locked():
            del self._of_cluster[cluster]


@asynccontextmanager
async def _patience(lock: asyncio.Lock | asyncio.Semaphore, wait_s: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(wait_s):
            await lock.acquire()
    except TimeoutError as error:
        text = "too many large requests at once; try again"
        raise RefusalError(429, text, counted="too-many-large") from error
    try:
        yield
    finally:
        lock.release()
