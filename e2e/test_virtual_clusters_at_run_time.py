"""Three virtual clusters become five, then two, while the agent runs and serves those that stay."""

import signal
import threading
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from typing import Self

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object, path_of
from e2e.lab.audit import shared_log
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import STARTED_S, within
from e2e.lab.works import execution_namespace

LEASES = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases"
LEASE_S = 12.0
LOOK_S = 0.5


class Renewals:
    """Watches when Leases are renewed, in a thread of its own."""

    def __init__(self, lab: Lab, *groups: Group) -> None:
        self._lab = lab
        self._names = [group.name for group in groups]
        self._times: dict[str, list[str]] = defaultdict(list)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            for name in self._names:
                renewed = self._lab.hub.get(f"{LEASES}/{name}")["spec"]["renewTime"]
                if renewed not in self._times[name][-1:]:
                    self._times[name].append(renewed)

    def longest_pauses(self) -> dict[str, float]:
        """Return the longest time between two renewals of each Lease, in seconds."""
        found = {}
        for name, texts in self._times.items():
            times = [datetime.fromisoformat(text) for text in texts]
            pauses = (later - earlier for earlier, later in pairwise(times))
            found[name] = max(pause.total_seconds() for pause in pauses)
        return found


class Watches:
    """The open watches of the Works of each virtual cluster, by the hub's audit log."""

    def __init__(self, *groups: Group) -> None:
        self._logs = {group.name: shared_log("hub") for group in groups}

    def of(self, group: Group) -> set[str]:
        part = f"/namespaces/{execution_namespace(group.name)}/"
        return self._logs[group.name].open_watches(part)


def test_three_become_five_become_two_and_those_that_stay_feel_nothing(lab: Lab) -> None:
    stay = [lab.group("a"), lab.group("b")]
    leave = [lab.group("c")]
    come = [lab.group("d"), lab.group("e")]
    endpoints = Endpoints.new()
    flags = (*FAST, "--cluster-lease-duration", f"{LEASE_S:g}s", *endpoints.flags())
    watches = Watches(*stay, *leave, *come)
    agent = lab.serve(*stay, *leave, flags=flags)
    namespace = lab.namespace()
    first = objects.config_map(namespace, "first", key="1")
    lab.propagate([first], *stay, *leave)
    lab.wait_fully_applied(first)
    for group in (*stay, *leave):
        lab.on_host(first, group)
    for group in (*stay, *leave):
        assert watches.of(group), f"no watch of the Works of {group.name}"

    with Renewals(lab, *stay) as renewals:
        _serve(agent, *stay, *leave, *come)
        lab.wait_serving(agent)
        web = objects.deployment(namespace)
        lab.propagate([web], *come)
        lab.wait_status(web, readyReplicas=4)
        lab.wait_namespace_sent(namespace, *leave, *come)

        before = {path: lab.host.get(path) for path in _left(lab, first, web, leave, come)}
        _serve(agent, *stay)
        within(STARTED_S, _is_left_out, agent, *leave, *come)
        lab.hub.patch(path_of(first), {"data": {"key": "2"}})
        for group in stay:
            lab.wait_data(first, group, key="2")
        after = {path: lab.host.get(path) for path in before}
        assert after == before, "what left is not touched"
        for group in (*leave, *come):
            assert lab.cluster(group.name), "nor is its Cluster"
        within(STARTED_S, _are_shown, endpoints, {group.name for group in stay})
        within(STARTED_S, _have_no_watch, watches, *leave, *come)
        for group in stay:
            assert watches.of(group), f"no watch of the Works of {group.name}"
    assert agent.is_running()
    pauses = renewals.longest_pauses()
    assert len(pauses) == len(stay)
    assert max(pauses.values()) < LEASE_S, pauses
    assert "Traceback" not in agent.log()

    _serve(agent, *stay, *leave)
    lab.wait_data(first, leave[0], key="2")


def test_bad_settings_are_reported_and_change_nothing(lab: Lab) -> None:
    kept, other = lab.group("a"), lab.group("b")
    endpoints = Endpoints.new()
    agent = lab.serve(kept, flags=(*FAST, *endpoints.flags()))
    agent.write_settings("virtualClusters: [")
    within(STARTED_S, _is_reloaded, endpoints, 0.0)
    status, text = endpoints.ask("/readyz?verbose")
    assert status == 200, "it serves as before"
    assert "keeping those in use" in text
    assert "agent.yaml" in text
    marker = objects.config_map(lab.namespace(), "marker", key="1")
    lab.propagate([marker], kept)
    lab.wait_fully_applied(marker)

    _serve(agent, kept, other)
    lab.wait_serving(agent)
    _is_reloaded(endpoints, 1.0)
    agent.signal(signal.SIGHUP)
    within(STARTED_S, _was_reloaded, agent)


def _serve(agent: Agent, *groups: Group) -> None:
    agent.settings["virtualClusters"] = [group.settings() for group in groups]
    agent.reload()


def _left(lab: Lab, first: Object, web: Object, leave: list[Group], come: list[Group]) -> list[str]:
    """Return what those that leave have on the host."""
    found = [lab.host_path(first, group) for group in leave]
    found += [lab.host_path(web, group) for group in come]
    namespace = first["metadata"]["namespace"]
    return found + [f"/api/v1/namespaces/{g.host_namespace(namespace)}" for g in (*leave, *come)]


def _is_left_out(agent: Agent, *groups: Group) -> None:
    lines = [line for line in agent.log().splitlines() if "no longer in the settings" in line]
    for group in groups:
        assert any(group.name in line for line in lines), lines


def _are_shown(endpoints: Endpoints, names: set[str]) -> None:
    shown = endpoints.scrape().values("virtual_cluster_nodes")
    assert {name for (name,) in shown} == names


def _have_no_watch(watches: Watches, *groups: Group) -> None:
    assert not any(watches.of(group) for group in groups)


def _is_reloaded(endpoints: Endpoints, expected: float) -> None:
    assert endpoints.scrape().values("settings_reload_successful") == {(): expected}


def _was_reloaded(agent: Agent) -> None:
    assert agent.log().count("Using the settings file") == 2
