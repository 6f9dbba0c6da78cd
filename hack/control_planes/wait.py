"""Wait for something that only polling can tell."""

import asyncio
import time
from collections.abc import Callable

from control_planes.errors import ControlPlanesError

TIMEOUT_S = 60.0
POLL_S = 0.1


async def wait_for(
    what: str,
    find_problem: Callable[[], str],
    *,
    timeout_s: float = TIMEOUT_S,
    poll_s: float = POLL_S,
) -> None:
    """Ask again until there is no problem left; give up with the last one."""
    deadline = time.monotonic() + timeout_s
    while problem := await asyncio.to_thread(find_problem):
        if time.monotonic() > deadline:
            raise ControlPlanesError(f"{what} not ready after {timeout_s:.0f} s: {problem}")
        await asyncio.sleep(poll_s)
