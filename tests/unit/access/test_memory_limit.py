"""The memory limit of both Pods: what two virtual clusters make each hold at most (ADR 68)."""

import re
from math import ceil
from pathlib import Path

import pytest

from karmada_vc_agent.access.agent_objects import MEMORY_LIMIT
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.gateway.command import TLS_BUFFER_BYTES
from karmada_vc_agent.features.gateway.server.answers import (
    DECODED_BYTES,
    PART_BYTES,
    WATCH_BYTES,
)
from karmada_vc_agent.features.gateway.server.connections import (
    BODY_BYTES,
    HEAD_BYTES,
    READ_BYTES,
    STREAM_BYTES,
    WAITING,
)
from karmada_vc_agent.features.gateway.server.fairness import (
    LARGE_BYTES,
    LENT_BYTES,
    LONG_REQUESTS,
    SHORT_REQUESTS,
)
from karmada_vc_agent.features.gateway.server.gateway import HEAVY_BYTES, HELD_BYTES
from karmada_vc_agent.features.gateway.server.host_requests import BODY_BYTES as ANSWER_BYTES
from karmada_vc_agent.kube import transport
from karmada_vc_agent.kube.client import LIST_CONNECTIONS, PAGES_AT_ONCE
from karmada_vc_agent.kube.reflector import LARGEST_PAGE_BYTES
from karmada_vc_agent.model.objects import OBJECT_BYTES, SMALL_BYTES, STORED_BYTES
from karmada_vc_agent.model.quantity import whole_units
from karmada_vc_agent.model.virtual_cluster import Bounds
from karmada_vc_agent.runner.common import half_of_workers
from karmada_vc_agent.work.execution import LARGE_AT_ONCE
from karmada_vc_agent.work.memory_bounds import SMALL_STATUS
from tests.unit.model.test_memory import MEMORY_SPREAD

ROOT = Path(__file__).parents[3]
TENANTS = 2
RESTING = 82 * 10**6
"""With 50 virtual clusters (docs/performance.md)."""
COPIES = 4
"""Of a manifest in flight: what it is translated into, that with its placement asserted, the object

before and after; each as large as the manifest at most. Bodies are a twentieth of one.
"""


UNREAD_BYTES = 4 * transport.TLS_BUFFER_BYTES
"""Of a page that waits to be read: what aiohttp buffers until it pauses, and one read more."""


def peak(tenants: int) -> float:
    """Return what an agent holds at most, in bytes, while so many tenants fill their bounds."""
    config, bounds = AgentConfig(), Bounds()
    kept = tenants * 2 * bounds.bytes  # Works; objects on the host and what is reflected of them
    kept += tenants * (bounds.works or 0) * SMALL_STATUS
    workers = 2 * half_of_workers(config.concurrent_work_syncs)
    small = workers * SMALL_BYTES * COPIES
    large = LARGE_AT_ONCE * OBJECT_BYTES * COPIES
    removed = tenants * bounds.bytes  # translated once more, all at once
    pages = 2 * PAGES_AT_ONCE * LARGEST_PAGE_BYTES + LARGEST_PAGE_BYTES  # the last one is joined
    pages += 2 * (LIST_CONNECTIONS - PAGES_AT_ONCE) * UNREAD_BYTES
    decoded = STORED_BYTES * (1 + MEMORY_SPREAD)  # one at a time, and trimmed or measured at once
    return RESTING + kept + max(small + large, removed) + pages + decoded


FREE = 0.2
"""Share of the limit that is left for what is not counted."""


def test_two_tenants_that_fill_all_bounds_leave_a_fifth_of_the_limit() -> None:
    used = peak(TENANTS)
    assert used < (1 - FREE) * whole_units(MEMORY_LIMIT), f"{used / 2**20:.0f} MiB"


def test_the_page_says_what_to_add_for_more_tenants_and_virtual_clusters() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    two, more, rest = (x / 2**20 for x in (peak(TENANTS), peak(3) - peak(TENANTS), RESTING))
    assert f"come to {two:.0f} MiB at most" in page
    assert f"of it {rest:.0f} at rest" in page
    assert f"Add {ceil(more / (1 - FREE))}Mi for each further one" in page
    held = max(float(x) for x in re.findall(r"10 Works each: RSS, MB, 1,000 .*?\| ([\d.]+)", page))
    assert f"each need {(held - rest + two) / (1 - FREE):.0f}Mi" in page


def test_what_a_tenant_makes_the_agent_keep_is_64_mb() -> None:
    assert 2 * Bounds().bytes == 64 * 2**20


GATEWAY_RESTING = 67 * 10**6
"""With 100 virtual clusters (docs/performance.md)."""
CONNECTION_BYTES = 32 * 2**10
"""Of one that is idle: 900 watches, which have two each, took 57 MiB."""
OF_ALL = 1 - 0.5**TENANTS
"""What each gets is as much as is left then."""
_SMALL = LARGE_BYTES + READ_BYTES + 2 * STREAM_BYTES + READ_BYTES + 2 * TLS_BUFFER_BYTES
"""Of a request before it has a place: what was read, what is about to be, what TLS has of it."""
GATEWAY_PARTS = {
    "connections": WAITING * (CONNECTION_BYTES + HEAD_BYTES),
    "watches": OF_ALL * LONG_REQUESTS * 2 * CONNECTION_BYTES,
    "requests": OF_ALL * SHORT_REQUESTS * _SMALL,
    "bodies": TENANTS * 2 * BODY_BYTES,  # as sent by the client, and as sent to the host
    "plans": 2 * (HELD_BYTES + HEAVY_BYTES),  # each is translated into as much
    # Of lists and watches, each of one object that JSON escapes make large; the last is encoded.
    "answers": (TENANTS * 2 + 1) * ANSWER_BYTES,
    "decoded": DECODED_BYTES,  # one at a time: it is mapped and encoded at once
    "unread": OF_ALL * LONG_REQUESTS * WATCH_BYTES,  # until the first of them are cut
    "lent": LENT_BYTES + 2 * PART_BYTES,
}
ALL_PARTS = "1280Mi"
"""The limit for gateways whose tenants may do all of that at once (docs/performance.md)."""


@pytest.mark.parametrize("part", GATEWAY_PARTS)
def test_two_tenants_with_all_of_one_kind_leave_a_fifth_of_the_limit_to_the_gateway(
    part: str,
) -> None:
    watched = 0 if part == "watches" else GATEWAY_PARTS["watches"]
    peak = GATEWAY_RESTING + watched + GATEWAY_PARTS[part]
    assert peak < 0.8 * whole_units(MEMORY_LIMIT), f"{peak / 2**20:.0f} MiB"


def test_two_tenants_with_all_of_every_kind_need_a_larger_gateway() -> None:
    peak = GATEWAY_RESTING + sum(GATEWAY_PARTS.values())
    assert 0.8 * whole_units(MEMORY_LIMIT) < peak < 0.8 * whole_units(ALL_PARTS), f"{peak / 2**20}"
