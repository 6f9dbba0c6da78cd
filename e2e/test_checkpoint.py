"""An agent starts, or takes over, while the hub is away: it serves what the hub said last.

The hub stays away until all is as it should be, so nothing but the checkpoint can have told it.
"""

import os
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object, collection
from e2e.lab.checkpoint import KEPT, is_saved, manifest_saved, saved
from e2e.lab.lab import CLUSTERS, QUICK_LEASE, Group, Lab
from e2e.lab.leave import leave
from e2e.lab.proxy import Proxy
from e2e.lab.wait import BACKED_OFF_S, wait_until_deleted, within
from e2e.lab.works import condition

FLAGS = (
    *QUICK_LEASE,
    *("--cluster-status-update-frequency", "1s"),
    *("--cluster-failure-threshold", "3s"),
    *("--cluster-success-threshold", "1s"),
)
TAKEOVER_S = 4.0 + 2.0
"""From the last renewal of the leader: the duration of its Lease, and what the issue allows."""
HELD = "example.org/hold"


def _cut(wire: Proxy) -> None:
    wire.cut()


def _silence(wire: Proxy) -> None:
    wire.silence()


@pytest.mark.parametrize("end", [_cut, _silence])
def test_a_restart_without_the_hub_repairs_and_recreates(
    lab: Lab, hub_wire: Proxy, end: Callable[[Proxy], None]
) -> None:
    group, agent = _served(lab, hub_wire)
    namespace = lab.namespace()
    changed, gone = (objects.config_map(namespace, name, key="1") for name in ("changed", "gone"))
    works = [lab.create_work(group, m["metadata"]["name"], m) for m in (changed, gone)]
    _wait_kept(lab, agent, group, changed, gone)
    statuses = [lab.wait_applied(work)["status"] for work in works]
    end(hub_wire)
    agent.kill()
    lab.host.patch(lab.host_path(changed, group), {"data": {"key": "drifted"}})
    lab.host.delete(lab.host_path(gone, group))

    agent.start()
    within(BACKED_OFF_S, _has_data, lab, group, changed, "1")
    within(BACKED_OFF_S, _has_data, lab, group, gone, "1")
    assert "Serving from the checkpoint" in agent.log()
    lab.host.patch(lab.host_path(changed, group), {"data": {"key": "again"}})
    within(BACKED_OFF_S, _has_data, lab, group, changed, "1")

    hub_wire.restore()
    lab.hub.patch(works[0], {"spec": {"workload": {"manifests": [_as_sent(lab, works[0], "2")]}}})
    within(BACKED_OFF_S, _has_data, lab, group, changed, "2")
    for work, before in zip(works, statuses, strict=True):
        lab.wait_applied(work)
        assert lab.hub.get(work)["status"].keys() == before.keys()
    lab.wait_ready(group.name)
    agent.terminate()


def test_a_standby_that_takes_over_without_the_hub_serves(
    lab: Lab, hub_wire: Proxy, record_property: Callable[[str, object], None]
) -> None:
    group, leader = _served(lab, hub_wire)
    standby = lab.new_agent(group, flags=FLAGS, hub=hub_wire.kubeconfig, checkpoint=KEPT).start()
    within(BACKED_OFF_S, _says, standby, "Standing by")
    template = objects.config_map(lab.namespace(), "kept", key="1")
    lab.create_work(group, "kept", template)
    _wait_kept(lab, leader, group, template)
    hub_wire.silence()
    leader.kill()
    renewed = _time(lab, standby, "renewTime")
    lab.host.delete(lab.host_path(template, group))
    within(BACKED_OFF_S, _has_data, lab, group, template, "1")
    serving = _logged(standby, "Serving from the checkpoint")
    assert _time(lab, standby, "acquireTime") >= renewed + timedelta(seconds=3.5)
    took_s = (serving - renewed).total_seconds()
    record_property("takeover_s", took_s)
    if not _is_busy():
        assert took_s <= TAKEOVER_S
    hub_wire.restore()
    lab.wait_ready(group.name)
    standby.terminate()


@pytest.mark.smoke
def test_what_the_hub_changed_meanwhile_counts_once_it_is_back(lab: Lab, hub_wire: Proxy) -> None:
    group, agent = _served(lab, hub_wire)
    namespace = lab.namespace()
    names = ("changed", "deleted", "suspended", "recreated", "stays")
    maps = {name: objects.config_map(namespace, name, key="1") for name in names}
    works = {name: lab.create_work(group, name, each) for name, each in maps.items()}
    _wait_kept(lab, agent, group, *maps.values())
    hub_wire.cut()
    agent.kill()
    lab.hub.delete(works["deleted"])
    patch = {"spec": {"workload": {"manifests": [_as_sent(lab, works["changed"], "2")]}}}
    lab.hub.patch(works["changed"], patch)
    lab.hub.patch(works["suspended"], {"spec": {"suspendDispatching": True}})
    lab.hub.patch(works["recreated"], {"metadata": {"finalizers": None}})
    lab.hub.delete(works["recreated"])
    wait_until_deleted(lab.hub, works["recreated"])
    lab.create_work(group, "recreated", {**maps["recreated"], "data": {"key": "3"}})
    for each in maps.values():
        lab.host.delete(lab.host_path(each, group))

    agent.start()
    for each in maps.values():
        within(BACKED_OFF_S, _has_data, lab, group, each, "1")  # as the hub said last
    before = lab.on_host(maps["stays"], group)
    hub_wire.restore()
    within(BACKED_OFF_S, _has_data, lab, group, maps["changed"], "2")
    within(BACKED_OFF_S, _has_data, lab, group, maps["recreated"], "3")
    within(BACKED_OFF_S, _was_deleted, lab.host.find, lab.host_path(maps["deleted"], group))
    within(BACKED_OFF_S, _was_deleted, lab.hub.find, works["deleted"])
    lab.wait_applied(works["stays"])
    after = lab.on_host(maps["stays"], group)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    within(BACKED_OFF_S, _is_not_kept, lab, agent, group, maps["deleted"])
    agent.terminate()


