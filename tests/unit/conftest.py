"""Fake API servers, and a clock that jumps instead of waiting where no thread is awaited."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.fakes.fixtures import client, host, hub, world
from tests.fakes.virtual_time import VirtualTimeLoop

__all__ = ["client", "host", "hub", "world"]

REAL_TIME = {"gateway", "hack", "interpretation", "objects", "server", "unit"}
"""Directories whose tests wait for threads and processes of their own."""


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.parent.name in REAL_TIME:
        return {"real-time": asyncio.new_event_loop}
    return {"virtual-time": VirtualTimeLoop}
