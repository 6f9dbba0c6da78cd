"""The memory limit of the agent's Pod: what two virtual clusters make it hold at most (ADR 68)."""

from karmada_vc_agent.access.agent_objects import MEMORY_LIMIT
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import LIST_CONNECTIONS
from karmada_vc_agent.kube.reflector import LARGEST_PAGE_BYTES
from karmada_vc_agent.model.objects import MEMORY_SPREAD, OBJECT_BYTES, SMALL_BYTES, STORED_BYTES
from karmada_vc_agent.model.quantity import whole_units
from karmada_vc_agent.model.virtual_cluster import Bounds
from karmada_vc_agent.runner.common import half_of_workers
from karmada_vc_agent.work.execution import LARGE_AT_ONCE
from karmada_vc_agent.work.memory_bounds import SMALL_STATUS

TENANTS = 2
RESTING = 82 * 10**6
"""With 50 virtual clusters (docs/performance.md)."""
COPIES = 4
"""Of a manifest in flight: what it is translated into, that with its placement asserted, the object

before and after; each as large as the manifest at most. Bodies are a twentieth of one.
"""


def test_two_tenants_that_fill_all_bounds_leave_a_fifth_of_the_limit() -> None:
    config, bounds = AgentConfig(), Bounds()
    kept = TENANTS * 2 * bounds.bytes  # Works; objects on the host and what is reflected of them
    kept += TENANTS * (bounds.works or 0) * SMALL_STATUS
    workers = TENANTS * half_of_workers(config.concurrent_work_syncs)
    small = workers * SMALL_BYTES * COPIES
    large = LARGE_AT_ONCE * OBJECT_BYTES * COPIES
    removed = TENANTS * bounds.bytes  # translated once more, all at once
    pages = 2 * LIST_CONNECTIONS * LARGEST_PAGE_BYTES + LARGEST_PAGE_BYTES  # the last one is joined
    decoded = STORED_BYTES * (1 + MEMORY_SPREAD)  # one at a time, and trimmed or measured at once
    peak = RESTING + kept + max(small + large, removed) + pages + decoded
    assert peak < 0.8 * whole_units(MEMORY_LIMIT), f"{peak / 2**20:.0f} MiB"


def test_what_a_tenant_makes_the_agent_keep_is_64_mb() -> None:
    assert 2 * Bounds().bytes == 64 * 2**20
