"""Fake API servers, and a clock that jumps instead of waiting."""

from collections.abc import Callable, Mapping

import pytest

from tests.fakes.fixtures import client, host, hub, world
from tests.fakes.virtual_time import VirtualTimeLoop

__all__ = ["client", "host", "hub", "world"]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], VirtualTimeLoop]]:
    return {"virtual-time": VirtualTimeLoop}
