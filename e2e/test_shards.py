"""Processes that share the virtual clusters of one agent: one is killed, and their number changes.

What defines virtual clusters are the settings file, VirtualCluster objects and NodeGroups.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import Agent, run_command
from e2e.lab.api import Api, ApiError
from e2e.lab.audit import AuditLog, Written, shared_log
from e2e.lab.lab import AGENT_LABEL, CLUSTERS, FAST, QUICK_LEASE, Lab
from e2e.lab.leave import leave
from e2e.lab.node_groups import NodeGroups
from e2e.lab.wait import PERIODIC_S, wait_until_deleted, within
from karmada_vc_agent.features.shards.division import shard_of

CRD = Path(__file__).parents[1] / "manifests" / "base" / "crd.yaml"
OBJECTS = "/apis/virtualcluster.kubeedge.io/v1alpha1/virtualclusters"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases"
OFF = {"enabled": False}


class Fleet:
    """Virtual clusters of both of two shards, of each source that may be.

    removed: one by an object, of shard 1.
    """

    def __init__(self, lab: Lab, node_groups: NodeGroups) -> None:
        self.lab, self.node_groups = lab, node_groups
        letters = _letters(lab, 3)
        self.of_file, self.of_objects, self.of_groups = (
            [lab.group(of_shard[number]) for of_shard in letters] for number in range(3)
        )
        self.groups = [*self.of_file, *self.of_objects, *self.of_groups]
        self.removed = self.of_objects[1]
        self.logs = {server: shared_log(server) for server in ("hub", "host")}
        self.template = objects.config_map(lab.namespace(), "settings", key="0")
        self.value = 0
        for group in self.of_objects:
            metadata = {"name": group.name, "labels": {AGENT_LABEL: lab.id}}
            head = {"apiVersion": "virtualcluster.kubeedge.io/v1alpha1", "kind": "VirtualCluster"}
            spec = {"nodeSelector": {"matchLabels": group.selector}}
            lab.host.create({**head, "metadata": metadata, "spec": spec})
        for group in self.of_groups:
            node_groups.apply(group.name, matchLabels=group.selector)

    def process(self, shard: str) -> Agent:
        """Return a process, with rights and credentials of its own; it is not started."""
        groups = {"enabled": True, "selector": self.node_groups.selector, "nameTemplate": "{name}"}
        agent = self.lab.new_agent(
            *self.of_file,
            flags=(*FAST, *QUICK_LEASE, "--shard", shard),
            checkpoint=OFF,
            objects={"enabled": True, "anyName": True},
            nodeGroups=groups,
        )
        agent.extra_names = [group.name for group in self.groups]
        return agent

    def names_of(self, *, shard: int) -> set[str]:
        return {each.name for each in self.groups if shard_of(each.name, 2) == shard}

    def all_follow(self) -> None:
        """Change the template, and wait until all virtual clusters have it."""
        metadata, self.value = self.template["metadata"], self.value + 1
        path = f"/api/v1/namespaces/{metadata['namespace']}/configmaps/{metadata['name']}"
        self.lab.hub.patch(path, {"data": {"key": str(self.value)}})
        for group in self.groups:
            self.lab.wait_data(self.template, group, key=str(self.value))

    def remove(self) -> None:
        """Delete the object of one of shard 1, and wait until nothing is left of it."""
        path = f"{OBJECTS}/{self.removed.name}"
        self.lab.host.delete(path)
        wait_until_deleted(self.lab.host, path)
        assert self.lab.hub.find(f"{CLUSTERS}/{self.removed.name}") is None
        self.groups.remove(self.removed)

    def writers(self, name: str) -> dict[str, list[str]]:
        """Return by hub and host who wrote for a virtual cluster, one after another.

        A process that writes again after another one did was there all the time.
        """
        return {
            server: _one_after_another(log, _of(name), self.lab)
            for server, log in self.logs.items()
        }

    def longest_pause_s(self, name: str) -> float:
        """Return the longest time between two renewals of the Lease of a Cluster."""
        renewed = [
            each.at
            for each in self.logs["hub"].writes()
            if (each.target.plural, each.target.name) == ("leases", name) and each.code < 300
        ]
        assert len(renewed) > 2
        return max((after - before).total_seconds() for before, after in pairwise(sorted(renewed)))


@pytest.fixture
def virtual_cluster_objects(host: Api) -> None:
    """Have the host serve VirtualCluster objects, where another story did not."""
    try:
        host.create(yaml.safe_load(CRD.read_text()))
    except ApiError as error:
        if error.code != 409:
            raise
    within(PERIODIC_S, host.get, OBJECTS)


@pytest.fixture
def fleet(lab: Lab, node_groups: NodeGroups, virtual_cluster_objects: None) -> Iterator[Fleet]:
    made = Fleet(lab, node_groups)
    yield made
    for agent in lab.agents:
        agent.kill()
    for group in made.of_objects:
        path = f"{OBJECTS}/{group.name}"
        if lab.host.find(path) is not None:
            lab.host.delete(path)
            lab.host.patch(path, {"metadata": {"finalizers": None}})


def test_two_shards_serve_all_take_over_and_become_one_again(lab: Lab, fleet: Fleet) -> None:
    alone = fleet.process("").start()
    for group in fleet.groups:
        lab.wait_ready(group.name)
    lab.propagate([fleet.template], *fleet.groups)
    lab.wait_fully_applied(fleet.template)

    # As a roll-out does: the new ones are there before the old one ends.
    shards = [fleet.process(f"{index}/2").start() for index in range(2)]
    lab.wait_says(alone, "another count of shards serves from now")
    assert alone.wait_exit() != 0
    fleet.all_follow()
    assert [_served(each) for each in shards] == [fleet.names_of(shard=i) for i in range(2)]
    _nothing_is_said_of_leases(lab, shards[0])

    standby = fleet.process("auto/2").start()
    lab.wait_says(standby, "Standing by")
    shards[0].kill()
    fleet.all_follow()
    assert _served(standby) == fleet.names_of(shard=0)
    fleet.remove()
    fleet.all_follow()

    again = fleet.process("").start()
    lab.wait_says(again, "Standing by")
    for agent in (shards[1], standby):
        agent.terminate()
    fleet.all_follow()
    assert _served(again) == {group.name for group in fleet.groups}

    for group in (*fleet.groups, fleet.removed):
        for server, writers in fleet.writers(group.name).items():
            assert len(writers) == len(set(writers)), f"two write for {group.name} on {server}"
            assert len(writers) > 1, f"{group.name}: not all writers are seen on {server}"
    for group in fleet.groups:
        lasts_s = lab.hub.get(f"{LEASES}/{group.name}")["spec"]["leaseDurationSeconds"]
        assert fleet.longest_pause_s(group.name) < lasts_s


def test_leave_is_done_by_the_shard_that_serves(lab: Lab, fleet: Fleet) -> None:
    shards = [fleet.process(f"{index}/2").start() for index in range(2)]
    for group in fleet.groups:
        lab.wait_ready(group.name)
    group = fleet.of_file[1]
    done = leave(lab, group.name, "--yes")
    assert done.returncode == 0, done.stderr
    assert f"{group.name} is served by a running agent" in done.stdout
    assert all(each.is_running() for each in shards)


def _letters(lab: Lab, count: int) -> list[str]:
    """Return for each of two shards as many letters whose virtual clusters it has."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    of_shard = [
        "".join(each for each in letters if shard_of(f"{lab.id}-{each}", 2) == index)[:count]
        for index in range(2)
    ]
    assert all(len(each) == count for each in of_shard)
    return of_shard


