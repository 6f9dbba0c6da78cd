"""Probes unavailable webhooks until they answer, so that Works need not.

A probe repeats the last failed call, outside of all workers. A webhook is probed while it is
configured; the longer it is unavailable, the less often.
"""

import asyncio
from collections.abc import Callable, Hashable
from functools import partial

from karmada_vc_agent.interpretation.hook_errors import UnavailableError
from karmada_vc_agent.interpretation.hooks import Dependency
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.flows import FairSlots

PAUSE_S = (2.0, 10.0)
PAUSE_OF_OUTAGE = 0.1
"""Fraction of an outage between two probes; 2 s at first, 10 s at most."""
AT_ONCE = 4
"""Concurrent probes: a lost one must not hide that the next would succeed."""
PROBED_AT_MOST = 256
"""Webhooks times virtual clusters, divided fairly; beyond that, Works themselves retry."""

OnAnswer = Callable[[str, Hashable], None]
"""(virtual cluster, key of the hook)"""


class HookProbes:
    """Probes webhooks; on_answer: called with each that answers again.

    is_shared: whether there are several virtual clusters.
    """

    def __init__(self, on_answer: OnAnswer, is_shared: Callable[[], bool] = lambda: True) -> None:
        self._on_answer = on_answer
        self._slots = FairSlots(PROBED_AT_MOST, is_shared)
        self._probed: set[Hashable] = set()
        self._new: asyncio.Queue[Dependency] = asyncio.Queue()

    def probe(self, rest: Dependency) -> None:
        """Probe a webhook until it answers."""
        key = (rest.cluster, rest.hook.key)
        if key in self._probed or not self._slots.try_take(rest.cluster):
            return
        self._probed.add(key)
        self._new.put_nowait(rest)

    async def run(self) -> None:
        """Probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._watch(await self._new.get()), name="hook probe")

    async def _watch(self, rest: Dependency) -> None:
        try:
            answers = await _wait_answer(rest)
        finally:
            self._probed.discard((rest.cluster, rest.hook.key))
            self._slots.give_back(rest.cluster)
        if answers:
            self._on_answer(rest.cluster, rest.hook.key)


async def _wait_answer(rest: Dependency) -> bool:
    """Wait until it answers; return False if it is no longer configured."""
    loop = asyncio.get_running_loop()
    since, shortest, longest = loop.time(), *PAUSE_S
    flow = ("probes", rest.cluster)  # of their own: no call of a Work waits for them
    asked: set[asyncio.Task[bool]] = set()
    try:
        while rest.is_current():
            pause_s = min(longest, max(shortest, (loop.time() - since) * PAUSE_OF_OUTAGE))
            next_at = loop.time() + pause_s
            while asked and loop.time() < next_at:
                done, asked = await asyncio.wait(
                    asked, timeout=next_at - loop.time(), return_when=asyncio.FIRST_COMPLETED
                )
                if any(task.result() for task in done):
                    return True
            await asyncio.sleep(next_at - loop.time())
            if len(asked) < AT_ONCE:
                asked.add(asyncio.ensure_future(flows.run(flow, partial(_answers, rest))))
        return False
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _answers(rest: Dependency) -> bool:
    """Whether the webhook answers, even with an error; the Works that call it meet that, too."""
    try:
        await rest.ask_again()
    except UnavailableError:
        return False
    except Exception:  # noqa: BLE001 - a bug must not end the probes of others
        return True
    return True
