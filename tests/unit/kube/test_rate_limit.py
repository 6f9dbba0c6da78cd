"""TokenBucket: a burst, then so many a second."""

import asyncio
from typing import cast

import pytest

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.flows import TokenBucket
from tests.fakes.virtual_time import Clock, VirtualTimeLoop


def test_burst_passes_at_once_and_the_rest_waits_in_order() -> None:
    bucket = TokenBucket(10.0, 3, Clock())
    assert [bucket.reserve() for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])


def test_tokens_come_back_with_time_up_to_the_burst() -> None:
    clock = Clock()
    bucket = TokenBucket(10.0, 2, clock)
    for _ in range(2):
        bucket.reserve()
    clock.advance(1000.0)
    assert [bucket.reserve() for _ in range(3)] == pytest.approx([0, 0, 0.1])


@pytest.mark.parametrize("qps", [0.0, -1.0])
def test_no_rate_is_no_limit(qps: float) -> None:
    bucket = TokenBucket(qps, 1, Clock())
    assert {bucket.reserve() for _ in range(1000)} == {0.0}


def test_burst_below_one_lets_one_pass() -> None:
    bucket = TokenBucket(1.0, 0, Clock())
    assert bucket.try_take()
    assert not bucket.try_take()


def test_refused_try_takes_no_token() -> None:
    clock = Clock()
    bucket = TokenBucket(1.0, 1, clock)
    assert [bucket.try_take() for _ in range(5)] == [True, False, False, False, False]
    clock.advance(1.0)
    assert bucket.try_take()


async def test_waiting_takes_the_time_of_the_rate() -> None:
    loop = asyncio.get_running_loop()
    bucket = TokenBucket(2.0, 1, loop.time)
    for _ in range(4):
        await bucket.wait()
    assert loop.time() - 1000.0 == pytest.approx(1.5)


async def test_flows_share_tokens_fairly() -> None:
    loop = asyncio.get_running_loop()
    rate, passed = TokenBucket(10.0, 1, loop.time), list[tuple[str, float]]()

    async def wait(flow: str) -> None:
        await flows.run(flow, rate.wait)
        passed.append((flow, loop.time() - 1000.0))

    async with asyncio.TaskGroup() as group:
        for flow in ("a",) * 40 + ("b",) * 4:
            group.create_task(wait(flow))
    assert "ababab" in "".join(flow for flow, _ in passed)
    times = [at for flow, at in passed if flow == "b"]
    assert times[-1] - times[0] == pytest.approx(2 * 0.3)  # twice of what it is without the others


async def test_agent_itself_does_not_wait_for_the_shares_of_many_flows() -> None:
    loop = asyncio.get_running_loop()
    rate = TokenBucket(10.0, 1, loop.time)
    others = [asyncio.ensure_future(flows.run(f"f{each}", rate.wait)) for each in range(1000)]
    await asyncio.sleep(1.0)
    for _ in range(5):
        await rate.wait()
    assert loop.time() - 1000.0 <= 1.0 + 5 * 3 * 0.1
    assert sum(task.done() for task in others) >= 10
    await asyncio.gather(*others)


@pytest.mark.parametrize("flow_count", [1, 20, 400])
async def test_busy_loop_lets_as_many_pass(flow_count: int) -> None:
    loop = cast(VirtualTimeLoop, asyncio.get_running_loop())
    rate = TokenBucket(400.0, 20, loop.time)

    def compute() -> None:
        loop.compute(0.02)
        if not all(task.done() for task in waiting):
            loop.call_soon(compute)

    waiting = [
        asyncio.ensure_future(flows.run(f"f{each % flow_count}", rate.wait)) for each in range(400)
    ]
    loop.call_soon(compute)
    await asyncio.gather(*waiting)
    assert loop.time() - 1000.0 == pytest.approx(1.0, rel=0.25)


@pytest.mark.parametrize("flow", ["other", flows.OWN])
async def test_who_sends_one_after_the_other_waits_for_one_of_a_busy_flow(flow: str) -> None:
    loop = asyncio.get_running_loop()
    rate = TokenBucket(400.0, 1, loop.time)
    busy = [asyncio.ensure_future(flows.run("busy", rate.wait)) for _ in range(200)]
    await asyncio.sleep(0.1)
    began = loop.time()
    for _ in range(10):
        await flows.run(flow, rate.wait)
    assert loop.time() - began <= 10 * 3 / 400
    await asyncio.gather(*busy)


async def test_rate_without_limit_waits_for_nothing() -> None:
    rate = TokenBucket(0.0, 1, asyncio.get_running_loop().time)
    for _ in range(100):
        await rate.wait()
    assert asyncio.get_running_loop().time() == 1000.0