def _served(agent: Agent) -> set[str]:
    """Return what it served when it began to, and what was added."""
    lines = re.findall(r'Serving \| virtual_clusters="?([^"\n]*)', agent.log())
    more = re.findall(r"Serving another virtual cluster \| virtual_cluster=(\S*)", agent.log())
    return {*lines[-1].split(", "), *more} - {""} if lines else set()


def _nothing_is_said_of_leases(lab: Lab, agent: Agent) -> None:
    servers = ["--karmada-kubeconfig", str(lab.hub.kubeconfig)]
    servers += ["--kubeconfig", str(lab.host.kubeconfig)]
    doctor = run_command("doctor", "--config", str(agent.config), *servers)
    assert doctor.returncode in (0, 1), doctor.stderr
    assert not _lines_of(lab, doctor.stdout, "no agent serves it"), doctor.stdout
    status = run_command("status", "--config", str(agent.config), *servers)
    assert status.returncode == 0, status.stderr
    assert not _lines_of(lab, status.stdout, "Overdue"), status.stdout


def _lines_of(lab: Lab, output: str, text: str) -> list[str]:
    """Return the lines with a text that name a virtual cluster of this story."""
    return [each for each in output.splitlines() if lab.id in each and text in each]


def _one_after_another(log: AuditLog, is_of: re.Pattern[str], lab: Lab) -> list[str]:
    """Return the credentials of the agent's processes that wrote, in order, each run once."""
    by_agent = [each for each in log.writes() if is_of.search(each.path) and _is_own(each, lab)]
    writers: list[str] = []
    for each in sorted(by_agent, key=_at):
        if writers[-1:] != [each.credential]:
            writers.append(each.credential)
    return writers


def _is_own(written: Written, lab: Lab) -> bool:
    """Return whether a process of the agent wrote it: no administrator, and not Karmada."""
    return written.user.endswith(f":{lab.id}") and written.code < 300


def _at(written: Written) -> datetime:
    return written.at


def _of(name: str) -> re.Pattern[str]:
    """Return what matches the paths of objects that are one virtual cluster's only."""
    own = f"[^/]+-v-{name}|karmada-es-{name}"
    return re.compile(
        rf"/(?:namespaces/(?:{own})|clusters/{name}|virtualclusters/{name}|leases/{name})(?:[/?]|$)"
    )
