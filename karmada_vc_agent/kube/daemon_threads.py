"""Threads for what may take arbitrarily long; the end of the process waits for none of them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_daemon_thread(function: Callable[[], T], name: str) -> Future[T]:
    """Start a function in a thread of its own; return its result to come.

    Raises RuntimeError if the system has no thread left.
    """
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # who waits no more cancels nothing

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - for who waits for it
            result.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return result


async def await_in_thread(function: Callable[[], T], name: str) -> T:
    """Return what a function returns; without blocking the event loop."""
    return await asyncio.wrap_future(in_daemon_thread(function, name))
