"""Limits: a virtual cluster that holds all it may leaves the others theirs."""

from contextlib import ExitStack, suppress

import pytest

from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.server.fairness import (
    LONG_REQUESTS,
    SHORT_REQUESTS,
    Limits,
)


def fill(limits: Limits, stack: ExitStack, cluster: str, *, is_long: bool) -> int:
    """Begin requests until one is refused; return how many were not."""
    before = sum(limits.in_progress().values())
    with suppress(RefusalError):
        while True:
            stack.enter_context(limits.slot(cluster, is_long=is_long))
    return sum(limits.in_progress().values()) - before


@pytest.mark.parametrize(
    ("is_long", "expected"), [(False, [100, 50, 25, 13]), (True, [400, 200, 100, 50])]
)
def test_virtual_clusters_share_what_memory_is_enough_for(
    is_long: bool, expected: list[int]
) -> None:
    with ExitStack() as stack:
        limits = Limits()
        assert [fill(limits, stack, cluster, is_long=is_long) for cluster in "abcd"] == expected


def test_virtual_clusters_share_the_requests_that_few_files_are_enough_for() -> None:
    limits = Limits(files=1024)
    with ExitStack() as stack:
        assert [fill(limits, stack, each, is_long=True) for each in "abc"] == [136, 68, 34]
        for _ in range(20):
            stack.enter_context(limits.slot("d", is_long=False))


def test_a_virtual_cluster_that_is_alone_has_nearly_all() -> None:
    limits = Limits(are_several=lambda: False)
    with ExitStack() as stack:
        assert fill(limits, stack, "a", is_long=True) == LONG_REQUESTS - 1
        assert fill(limits, stack, "a", is_long=False) == SHORT_REQUESTS - 1
    assert limits.in_progress() == {}
