"""Who could write himself into a group, and on whose node the agent runs, is told."""

import pytest

from e2e.lab.agent import Agent
from e2e.lab.lab import NODES, Group, Lab
from e2e.lab.wait import PERIODIC_S, within
from e2e.lab.works import condition

SERVING = "Serving"


def test_names_of_edges_are_unknown_and_labels_of_edges_are_not_trusted(lab: Lab) -> None:
    named, labelled = lab.group("named"), lab.group("labelled")
    lab.serve({"name": named.name, "nodeNames": named.nodes}, labelled)
    result = _condition(lab, named, "GroupTrusted")
    assert (result["status"], result["reason"]) == ("Unknown", "KubeEdge")
    assert "cloudHub.authorization" in result["message"]
    found = _condition(lab, labelled, "GroupTrusted")
    assert found["status"] == "False"
    assert f"the group is selected by label {lab.label}" in found["message"]


@pytest.mark.usefixtures("only_edges")
def test_agent_on_a_node_of_a_group_is_reported(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    group = lab.group("a", nodes=2)
    monkeypatch.setenv("NODE_NAME", group.nodes[0])
    agent = lab.serve(group)
    found = _condition(lab, group, "AgentApart")
    assert (found["status"], found["reason"]) == ("False", "NodeOfGroup")
    assert "Running on a node that tenants may control" in agent.log()
    label = {"metadata": {"labels": {lab.label: None, "node-role.kubernetes.io/edge": None}}}
    lab.host.patch(f"{NODES}/{group.nodes[0]}", label)
    within(PERIODIC_S, lambda: _assert_status(lab, group, "AgentApart", "True"))


@pytest.mark.strict
def test_agent_of_distrusting_tenants_does_not_start_on_their_nodes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = lab.group("a")
    monkeypatch.setenv("NODE_NAME", group.nodes[0])
    agent: Agent = lab.new_agent(group, tenancy="Strict").start()
    assert agent.wait_exit() == 2
    assert f"the agent runs on node {group.nodes[0]}, which belongs to" in agent.log()
    assert lab.hub.find(f"/apis/cluster.karmada.io/v1alpha1/clusters/{group.name}") is None
    monkeypatch.setenv("NODE_NAME", "elsewhere")
    agent.start()
    lab.wait_ready(group.name)


def _condition(lab: Lab, group: Group, kind: str) -> dict[str, str]:
    def look() -> dict[str, str]:
        return dict(condition(lab.cluster(group.name), kind))

    return within(PERIODIC_S, look)


def _assert_status(lab: Lab, group: Group, kind: str, status: str) -> None:
    found = condition(lab.cluster(group.name), kind)
    assert found["status"] == status, found
