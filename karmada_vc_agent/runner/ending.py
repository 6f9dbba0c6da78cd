"""Runs the work of a process until a signal stops it, and gives it time to end well."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

_ENDING = (signal.SIGTERM, signal.SIGINT)


def call_on(number: signal.Signals, call: Callable[[], object]) -> None:
    """Have a signal call something in the running loop.

    Unlike a handler of the loop it stays when that is closed: the default one ends the process by
    the signal, and not with its exit code.
    """
    loop = asyncio.get_running_loop()

    def handle(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends anyway
            loop.call_soon_threadsafe(call)

    signal.signal(number, handle)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set an event at the first signal to end; those that follow change nothing."""

    def end() -> None:
        for number in _ENDING:  # Python gives up its own handlers before it exits, but not this
            signal.signal(number, signal.SIG_IGN)
        stop.set()

    for number in _ENDING:
        call_on(number, end)


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
