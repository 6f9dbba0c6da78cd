"""What docs/metrics.md says of virtual clusters, a service that runs does show."""

import contextlib
import re
from pathlib import Path

from tests.fuzz.served_ways import NEIGHBOUR, SufferedError, field

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
FAMILY = re.compile(r"^\| `(virtual_cluster_\w+)`", re.MULTILINE)
ONLY_WITH_CAUSE = {
    "virtual_cluster_quota_stalled",  # a quota in the settings
    "virtual_cluster_refused_manifests",  # a manifest that is refused
}


async def test_each_documented_metric_of_a_virtual_cluster_is_shown() -> None:
    documented = set(FAMILY.findall(DOCUMENT.read_text())) - ONLY_WITH_CAUSE
    assert len(documented) > 8
    async with field() as running:

        def shown() -> set[str]:
            lines = running.agent._metrics.text().decode().splitlines()
            label = f'member_cluster="{NEIGHBOUR}"'
            return {line.partition("{")[0] for line in lines if label in line}

        with contextlib.suppress(SufferedError):  # what is missing says more
            await running.until(lambda: documented <= shown(), "not all are shown")
        assert documented - shown() == set()
