"""Enqueues every Work periodically (`--resync-period`)."""

import asyncio
from collections.abc import Callable, Iterable

from karmada_vc_agent.work.works import WorkKey, Works


async def resync(
    period_s: float, clusters: Iterable[str], works: Works, enqueue: Callable[[WorkKey], None]
) -> None:
    """Enqueue all Works of all virtual clusters each `period_s`, until cancelled."""
    while True:
        await asyncio.sleep(period_s)
        for cluster in clusters:
            for work in works.names(cluster):
                enqueue((cluster, work))
