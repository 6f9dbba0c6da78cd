"""Restarts failed parts of the process, each by itself.

A failure outside of it ends the process: leadership, and the service as a whole.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)

BACKOFF_S = (0.5, 60.0)
CALM_S = 300.0
"""A part that ran this long before it failed is restarted without back-off."""


class Supervisor:
    """Runs parts; counts and logs failures, and restarts after a pause.

    on_restart: called with the kind of the part.
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
        """Start a task that runs a part under supervision."""
        name = name or kind
        return group.create_task(self.keep(kind, run, name), name=name)

    async def keep(self, kind: str, run: Callable[[], Awaitable[None]], name: str = "") -> None:
        """Run a part until it ends by itself or is cancelled.

        kind: label of the count: reflector, worker. name: for the log.
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
                    "Restarting a part that failed",
                    extra={"part": name or kind, "pause_s": pause_s},
                )
            else:
                return
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter


ALONE = Supervisor()
"""A default without counting."""
