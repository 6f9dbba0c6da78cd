"""The connection to the hub is broken in every way there is, and nothing but that happens.

The process lives, drift is repaired meanwhile, each part recovers by itself, and the log has one
line for the beginning of an outage and one for its end.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e.lab.audit import AgentWrites
from e2e.lab.followed import BEGINS, ENDS, RECOVERS_S, Followed, follow, point, says
from e2e.lab.lab import Lab
from e2e.lab.proxy import Proxy
from e2e.lab.tiers import rows
from e2e.lab.tunnel import Tunnel
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.lab.works import condition

FAULT_S = 20.0
SILENT_S = 50.0
"""A black hole is noticed when an answer is 30 s late."""
AT_ONCE_S = 15.0
"""Also on a busy machine; whoever waited for an answer waited longer."""

Fault = Callable[[Proxy], None]


def _lose(wire: Proxy) -> None:
    wire.lose(0.05)


def _far(wire: Proxy) -> None:
    wire.thin(64_000, 2.0)


def _stall(wire: Proxy) -> None:
    wire.stall(6000)


FAULTS: dict[str, tuple[Fault, float, int]] = {
    # How it begins, for how long it stays, and how many outages the log may tell of at most.
    "refuse": (Proxy.cut, FAULT_S, 1),
    "black hole": (Proxy.silence, SILENT_S, 1),
    "reset": (Proxy.reset, 2.0, 1),
    "half-close": (Proxy.half_close, 2.0, 1),
    "loss by resets": (_lose, FAULT_S, 8),
    "thin and far": (_far, FAULT_S, 8),
    "stall in an answer": (_stall, SILENT_S, 8),
}


NIGHTLY = ("refuse", "loss by resets")
"""What test_outages and the resets of test_matrix hold, too."""


@pytest.mark.parametrize("fault", rows(FAULTS, NIGHTLY))
def test_fault_of_the_connection_costs_nothing_but_its_time(
    lab: Lab, hub_wire: Proxy, fault: str
) -> None:
    begin, lasts_s, most_outages = FAULTS[fault]
    seen = follow(lab, hub_wire.kubeconfig)
    begin(hub_wire)
    seen.drifts_and_is_repaired("1")
    time.sleep(lasts_s)
    seen.drifts_and_is_repaired("1")
    hub_wire.restore()
    seen.recovers("2")
    log = seen.agent.log()
    begins, ends = log.count(BEGINS), log.count(ENDS)
    assert begins <= most_outages, log
    assert begins == ends, log
    if fault in ("refuse", "black hole"):
        assert begins == 1, log


def test_no_repair_waits_for_a_status_that_the_hub_does_not_take(lab: Lab, hub_wire: Proxy) -> None:
    """Each repair is told; in a black hole the first one would wait for 30 s."""
    seen = follow(lab, hub_wire.kubeconfig)
    hub_wire.silence()
    _repairs_three_times(lab, seen)
    hub_wire.restore()
    seen.recovers("2")


def test_each_work_is_reported_once_after_a_cut(lab: Lab, hub_wire: Proxy) -> None:
    seen = follow(lab, hub_wire.kubeconfig)
    seen.change("2")  # once it is here, the agent has heard that its first status was taken
    within(RECOVERS_S, seen.has, "2")
    writes = AgentWrites("hub", (f"karmada-es-{seen.group.name}",))
    hub_wire.cut()
    _repairs_three_times(lab, seen)
    hub_wire.restore()
    within(RECOVERS_S, _is_recreated, lab, seen.work)
    assert len(within(RECOVERS_S, _statuses, writes)) == 1


def _statuses(writes: AgentWrites) -> list[str]:
    """Return the writes of the status; the audit reports it behind its response."""
    told = [line for line in writes.told() if line.endswith("/settings/status")]
    assert told
    return told


def _repairs_three_times(lab: Lab, seen: Followed) -> None:
    for _ in range(3):
        before = lab.host.get(seen.on_host)["metadata"]["uid"]
        lab.host.delete(seen.on_host)
        within(AT_ONCE_S, _is_another, lab, seen.on_host, before)


def _is_another(lab: Lab, path: str, uid: str) -> None:
    assert lab.host.get(path)["metadata"]["uid"] != uid


def _is_recreated(lab: Lab, work: str) -> None:
    assert condition(lab.hub.get(work), "Applied")["reason"] == "ReCreateSuccessful"


def test_several_faults_in_a_row_are_survived(lab: Lab, hub_wire: Proxy) -> None:
    seen = follow(lab, hub_wire.kubeconfig)
    for number, (begin, _, _) in enumerate(FAULTS.values(), 2):
        begin(hub_wire)
        time.sleep(3.0)
        hub_wire.restore()
        seen.recovers(str(number))


def test_moved_hub_is_reached_by_the_kubeconfig(lab: Lab, hub_wire: Proxy, tmp_path: Path) -> None:
    seen = follow(lab, hub_wire.kubeconfig)
    used = seen.agent.hub_kubeconfig
    point(used, "https://hub.invalid:6443")
    hub_wire.cut()
    within(BACKED_OFF_S, says, seen.agent, BEGINS)
    seen.drifts_and_is_repaired("1")
    with Proxy(lab.hub.kubeconfig, tmp_path / "moved") as moved:
        point(used, moved.server)
        seen.recovers("2")


def test_hub_behind_a_broken_proxy_is_reached_again(lab: Lab, tmp_path: Path) -> None:
    with Tunnel() as tunnel:
        used = tmp_path / "tunnelled.kubeconfig"
        content = yaml.safe_load(lab.hub.kubeconfig.read_text())
        for entry in content["clusters"]:
            entry["cluster"]["proxy-url"] = tunnel.url
        used.write_text(yaml.safe_dump(content))
        seen = follow(lab, used)
        assert tunnel.tunnels > 0
        tunnel.end_all()
        seen.recovers("2")
        tunnel.refuses = True
        tunnel.end_all()
        within(BACKED_OFF_S, says, seen.agent, BEGINS)
        seen.drifts_and_is_repaired("2")
        tunnel.refuses = False
        seen.recovers("3")
