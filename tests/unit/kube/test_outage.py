"""Outage: who waits for the end of one is woken by whoever is answered first."""

import asyncio

from karmada_vc_agent.kube.store import History


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_the_end_of_an_outage_wakes_all() -> None:
    outage, began = History("hub"), now()
    outage.begin_outage("url", "refused")
    waiting = [asyncio.ensure_future(outage.pause(100.0)) for _ in range(3)]
    await asyncio.sleep(1.0)
    assert not any(each.done() for each in waiting)
    outage.answered(was_away=False)
    await asyncio.gather(*waiting)
    assert now() - began < 2.0


async def test_a_pause_ends_by_itself() -> None:
    outage, began = History("hub"), now()
    await outage.pause(5.0)
    assert 5.0 <= now() - began < 6.0


async def test_response_without_an_outage_wakes_no_one() -> None:
    outage, began = History("hub"), now()
    waiting = asyncio.ensure_future(outage.pause(5.0))
    await asyncio.sleep(1.0)
    outage.answered(was_away=False)
    await waiting
    assert now() - began >= 5.0
