"""What docs/metrics.md says of virtual clusters, a service that runs does show."""

import asyncio
import re
from pathlib import Path

from prometheus_client import generate_latest

from tests.fuzz.served_ways import NEIGHBOUR, field

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
FAMILY = re.compile(r"^\| `(virtual_cluster_\w+)`", re.MULTILINE)
CONTROLLER = re.compile(r'^controller_runtime_max_concurrent_reconciles{controller="([^"]+)"}')
ONLY_WITH_CAUSE = {
    "virtual_cluster_bounds_met",  # more than a bound allows
    "virtual_cluster_condition_abnormal",  # a condition that is not normal
    "virtual_cluster_endpoint_up",  # the gateway
    "virtual_cluster_queue_depth",  # keys that wait
    "virtual_cluster_queue_oldest_seconds",
    "virtual_cluster_quota_stalled",  # a quota in the settings
    "virtual_cluster_refused_manifests",  # a manifest that is refused
}


async def test_metrics_that_are_shown_are_those_of_the_docs() -> None:
    documented = set(FAMILY.findall(DOCUMENT.read_text())) - ONLY_WITH_CAUSE
    assert len(documented) > 8
    async with field() as running:

        def lines() -> list[str]:
            return generate_latest(running.agent.metrics.registry).decode().splitlines()

        def shown() -> set[str]:
            label = f'member_cluster="{NEIGHBOUR}"'
            return {line.partition("{")[0] for line in lines() if label in line}

        for _ in range(60):  # not each poll of the field: it costs a scrape
            if documented <= shown():
                break
            await asyncio.sleep(1.0)
        assert documented - shown() == set(), "add what is not always shown to ONLY_WITH_CAUSE"
        controllers = {found[1] for line in lines() if (found := CONTROLLER.match(line))}
    assert {"execution-controller", "orphans-controller", "quotas-controller"} <= controllers
