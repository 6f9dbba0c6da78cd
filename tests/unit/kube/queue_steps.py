"""What tests of the work queue do with it."""

from collections.abc import Hashable
from typing import TypeVar

from karmada_vc_agent.kube.controller import WorkQueue

K = TypeVar("K", bound=Hashable)


async def take(queue: WorkQueue[K]) -> K:
    key = await queue.take()
    assert key is not None
    return key


async def work_off(queue: WorkQueue[K]) -> list[K]:
    """Take and finish all keys that are ready."""
    taken = []
    while len(queue):
        key = await take(queue)
        queue.done(key)
        taken.append(key)
    return taken