def test_what_an_old_checkpoint_brings_back_is_reported_and_pruned(
    lab: Lab, hub_wire: Proxy
) -> None:
    """The Work is deleted by force while no agent runs, so the checkpoint has it still."""
    group, agent = _served(lab, hub_wire)
    namespace = lab.namespace()
    old, stays = (objects.config_map(namespace, name, key="1") for name in ("old", "stays"))
    work, _ = (lab.create_work(group, each["metadata"]["name"], each) for each in (old, stays))
    _wait_kept(lab, agent, group, old, stays)
    hub_wire.cut()
    agent.kill()
    lab.hub.patch(work, {"metadata": {"finalizers": None}})
    lab.hub.delete(work)
    wait_until_deleted(lab.hub, work)
    lab.host.delete(lab.host_path(old, group))
    agent.start()
    within(BACKED_OFF_S, _has_data, lab, group, old, "1")  # as the hub said last
    hub_wire.restore()
    within(BACKED_OFF_S, _is_orphaned, lab, group, "True", f"{group.host_namespace(namespace)}/old")

    agent.kill()
    agent.start()
    within(BACKED_OFF_S, _says, agent, "Host objects have no Work on the hub")
    assert lab.host.get(lab.host_path(old, group)), "the agent removes none"
    pruned = leave(lab, "--prune", group.name, "--yes")
    assert pruned.returncode == 0, pruned.stderr
    wait_until_deleted(lab.host, lab.host_path(old, group))
    assert lab.on_host(stays, group)
    agent.kill()
    agent.start()
    within(BACKED_OFF_S, _is_orphaned, lab, group, "False", "")
    agent.terminate()


def _is_orphaned(lab: Lab, group: Group, status: str, name: str) -> None:
    found = condition(lab.cluster(group.name), "ObjectsOrphaned")
    assert (found["status"], name in found["message"]) == (status, True), found


def test_nothing_suspended_is_touched(lab: Lab, hub_wire: Proxy) -> None:
    group, agent = _served(lab, hub_wire)
    namespace = lab.namespace()
    template, marker = (objects.config_map(namespace, n, key="1") for n in ("held", "marker"))
    work = lab.create_work(group, "held", template)
    lab.create_work(group, "marker", marker)
    lab.wait_applied(work)
    lab.hub.patch(work, {"spec": {"suspendDispatching": True}})
    within(BACKED_OFF_S, _is_dispatching, lab, work, "False")
    _wait_kept(lab, agent, group, template, marker)
    within(BACKED_OFF_S, _is_saved_as_suspended, lab, agent, group, "held")
    hub_wire.cut()
    agent.kill()
    for each in (template, marker):
        lab.host.patch(lab.host_path(each, group), {"data": {"key": "drifted"}})
    agent.start()
    for _ in range(2):  # the second time everything was looked at
        within(BACKED_OFF_S, _has_data, lab, group, marker, "1")
        _has_data(lab, group, template, "drifted")
        lab.host.patch(lab.host_path(marker, group), {"data": {"key": "drifted"}})


def test_a_work_whose_removal_had_begun_does_not_come_back(lab: Lab, hub_wire: Proxy) -> None:
    group, agent = _served(lab, hub_wire)
    namespace = lab.namespace()
    gone, stays = (objects.config_map(namespace, n, key="1") for n in ("gone", "stays"))
    work = lab.create_work(group, "gone", gone)
    lab.create_work(group, "stays", stays)
    _wait_kept(lab, agent, group, gone, stays)
    path = lab.host_path(gone, group)
    lab.host.patch(path, {"metadata": {"finalizers": [HELD]}})
    lab.hub.delete(work)
    within(BACKED_OFF_S, _is_marked, lab, path)
    hub_wire.cut()
    agent.kill()
    lab.host.patch(path, {"metadata": {"finalizers": None}})
    lab.host.delete(lab.host_path(stays, group))
    agent.start()
    within(BACKED_OFF_S, _has_data, lab, group, stays, "1")
    assert lab.host.find(path) is None
    hub_wire.restore()
    within(BACKED_OFF_S, _was_deleted, lab.hub.find, work)
    assert lab.host.find(path) is None


