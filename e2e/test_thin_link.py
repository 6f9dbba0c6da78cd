"""A hub behind a thin link: 64 kbit/s each way for all there is, and 2 s there and back."""

import os
import time

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import QUICK_LEASE, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import within

BITS_A_SECOND, ROUND_TRIP_S = 64_000, 2.0
ALONE = "ALONE" in os.environ
"""Whether nobody else uses the hub: what others do there goes over the link, too."""
WORKS, KEYS = 200 if ALONE else 40, 38
"""Of about 3.4 KB each, as a small application has."""
CONVERGES_S = 300.0
CHANGE_S = 10.0
QUIET_AFTER_S, QUIET_BYTES = 120.0, 5000
GRACE_S = 40.0
"""After which Karmada takes a Cluster for lost."""
IDLE_S = 100.0
IDLE_CLUSTERS = 4
IDLE_BYTES_A_SECOND = 40.0
"""Of each virtual cluster, in each direction: 50 of them in 16 kbit/s."""
LEASES = collection("coordination.k8s.io/v1", "Lease", "karmada-cluster")


class Renewals:
    """Looks at a Lease now and then; longest_s: between two renewals."""

    def __init__(self, lab: Lab, group: Group) -> None:
        self._lab, self._path = lab, f"{LEASES}/{group.name}"
        self._last, self._at = "", 0.0
        self.longest_s = 0.0

    def look(self) -> None:
        found, now = str(self._lab.hub.get(self._path)["spec"]["renewTime"]), time.monotonic()
        if self._last:
            self.longest_s = max(self.longest_s, now - self._at)
        if found != self._last:
            self._last, self._at = found, now


def application(namespace: str, number: int) -> Object:
    content = {
        f"KEY_{n}_{number}": f"value of {n} in {number}, http://shop:{n}" for n in range(KEYS)
    }
    return objects.config_map(namespace, f"app-{number}", **content)


@pytest.mark.nightly  # "thin and far" of test_hub_connection holds what is right, this how long
def test_cold_start_and_a_change_take_their_time_but_not_the_lease(
    lab: Lab, hub_wire: Proxy
) -> None:
    group = lab.group("a")
    flags = (*QUICK_LEASE, "--link", "thin")
    agent = lab.new_agent(group, flags=flags, hub=hub_wire.kubeconfig).start()
    lab.wait_serving(agent)
    agent.terminate()
    namespace = lab.namespace()
    works = [lab.create_work(group, f"w{n}", application(namespace, n)) for n in range(WORKS)]

    hub_wire.thin(BITS_A_SECOND, ROUND_TRIP_S)
    agent.start()
    began = time.monotonic()
    renewals: Renewals | None = None
    while (left := _not_applied(lab, group)) and time.monotonic() - began < CONVERGES_S:
        if left < WORKS:
            renewals = renewals or Renewals(lab, group)
        if renewals is not None:
            renewals.look()
        time.sleep(1.0)
    assert not left, f"{left} of {WORKS} Works are not applied after {CONVERGES_S:.0f} s"
    assert renewals is not None, "nothing was slow"
    assert renewals.longest_s < GRACE_S

    if ALONE:  # what the hub sent back of all that is behind
        within(QUIET_AFTER_S, _is_quiet, hub_wire)
    path = "/spec/workload/manifests/0/data"
    lab.hub.patch_json(works[7], {"op": "replace", "path": path, "value": {"key": "new"}})
    changed = objects.config_map(namespace, "app-7", key="new")
    on_host = lab.host_path(changed, group)
    within(CHANGE_S if ALONE else CONVERGES_S, _has_data, lab, on_host, {"key": "new"})
    assert "Traceback" not in agent.log()


@pytest.mark.skipif(not ALONE, reason="needs a hub that nobody else uses: ALONE=1")
def test_idle_virtual_clusters_cost_little(lab: Lab, hub_wire: Proxy) -> None:
    groups = [lab.group(letter) for letter in "abcd"[:IDLE_CLUSTERS]]
    agent = lab.new_agent(*groups, flags=("--link", "thin"), hub=hub_wire.kubeconfig).start()
    lab.wait_serving(agent)
    time.sleep(30.0)
    hub_wire.count_of_requests()
    time.sleep(IDLE_S)
    # The watch of Clusters has those of everybody on the hub, which change at any time.
    used = [size / IDLE_S / IDLE_CLUSTERS for size in hub_wire.count_of_requests()]
    assert max(used) < IDLE_BYTES_A_SECOND, f"bytes a second, up and down: {used}"


def _is_quiet(wire: Proxy) -> None:
    wire.count()
    time.sleep(5.0)
    assert max(wire.count()) < QUIET_BYTES


def _not_applied(lab: Lab, group: Group) -> int:
    """Return how many Works the hub does not have as applied."""
    return sum(not _is_applied(work) for work in lab.works(group))


def _is_applied(work: Object) -> bool:
    conditions = (work.get("status") or {}).get("conditions") or []
    return {"Applied": "True"}.items() <= {c["type"]: c["status"] for c in conditions}.items()


def _has_data(lab: Lab, path: str, data: dict[str, str]) -> None:
    assert lab.host.get(path)["data"] == data
