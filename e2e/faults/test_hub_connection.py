"""The connection to the hub is broken in every way there is, and nothing but that happens.

The process lives, drift is repaired meanwhile, each part recovers by itself, and the log has one
line for the beginning of an outage and one for its end.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import collection
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.tunnel import Tunnel
from e2e.lab.wait import eventually, within

BEGINS, ENDS = "Waiting for API server", "API server answers again"
FAULT_S = 20.0
SILENT_S = 50.0
"""A black hole is noticed when an answer is 30 s late."""
RECOVERS_S = 60.0
REPAIRED_S = 10.0
LEASES = collection("coordination.k8s.io/v1", "Lease", "karmada-cluster")

Fault = Callable[[Proxy], None]


def _lose(wire: Proxy) -> None:
    wire.lose(0.05)


def _far(wire: Proxy) -> None:
    wire.thin(64_000, 2.0)


FAULTS: dict[str, tuple[Fault, float, int]] = {
    # How it begins, for how long it stays, and how many outages the log may tell of at most.
    "refuse": (Proxy.cut, FAULT_S, 1),
    "black hole": (Proxy.silence, SILENT_S, 1),
    "reset": (Proxy.reset, 2.0, 1),
    "half-close": (Proxy.half_close, 2.0, 1),
    "loss by resets": (_lose, FAULT_S, 8),
    "thin and far": (_far, FAULT_S, 8),
}


@pytest.fixture
def wire(lab: Lab, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(lab.hub.kubeconfig, tmp_path / "hub-wire") as proxy:
        yield proxy


class Scene:
    """One agent, and a Work whose content follows."""

    def __init__(self, lab: Lab, group: Group, agent: Agent) -> None:
        self.lab, self.group, self.agent = lab, group, agent
        self.settings = objects.config_map(lab.namespace(), key="1")
        self.work = lab.create_work(group, "settings", self.settings)
        lab.wait_applied(self.work)
        self.on_host = lab.host_path(self.settings, group)
        self.process = agent.process_id

    def drifts_and_is_repaired(self, expected: str) -> None:
        self.lab.host.patch(self.on_host, {"data": {"key": "by hand"}})
        within(REPAIRED_S, self.has, expected)

    def change(self, value: str) -> None:
        path = "/spec/workload/manifests/0/data/key"
        self.lab.hub.patch_json(self.work, {"op": "replace", "path": path, "value": value})

    def has(self, value: str) -> None:
        assert self.lab.host.get(self.on_host)["data"]["key"] == value

    def renewed_at(self) -> str:
        return str(self.lab.hub.get(f"{LEASES}/{self.group.name}")["spec"]["renewTime"])

    def recovers(self, value: str) -> None:
        """Wait until changes arrive, statuses are written and the Lease is renewed."""
        before = self.renewed_at()
        self.change(value)
        within(RECOVERS_S, self.has, value)
        within(RECOVERS_S, self._is_renewed_since, before)
        within(RECOVERS_S, self._is_applied_of_now)
        assert self.agent.process_id == self.process
        assert self.agent.is_running()
        assert "Traceback" not in self.agent.log()

    def _is_renewed_since(self, before: str) -> None:
        assert self.renewed_at() > before

    def _is_applied_of_now(self) -> None:
        work = self.lab.hub.get(self.work)
        conditions = {c["type"]: c["status"] for c in work["status"]["conditions"]}
        assert conditions["Applied"] == "True"


def scene(lab: Lab, hub: Path, *flags: str) -> Scene:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=(*FAST, *flags), hub=hub).start()
    lab.wait_serving(agent)
    return Scene(lab, group, agent)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_the_connection_costs_nothing_but_its_time(
    lab: Lab, wire: Proxy, fault: str
) -> None:
    begin, lasts_s, most_outages = FAULTS[fault]
    seen = scene(lab, wire.kubeconfig)
    begin(wire)
    seen.drifts_and_is_repaired("1")
    time.sleep(lasts_s)
    seen.drifts_and_is_repaired("1")
    wire.restore()
    seen.recovers("2")
    log = seen.agent.log()
    begins, ends = log.count(BEGINS), log.count(ENDS)
    assert begins <= most_outages, log
    assert begins == ends, log
    if fault in ("refuse", "black hole"):
        assert begins == 1, log


def test_several_faults_in_a_row_are_survived(lab: Lab, wire: Proxy) -> None:
    seen = scene(lab, wire.kubeconfig)
    for number, (begin, _, _) in enumerate(FAULTS.values(), 2):
        begin(wire)
        time.sleep(3.0)
        wire.restore()
        seen.recovers(str(number))


def test_hub_that_moves_is_found_by_the_kubeconfig(lab: Lab, wire: Proxy, tmp_path: Path) -> None:
    seen = scene(lab, wire.kubeconfig)
    used = seen.agent.hub_kubeconfig
    _point(used, "https://hub.invalid:6443")
    wire.cut()
    eventually(_says, seen.agent, BEGINS)
    seen.drifts_and_is_repaired("1")
    with Proxy(lab.hub.kubeconfig, tmp_path / "moved") as moved:
        _point(used, moved.server)
        seen.recovers("2")


def test_hub_behind_a_proxy_that_breaks_is_found_again(lab: Lab, tmp_path: Path) -> None:
    with Tunnel() as tunnel:
        used = tmp_path / "tunnelled.kubeconfig"
        content = yaml.safe_load(lab.hub.kubeconfig.read_text())
        for entry in content["clusters"]:
            entry["cluster"]["proxy-url"] = tunnel.url
        used.write_text(yaml.safe_dump(content))
        seen = scene(lab, used)
        assert tunnel.tunnels > 0
        tunnel.end_all()
        seen.recovers("2")
        tunnel.refuses = True
        tunnel.end_all()
        eventually(_says, seen.agent, BEGINS)
        seen.drifts_and_is_repaired("2")
        tunnel.refuses = False
        seen.recovers("3")


def _point(kubeconfig: Path, server: str) -> None:
    content: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    for entry in content["clusters"]:
        entry["cluster"]["server"] = server
    kubeconfig.write_text(yaml.safe_dump(content))


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log()
