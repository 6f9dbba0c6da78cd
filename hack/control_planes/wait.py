"""Wait for something that only polling can tell."""

import asyncio
import time
from collections.abc import Callable

from control_planes.errors import ControlPlanesError

TIMEOUT_S = 60.0
POLL_S = 0.1


async def wait_for(what: str, find_problem: Callable[[], str]) -> None:
    """Ask again until there is no problem left; give up with the last one."""
    deadline = time.monotonic() + TIMEOUT_S
    while problem := await asyncio.to_thread(find_problem):
        if time.monotonic() > deadline:
            raise ControlPlanesError(f"{what} not ready after {TIMEOUT_S:.0f} s: {problem}")
        await asyncio.sleep(POLL_S)
