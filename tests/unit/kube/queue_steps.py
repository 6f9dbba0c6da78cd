"""What tests of the work queue do with it."""

from karmada_vc_agent.kube.controller import WorkQueue


async def take(queue: WorkQueue[str]) -> str:
    key = await queue.take()
    assert key is not None
    return key


async def work_off(queue: WorkQueue[str]) -> list[str]:
    """Take and finish all keys that are ready."""
    taken = []
    while len(queue):
        key = await take(queue)
        queue.done(key)
        taken.append(key)
    return taken