def test_a_cluster_that_was_deleted_meanwhile_stays_deleted(lab: Lab, hub_wire: Proxy) -> None:
    group, agent = _served(lab, hub_wire)
    template = objects.config_map(lab.namespace(), "kept", key="1")
    lab.create_work(group, "kept", template)
    _wait_kept(lab, agent, group, template)
    hub_wire.cut()
    agent.kill()
    agent.start()
    within(BACKED_OFF_S, _says, agent, "Serving from the checkpoint")
    lab.host.delete(lab.host_path(template, group))
    lab.hub.delete(f"{CLUSTERS}/{group.name}")
    within(BACKED_OFF_S, _has_data, lab, group, template, "1")
    hub_wire.restore()
    within(BACKED_OFF_S, _was_deleted, lab.hub.find, f"{CLUSTERS}/{group.name}")
    agent.terminate()


def test_a_frozen_leader_that_thaws_writes_nothing(lab: Lab, hub_wire: Proxy) -> None:
    group, leader = _served(lab, hub_wire)
    template = objects.config_map(lab.namespace(), "kept", key="1")
    work = lab.create_work(group, "kept", template)
    _wait_kept(lab, leader, group, template)
    leader.signal(signal.SIGSTOP)
    standby = lab.new_agent(group, flags=FLAGS, hub=hub_wire.kubeconfig, checkpoint=KEPT).start()
    within(BACKED_OFF_S, _says, standby, "Serving | virtual_clusters")
    patch = {"spec": {"workload": {"manifests": [_as_sent(lab, work, "2")]}}}
    lab.hub.patch(work, patch)
    within(BACKED_OFF_S, _has_data, lab, group, template, "2")
    leader.signal(signal.SIGCONT)
    assert leader.wait_exit() != 0
    _has_data(lab, group, template, "2")
    lab.wait_applied(work)
    standby.terminate()


def test_without_a_checkpoint_a_start_waits_for_the_hub(lab: Lab, hub_wire: Proxy) -> None:
    group = lab.group("a")
    hub_wire.cut()
    agent = lab.new_agent(group, flags=FLAGS, hub=hub_wire.kubeconfig, checkpoint=KEPT).start()
    within(BACKED_OFF_S, _says, agent, "Waiting for API server")
    hub_wire.restore()
    lab.wait_ready(group.name)
    agent.terminate()


def _served(lab: Lab, wire: Proxy) -> tuple[Group, Agent]:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=FLAGS, hub=wire.kubeconfig, checkpoint=KEPT).start()
    lab.wait_ready(group.name)
    return group, agent


def _wait_kept(lab: Lab, agent: Agent, group: Group, *manifests: Object) -> None:
    for manifest in manifests:
        within(BACKED_OFF_S, lab.on_host, manifest, group)
        within(BACKED_OFF_S, is_saved, lab, agent, group, manifest)


def _is_not_kept(lab: Lab, agent: Agent, group: Group, manifest: Object) -> None:
    assert manifest_saved(lab.host, agent, group.name, manifest) is None


def _as_sent(lab: Lab, work: str, value: str) -> Object:
    """Return the manifest of a Work with another value."""
    manifest: Object = lab.hub.get(work)["spec"]["workload"]["manifests"][0]
    return {**manifest, "data": {"key": value}}


def _has_data(lab: Lab, group: Group, template: Object, value: str) -> None:
    assert lab.on_host(template, group)["data"] == {"key": value}


def _is_saved_as_suspended(lab: Lab, agent: Agent, group: Group, name: str) -> None:
    works = saved(lab.host, agent).works(group.name)
    (work,) = (each for each in works if each["metadata"]["name"] == name)
    assert work["spec"].get("suspendDispatching") is True


def _is_dispatching(lab: Lab, work: str, status: str) -> None:
    assert condition(lab.hub.get(work), "Dispatching")["status"] == status


def _is_marked(lab: Lab, path: str) -> None:
    assert lab.host.get(path)["metadata"].get("deletionTimestamp")


def _was_deleted(find: Callable[[str], Object | None], path: str) -> None:
    assert find(path) is None


def _time(lab: Lab, agent: Agent, field: str) -> datetime:
    """Return a time of the agent's leader Lease."""
    leases = collection("coordination.k8s.io/v1", "Lease", agent.namespace)
    return datetime.fromisoformat(lab.host.get(f"{leases}/{agent.name}")["spec"][field])


def _logged(agent: Agent, text: str) -> datetime:
    """Return when the agent said so first."""
    line = next(line for line in agent.log().splitlines() if text in line)
    return datetime.fromisoformat(line.partition(" ")[0])


def _is_busy() -> bool:
    """Whether processes wait for this machine: what takes them long says nothing then."""
    pressure = Path("/proc/pressure/cpu")
    waits = pressure.read_text().partition("avg10=")[2].split()[0] if pressure.exists() else "0"
    return float(waits) > 10 or os.getloadavg()[0] > (os.cpu_count() or 1)


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()
