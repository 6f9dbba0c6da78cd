"""Whose a Cluster is: not two agents' at once, and never one of the hub's own API server."""

import subprocess
import sys
import time

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import ROOT, Agent, clean_environment, settings_file
from e2e.lab.api import Api, Object, collection
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import CLUSTERS, FAST, NODES, QUICK_LEASE, Group, Lab
from e2e.lab.leave import leave
from e2e.lab.wait import STARTED_S, within

SERVED_BY = "virtualcluster.kubeedge.io/served-by"
MEMBERSHIP = "node-restriction.kubernetes.io/virtual-cluster"
RETRIED_WITHIN_S = 60.0
"""A Cluster that is another's is looked at now and then."""


@pytest.mark.parametrize("flags", [(), ("--works-cluster-wide",)], ids=["", "one watch"])
def test_the_younger_of_two_agents_steps_back_and_can_take_over(
    lab: Lab, flags: tuple[str, ...]
) -> None:
    group = lab.group("a", nodes=3)
    older = lab.serve({"name": group.name, "nodeNames": group.nodes[:2]})
    within(STARTED_S, lambda: _labelled(lab, group, group.nodes[:2]))
    before = _versions(lab, group)
    cluster = within(STARTED_S, _without_taints, lab, group)  # the hub sets them until it is Ready
    assert cluster["metadata"]["annotations"][SERVED_BY] == f"{older.namespace}/{older.name}"

    endpoints = Endpoints.new()
    younger = lab.new_agent(
        {"name": group.name, "nodeNames": group.nodes[1:]},
        flags=(*FAST, *flags, *endpoints.flags()),
        agentName=f"{lab.id}-2",
        agentNamespace=f"{lab.id}-agent-2",
    ).start()
    said = f"Cluster {group.name} is served by agent {older.namespace}/{older.name}"
    within(STARTED_S, lambda: _says(younger, said))
    within(STARTED_S, lambda: _stepped_back(endpoints, said))
    time.sleep(3)
    assert _versions(lab, group) == before, "a node was written"
    assert lab.cluster(group.name)["metadata"]["generation"] == cluster["metadata"]["generation"]

    older.terminate()
    work = lab.create_work(group, "meanwhile", objects.config_map(lab.namespace()))
    time.sleep(3)
    lab.hub.patch(f"{CLUSTERS}/{group.name}", {"metadata": {"annotations": {SERVED_BY: None}}})
    within(STARTED_S, lambda: _labelled(lab, group, group.nodes[1:]))
    lab.wait_applied(work)
    assert _served_by(lab, group) == f"{younger.namespace}/{younger.name}"
    within(STARTED_S, lambda: _ready(endpoints))
    assert younger.is_running()


def _without_taints(lab: Lab, group: Group) -> Object:
    cluster: Object = lab.cluster(group.name)
    assert not cluster["spec"].get("taints")
    return cluster


def test_same_agent_continues_after_a_new_installation(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group, flags=(*FAST, *QUICK_LEASE))
    agent.kill()
    lab.host.delete(f"/api/v1/namespaces/{agent.namespace}/configmaps/{agent.name}-state")
    again = lab.new_agent(group, flags=(*FAST, *QUICK_LEASE)).start()
    within(STARTED_S, lambda: _says(again, "Serving"))
    assert _served_by(lab, group) == f"{again.namespace}/{again.name}"
    assert "Not registered" not in again.log()


def test_leave_touches_neither_what_is_unknown_nor_what_is_anothers(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group)
    done = leave(lab, f"{group.name}x", "--yes")
    assert done.returncode == 1
    assert f'virtual cluster "{group.name}x" of agent ' in done.stderr
    assert f"not found; recorded: {group.name}" in done.stderr
    done = leave(lab, group.name, "--yes", agent_name="another")
    assert done.returncode == 1
    assert f"is served by agent {agent.namespace}/{agent.name}" in done.stderr
    # Served by an agent of an older version, which does not say so.
    agent.kill()
    lab.hub.patch(f"{CLUSTERS}/{group.name}", {"metadata": {"annotations": {SERVED_BY: None}}})
    done = leave(lab, group.name, "--yes", agent_name="another")
    assert done.returncode == 1
    assert f'are claimed by agent "{agent.name}"' in done.stderr
    assert not lab.cluster(group.name)["metadata"].get("deletionTimestamp")
    assert lab.host.get(f"/api/v1/namespaces/{group.host_namespace('default')}")


def test_one_api_server_is_not_hub_and_host(lab: Lab) -> None:
    group = lab.group("a")
    text = "is also the API server of the host"
    agent = lab.new_agent(group, host=lab.hub.kubeconfig, is_admin=True).start()
    assert agent.wait_exit() == 2
    assert text in agent.log()
    assert lab.hub.find(f"/api/v1/namespaces/{agent.namespace}") is None
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    done = _join(lab, agent, hub=lab.hub, host=lab.hub)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr
    _assert_no_role(lab)
    done = leave(lab, group.name, "--yes", host=lab.hub.kubeconfig)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_an_api_server_without_clusters_is_no_hub(lab: Lab) -> None:
    group = lab.group("a")
    text = "is not a Karmada control plane: it does not serve cluster.karmada.io"
    agent = lab.new_agent(group, hub=lab.host.kubeconfig, is_admin=True).start()
    assert agent.wait_exit() == 2
    assert text in agent.log()
    assert lab.host.find(f"/api/v1/namespaces/{agent.namespace}") is None
    done = _join(lab, agent, hub=lab.host, host=lab.host)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr
    done = leave(lab, group.name, "--yes", hub=lab.host.kubeconfig)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def _join(lab: Lab, agent: Agent, *, hub: Api, host: Api) -> subprocess.CompletedProcess[str]:

    file = lab.directory / "join.yaml"
    file.write_text(yaml.safe_dump(settings_file(agent.settings)))
    command = [sys.executable, "-m", "karmada_vc_agent", "join", "--config", str(file), "--apply"]
    command += ["--karmada-kubeconfig", str(hub.kubeconfig), "--kubeconfig", str(host.kubeconfig)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=clean_environment()
    )


def _assert_no_role(lab: Lab) -> None:
    roles = collection("rbac.authorization.k8s.io/v1", "ClusterRole")
    assert lab.hub.find(f"{roles}/vc-agent:{lab.id}") is None
    assert lab.hub.find(f"{roles}/{lab.id}") is None


def _served_by(lab: Lab, group: Group) -> str:
    annotations = lab.cluster(group.name)["metadata"].get("annotations") or {}
    return str(annotations.get(SERVED_BY, ""))


def _labelled(lab: Lab, group: Group, nodes: list[str]) -> None:
    found = [
        name
        for name in group.nodes
        if lab.host.get(f"{NODES}/{name}")["metadata"]["labels"].get(MEMBERSHIP) == group.name
    ]
    assert found == nodes


def _versions(lab: Lab, group: Group) -> list[object]:
    """Return the labels of all nodes of a group and who wrote them last."""
    return [lab.host.get(f"{NODES}/{name}")["metadata"]["labels"] for name in group.nodes]


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log()


def _stepped_back(endpoints: Endpoints, said: str) -> None:
    status, text = endpoints.ask("/readyz")
    assert status == 500, text
    assert f"[-]agents failed: {said}" in text


def _ready(endpoints: Endpoints) -> None:
    status, text = endpoints.ask("/readyz")
    assert status == 200, text
