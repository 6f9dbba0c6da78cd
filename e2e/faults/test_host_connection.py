"""The connection to the host is broken; once it is whole again, all is as the hub wants it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.lab import FAST, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.tiers import rows
from e2e.lab.wait import within

FAULT_S = 15.0
RECOVERS_S = 180.0
FAULTS: dict[str, Callable[[Proxy], None]] = {
    "refuse": Proxy.cut,
    "reset": Proxy.reset,
    "half-close": Proxy.half_close,
    "loss by resets": lambda wire: wire.lose(0.05),
    "black hole": Proxy.silence,
    "stall in an answer": lambda wire: wire.stall(6000),
}
NIGHTLY = ("refuse", "loss by resets", "black hole")
"""What cells of test_matrix that are run always hold, too."""


@pytest.fixture
def wire(lab: Lab, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(lab.host.kubeconfig, tmp_path / "host-wire") as proxy:
        yield proxy


@pytest.mark.parametrize("fault", rows(FAULTS, NIGHTLY))
def test_what_changed_on_both_sides_meanwhile_is_put_right(
    lab: Lab, wire: Proxy, fault: str
) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=FAST, host=wire.kubeconfig).start()
    lab.wait_serving(agent)
    namespace = lab.namespace()
    manifests = [objects.config_map(namespace, f"settings-{n}", key="1") for n in range(5)]
    works = [lab.create_work(group, m["metadata"]["name"], m) for m in manifests]
    for work in works:
        lab.wait_applied(work)
    process = agent.process_id

    FAULTS[fault](wire)
    changed, drifted, gone = (lab.host_path(manifest, group) for manifest in manifests[:3])
    path = "/spec/workload/manifests/0/data/key"
    lab.hub.patch_json(works[0], {"op": "replace", "path": path, "value": "2"})
    lab.host.patch(drifted, {"data": {"key": "by hand"}})
    lab.host.delete(gone)
    lab.hub.delete(works[3])
    time.sleep(FAULT_S)
    wire.restore()

    within(RECOVERS_S, _has, lab, changed, "2")
    within(RECOVERS_S, _has, lab, drifted, "1")
    within(RECOVERS_S, _has, lab, gone, "1")
    within(RECOVERS_S, _was_deleted, lab, works[3], lab.host_path(manifests[3], group))
    _has(lab, lab.host_path(manifests[4], group), "1")
    assert agent.is_running()
    assert agent.process_id == process
    assert "Traceback" not in agent.log()


def _has(lab: Lab, path: str, value: str) -> None:
    assert lab.host.get(path)["data"]["key"] == value


def _was_deleted(lab: Lab, work: str, on_host: str) -> None:
    assert lab.hub.find(work) is None
    assert lab.host.find(on_host) is None
