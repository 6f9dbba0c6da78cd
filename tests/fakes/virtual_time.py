"""An event loop whose clock jumps to the next timer as soon as nothing else can happen.

Sockets are real: while bytes are under way between two ends of this process, or a thread of the
loop's executor works, a jump waits for them.
"""

import asyncio
import selectors
import socket
import struct
from collections.abc import Callable, Iterable
from selectors import SelectorKey
from typing import Any

BYTES_ARRIVE_S = 0.01
"""How long a jump waits, in real time, for what is under way."""
_INFO_BYTES = 256
_LISTENING = 10
_RECEIVED, _NOT_SENT, _SENT = 128, 144, 200
"""Offsets in Linux' struct tcp_info (include/uapi/linux/tcp.h)."""


def is_under_way(descriptors: Iterable[int]) -> bool:
    """Return whether bytes may still arrive at one of these; True if that cannot be determined."""
    sent: dict[Any, int] = {}
    received: dict[Any, int] = {}
    for descriptor in descriptors:
        try:
            end = socket.socket(fileno=descriptor)
        except OSError:  # a pipe
            return True
        try:
            info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
            if info[0] == _LISTENING:
                continue
            here, there = end.getsockname(), end.getpeername()
        except OSError:  # no TCP, or not connected yet
            return True
        finally:
            end.detach()
        if struct.unpack_from("=I", info, _NOT_SENT)[0]:
            return True
        (sent[here, there],) = struct.unpack_from("=Q", info, _SENT)
        (received[there, here],) = struct.unpack_from("=Q", info, _RECEIVED)
    return any(received.get(ends, 0) < count for ends, count in sent.items())


class _Selector(selectors.DefaultSelector):
    """Turns waiting for a timer into a jump of the clock."""

    jumped_s = 0.0
    jobs = 0
    own = 0
    """The descriptor by which threads wake the loop."""

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            return super().select(None)
        others = [key.fd for key in self.get_map().values() if key.fd != self.own]
        if self.jobs or is_under_way(others):
            ready = super().select(BYTES_ARRIVE_S)
        if not ready:
            self.jumped_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`loop.time()` starts at 1000 and moves only when everybody waits for it."""

    def __init__(self) -> None:
        self._jumps = _Selector()
        super().__init__(self._jumps)
        (self._jumps.own,) = (key.fd for key in self._jumps.get_map().values())

    def time(self) -> float:
        return 1000.0 + self._jumps.jumped_s

    def compute(self, seconds: float) -> None:
        """Take as long for this pass."""
        self._jumps.jumped_s += seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        self._jumps.jobs += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._job_ended)
        return future

    async def shutdown_default_executor(self, *_: float | None) -> None:
        """Join the threads, however long that takes: virtual time would be over at once."""
        await super().shutdown_default_executor()

    def _job_ended(self, _: asyncio.Future[Any]) -> None:
        self._jumps.jobs -= 1


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


async def let_others_run(rounds: int = 20) -> None:
    """Give every task that can go on now its turn, without moving the clock."""
    for _ in range(rounds):
        await asyncio.sleep(0)
