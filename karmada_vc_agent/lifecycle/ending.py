"""Runs the work of a process until it is told to stop, and gives it time to end well."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(
    stop: asyncio.Event, work: Awaitable[None], is_serving: Callable[[], bool], patience_s: float
) -> None:
    """Run `work`; `stop` cancels it: at once until it serves, then after `patience_s`."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not task.done() and is_serving():
        await asyncio.wait((task,), timeout=patience_s)
    stopped.cancel()
    if not task.done():
        task.cancel()
    await asyncio.gather(stopped, return_exceptions=True)
    try:
        await task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
