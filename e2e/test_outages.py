"""Hub or host is away for a while."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.lab.works import condition

SHORT = (
    *("--cluster-failure-threshold", "3s"),
    *("--cluster-success-threshold", "1s"),
    *("--cluster-status-update-frequency", "1s"),
    *("--cluster-lease-renew-interval-fraction", "0.05"),
)
PROMPTLY_S = 60.0
"""The longest pause before the next try of a connection, and time for a slow machine."""


@pytest.fixture
def host_wire(lab: Lab, tmp_path: Path) -> Iterator[Proxy]:
    with Proxy(lab.host.kubeconfig, tmp_path / "host-wire") as proxy:
        yield proxy


def test_a_host_that_is_away_is_reported_and_put_right_when_it_is_back(
    lab: Lab, host_wire: Proxy
) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=SHORT, host=host_wire.kubeconfig).start()
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)

    host_wire.cut()
    ready = condition(lab.wait_ready(group.name, "False"), "Ready")
    assert (ready["reason"], ready["message"]) == (
        "ClusterNotReachable",
        "cluster is not reachable",
    )
    _assert_lease_continues(lab, group)
    assert lab.cluster(group.name)["status"]["nodeSummary"] == {"totalNum": 1, "readyNum": 1}
    lab.host.delete(lab.host_path(template, group))

    host_wire.restore()
    lab.wait_ready(group.name)
    within(PROMPTLY_S, lab.host.get, lab.host_path(template, group))
    assert agent.is_running()
    agent.terminate()


def test_a_short_gap_of_the_host_is_not_reported(lab: Lab, host_wire: Proxy) -> None:
    group = lab.group("a")
    flags = (*SHORT[2:], "--cluster-failure-threshold", "60s")
    agent = lab.new_agent(group, flags=flags, host=host_wire.kubeconfig).start()
    before = condition(lab.wait_ready(group.name), "Ready")
    namespace = lab.namespace()
    host_wire.cut()
    within(BACKED_OFF_S, _says_that_it_waits, agent, host_wire)
    host_wire.restore()
    template = objects.config_map(namespace)
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    assert condition(lab.cluster(group.name), "Ready") == before


def test_works_made_while_the_hub_was_away_are_applied_soon_after(
    lab: Lab, hub_wire: Proxy
) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=SHORT, hub=hub_wire.kubeconfig).start()
    lab.wait_ready(group.name)
    namespace = lab.namespace()
    template = objects.config_map(namespace, key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)

    hub_wire.cut()
    within(BACKED_OFF_S, _says_that_it_waits, agent, hub_wire)
    made = [lab.create_work(group, f"made-{n}", _map(namespace, n)) for n in range(10)]
    lab.hub.patch(path_of(template), {"data": {"key": "2"}})

    hub_wire.restore()
    for number in range(10):
        path = lab.host_path(_map(namespace, number), group)
        within(PROMPTLY_S, lab.host.get, path)
    for work in made:
        lab.wait_applied(work)
    lab.wait_data(template, group, key="2")
    lab.wait_ready(group.name)
    agent.terminate()


@pytest.mark.smoke
def test_the_host_is_kept_right_while_the_hub_is_away(lab: Lab, hub_wire: Proxy) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=SHORT, hub=hub_wire.kubeconfig).start()
    lab.wait_ready(group.name)
    template = objects.deployment(lab.namespace(), replicas=1)
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    hub_wire.cut()
    within(BACKED_OFF_S, _says_that_it_waits, agent, hub_wire)
    before = lab.on_host(template, group)
    lab.host.delete(lab.host_path(template, group))
    within(BACKED_OFF_S, lambda: _is_another(lab.host.get(lab.host_path(template, group)), before))
    agent.terminate()


def test_agent_started_without_the_hub_says_so_and_serves_once_it_is_back(
    lab: Lab, hub_wire: Proxy
) -> None:
    group = lab.group("a")
    hub_wire.cut()
    agent = lab.new_agent(group, flags=SHORT, hub=hub_wire.kubeconfig).start()
    within(BACKED_OFF_S, _says_that_it_waits, agent, hub_wire)
    hub_wire.restore()
    lab.wait_ready(group.name)


@pytest.mark.parametrize("side", ["hub", "host"])
@pytest.mark.parametrize("how", ["cut", "silence"])
def test_agent_ends_on_a_signal_although_an_api_server_is_away(
    lab: Lab, hub_wire: Proxy, host_wire: Proxy, side: str, how: str
) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=SHORT, hub=hub_wire.kubeconfig, host=host_wire.kubeconfig)
    agent.start()
    lab.wait_ready(group.name)
    wire = {"hub": hub_wire, "host": host_wire}[side]
    if how == "cut":
        wire.cut()
        within(BACKED_OFF_S, _says_that_it_waits, agent, wire)
    else:
        wire.silence()
    agent.terminate()


def test_a_host_that_falls_silent_is_reported_and_served_again(lab: Lab, host_wire: Proxy) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=SHORT, host=host_wire.kubeconfig).start()
    lab.wait_ready(group.name)
    namespace = lab.namespace()
    host_wire.silence()
    ready = condition(lab.wait_ready(group.name, "False"), "Ready")
    assert ready["reason"] == "ClusterNotReachable"
    template = objects.config_map(namespace)
    work = lab.create_work(group, "meanwhile", template)
    host_wire.restore()
    lab.wait_ready(group.name)
    lab.wait_applied(work)
    lab.on_host(template, group)
    assert agent.is_running()


def _map(namespace: str, number: int) -> Object:
    return objects.config_map(namespace, f"made-{number}")


def _assert_lease_continues(lab: Lab, group: Group) -> None:
    path = f"{collection('coordination.k8s.io/v1', 'Lease', 'karmada-cluster')}/{group.name}"
    before = lab.hub.get(path)["spec"]["renewTime"]

    def look() -> None:
        assert lab.hub.get(path)["spec"]["renewTime"] > before, "the Lease is not renewed"

    within(BACKED_OFF_S, look)


def _says_that_it_waits(agent: Agent, wire: Proxy) -> None:
    lines = [line for line in agent.log().splitlines() if "Waiting for API server" in line]
    assert any(wire.server in line for line in lines), agent.log_tail()


def _is_another(live: Object, before: Object) -> None:
    assert live["metadata"]["uid"] != before["metadata"]["uid"], "it was not deleted yet"
