"""A hub whose answers flow slowly is served all the same: Leases go on, lists come whole."""

import base64
import os
import time

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import QUICK_LEASE, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.lab.works import condition

FLAGS = (
    *QUICK_LEASE,
    *("--cluster-status-update-frequency", "2s"),
    *("--cluster-lease-duration", "10s"),
)
WORKS = 18
WORK_BYTES = 100_000
"""Of what does not get smaller when it is compressed."""
BYTES_A_SECOND = 26_000
CUT_OFF_ONCE_S = 30.0
"""An answer that took longer than this in all was given up, and asked for from its start."""


def test_list_that_flows_for_longer_than_a_time_out_arrives_whole(
    lab: Lab, hub_wire: Proxy
) -> None:
    large, small = lab.group("a"), lab.group("b")
    agent = lab.new_agent(large, small, flags=FLAGS, hub=hub_wire.kubeconfig).start()
    lab.wait_serving(agent)
    agent.terminate()
    namespace = lab.namespace()
    works = [
        lab.create_work(large, f"work-{number}", _large(namespace, f"settings-{number}"))
        for number in range(WORKS)
    ]
    neighbour = lab.create_work(small, "work", objects.config_map(namespace))

    hub_wire.slow(BYTES_A_SECOND)
    started = time.monotonic()
    agent.start()
    lab.wait_applied(neighbour)
    before = _renewed_at(lab, large)
    assert not any(_is_applied(lab, work) for work in works), "nothing was slow"
    within(BACKED_OFF_S, _assert_renewed_since, lab, large, before)
    assert not any(_is_applied(lab, work) for work in works), "the Lease waited for the list"
    for work in works:
        within(BACKED_OFF_S, lab.wait_applied, work)
    assert time.monotonic() - started > CUT_OFF_ONCE_S, "the list came too quickly to say anything"
    assert condition(lab.cluster(large.name), "Ready")["status"] == "True"
    assert agent.is_running()


def _large(namespace: str, name: str) -> Object:
    noise = base64.b85encode(os.urandom(WORK_BYTES * 4 // 5)).decode()
    return objects.config_map(namespace, name, noise=noise)


def _is_applied(lab: Lab, work: str) -> bool:
    try:
        return bool(condition(lab.hub.get(work), "Applied")["status"] == "True")
    except AssertionError:
        return False


def _renewed_at(lab: Lab, group: Group) -> str:
    leases = collection("coordination.k8s.io/v1", "Lease", "karmada-cluster")
    return str(lab.hub.get(f"{leases}/{group.name}")["spec"]["renewTime"])


def _assert_renewed_since(lab: Lab, group: Group, before: str) -> None:
    assert _renewed_at(lab, group) > before
