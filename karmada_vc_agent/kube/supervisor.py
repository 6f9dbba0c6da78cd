"""Keeps the parts of the process running: one that fails is started again, alone.

What runs outside of it ends the process when it fails: the lead, and the service as a whole.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)

BACKOFF_S = (0.5, 60.0)
CALM_S = 300.0
"""A part that ran this long before it failed is started again as if for the first time."""


class Supervisor:
    """Runs parts; counts and logs each that fails, and starts it again after a pause.

    on_restart: told the kind of the part.
    """

    def __init__(self, on_restart: Callable[[str], None] = lambda _: None) -> None:
        self._on_restart = on_restart

    def start(
        self,
        group: asyncio.TaskGroup,
        kind: str,
        run: Callable[[], Awaitable[None]],
        name: str = "",
    ) -> asyncio.Task[None]:
        """Start a task that keeps a part running."""
        name = name or kind
        return group.create_task(self.keep(kind, run, name), name=name)

    async def keep(self, kind: str, run: Callable[[], Awaitable[None]], name: str = "") -> None:
        """Run a part until it ends by itself or is cancelled.

        kind: what is counted, of few values: reflector, worker. name: what is logged.
        """
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await run()
            except Exception:  # noqa: BLE001 - a part must not cost the others
                if time.monotonic() - started > CALM_S:
                    failures = 0
                low, high = BACKOFF_S
                pause_s = min(high, low * 2 ** min(failures, 10))
                failures += 1
                self._on_restart(kind)
                _log.exception(
                    "Starting a part again that failed",
                    extra={"part": name or kind, "pause_s": pause_s},
                )
            else:
                return
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter


ALONE = Supervisor()
"""For whoever was handed none: starts again and counts nothing."""
