"""Connections that come all at once, before a server has a chance to look at any of them."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

SETTLED_S = 0.3


@contextmanager
def burst(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Open connections that say nothing; the loop does not run meanwhile."""
    opened = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(count)]
    try:
        yield opened
    finally:
        for each in opened:
            each.close()


async def still_open(opened: list[socket.socket]) -> int:
    """Return how many of them the server has not closed."""
    await asyncio.sleep(SETTLED_S)
    return sum(map(_is_open, opened))


def _is_open(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return bool(sock.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False
