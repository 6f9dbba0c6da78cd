"""TLS handshakes in progress, of which the oldest one makes room for others.

Many connections may come in one round of the loop, before the task of any has begun. So the
connection is closed here: a task that is cancelled before it begins closes nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Shake = Callable[[asyncio.Transport], Coroutine[Any, Any, None]]


class Handshakes:
    """Runs handshakes. shake: makes one, and closes the connection where it fails."""

    def __init__(self, shake: Shake) -> None:
        self._shake = shake
        self._going: dict[asyncio.Task[None], asyncio.Transport] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._going)

    def begin(self, transport: asyncio.Transport) -> None:
        """Begin one; what comes is read by it alone."""
        transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._shake(transport))
        self._going[task] = transport
        task.add_done_callback(lambda done: self._going.pop(done, None))

    def end_oldest(self) -> bool:
        """Close the connection of the oldest one; return whether there was one."""
        task = next((each for each in self._going if not each.done()), None)
        if task is None:
            return False
        transport = self._going.pop(task)
        task.cancel()
        transport.abort()
        return True

    def end_all(self) -> None:
        """Close the connections of all."""
        while self.end_oldest():
            pass
