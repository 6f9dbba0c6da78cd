"""Lets others have their turn: what is long to compute is done in small parts."""

import asyncio
import time

TURN_S = 0.005
"""How long one request may compute before others get their turn."""


class Turns:
    """The turns of one request."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it is the turn of others."""
        return time.monotonic() - self._since > TURN_S

    async def rest(self) -> None:
        """Let others run, if it is their turn."""
        if self.is_over:
            await asyncio.sleep(0)
            self._since = time.monotonic()
