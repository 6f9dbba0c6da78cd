"""Signals end a process with its own exit code, whenever they come."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from karmada_vc_agent.runner.process import call_on, stop_on_signals

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_after_the_first_change_nothing(number: signal.Signals) -> None:
    async def run() -> None:
        stop = asyncio.Event()
        stop_on_signals(stop)
        signal.raise_signal(number)
        await stop.wait()
        signal.raise_signal(number)

    asyncio.run(run())
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.raise_signal(each)
        assert signal.getsignal(each) is signal.SIG_IGN


def test_signal_after_the_loop_does_not_end_the_process() -> None:
    """As while an agent that lost the lead exits: its exit code says why."""

    async def run() -> None:
        stop_on_signals(asyncio.Event())
        call_on(signal.SIGHUP, lambda: None)

    asyncio.run(run())
    for each in NUMBERS:
        signal.raise_signal(each)


def test_signal_is_reported_each_time() -> None:
    told = []

    async def run() -> None:
        for _ in range(2):
            came = asyncio.Event()
            call_on(signal.SIGHUP, lambda came=came: (told.append(1), came.set()))  # type: ignore[misc, func-returns-value]
            signal.raise_signal(signal.SIGHUP)
            await came.wait()

    asyncio.run(run())
    assert told == [1, 1]
