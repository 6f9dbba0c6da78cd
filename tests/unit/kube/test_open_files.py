"""How open files are shared out among connections."""

import resource
import subprocess
import sys
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.kube.flows import (
    ENDPOINT_CONNECTIONS,
    ENDPOINTS,
    RESERVED_FILES,
    WATCHES,
    WATCHES_A_CLUSTER,
    files_needed,
    share_connections,
)


@given(files=st.integers(48, 100_000), leases=st.integers(4, 32))
def test_all_connections_together_fit(files: int, leases: int) -> None:
    shares = share_connections(files, leases)
    assert RESERVED_FILES + shares.pooled + shares.watches <= files
    assert min(astuple(shares)) > 0


def test_many_files_leave_the_lanes_as_they_are() -> None:
    shares = share_connections(1024, 8)
    assert (shares.requests, shares.lists, shares.urgent, shares.leases) == (16, 4, 8, 8)


def test_most_of_few_files_are_for_watches() -> None:
    assert share_connections(64, 4).watches == 23


def test_more_virtual_clusters_need_more() -> None:
    assert files_needed(10, 8) > files_needed(3, 8) > 64


@given(clusters=st.integers(1, 1000))
def test_files_that_are_needed_are_enough_for_all_watches(clusters: int) -> None:
    shares = share_connections(files_needed(clusters, 32), 32)
    assert shares.watches >= WATCHES + WATCHES_A_CLUSTER * clusters


@pytest.mark.parametrize(("soft", "hard"), [(40, 50), (50, 50)])
def test_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int) -> None:
    code = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "from karmada_vc_agent.kube.flows import raise_file_limit\n"
        "print(raise_file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)  # noqa: S603 - ours
    assert printed.split() == ["50", "50", "50"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > hard


def test_connections_to_our_endpoints_are_counted() -> None:
    shares = share_connections(1024, 8)
    assert shares.endpoint == ENDPOINT_CONNECTIONS
    assert shares.pooled > ENDPOINTS * ENDPOINT_CONNECTIONS
    assert share_connections(64, 4).endpoint == 2
