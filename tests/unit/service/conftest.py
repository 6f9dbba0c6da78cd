"""Fake API servers; a clock that jumps instead of waiting, but where a whole agent runs."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.fakes.fixtures import world
from tests.fakes.virtual_time import VirtualTimeLoop

__all__ = ["world"]

NO_AGENT_RUNS = ("test_service.py", "test_waiting_writes.py")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.name in NO_AGENT_RUNS:
        return {"virtual-time": VirtualTimeLoop}
    return {"real-time": asyncio.new_event_loop}
