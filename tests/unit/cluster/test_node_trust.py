"""NodeTrust and AgentApart: what nodes may write, and where the agent runs."""

import logging
from typing import Any

import msgspec
import pytest

from karmada_vc_agent.cluster.host_objects import NodeTrust, is_kubeedge
from karmada_vc_agent.cluster.lease import check_apart_from_tenants
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.reported import Reported
from tests.fakes.world import World

EDGE = {"node-role.kubernetes.io/edge": ""}
ON = "--enable-admission-plugins=NodeRestriction,PodNodeSelector"


def api_server(*arguments: str, name: str = "kube-apiserver-1", field: str = "command") -> Object:
    pod = objects.pod(name, "kube-system")
    pod["metadata"]["labels"] = {"component": "kube-apiserver"}
    pod["spec"]["containers"] = [{"name": "c", field: ["kube-apiserver", *arguments]}]
    return pod


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], None),
        ([api_server(ON)], True),
        ([api_server("--enable-admission-plugins", "NodeRestriction", field="args")], True),
        ([api_server("--enable-admission-plugins=PodNodeSelector")], False),
        ([api_server()], False),
        ([api_server(ON, "--disable-admission-plugins=NodeRestriction")], False),
        ([api_server(ON), api_server(name="kube-apiserver-2")], False),
    ],
)
async def test_plugin_is_detected_from_the_flags_of_the_api_servers(
    world: World,
    pods: list[Object],
    expected: bool | None,
) -> None:
    world.host.seed(objects.pod("other", "kube-system"), *pods)
    trust = NodeTrust(world.host_client, world.nodes)
    await trust.check()
    assert trust.node_restriction is expected


async def test_detected_state_stays_while_no_one_responds(world: World) -> None:
    world.host.seed(api_server(ON))
    trust = NodeTrust(world.host_client, world.nodes)
    await trust.check()
    world.host.fail(403, path="/api/v1/namespaces/kube-system/pods")
    await trust.check()
    assert trust.node_restriction is True


def node(name: str, version: str, labels: dict[str, str] | None = None) -> Node:
    made: dict[str, Any] = objects.node(name, labels)
    made["status"]["nodeInfo"] = {"kubeletVersion": version}
    return msgspec.convert(made, Node)


def test_edges_are_recognised_by_label_or_by_their_kubelet() -> None:
    assert is_kubeedge(node("n1", "v1.30.7-kubeedge-v1.20.0"))
    assert is_kubeedge(node("n1", "v1.34.4", EDGE))
    assert not is_kubeedge(node("n1", "v1.34.4"))


async def test_host_has_kubeedge_as_long_as_it_has_an_edge(world: World) -> None:
    trust = NodeTrust(world.host_client, world.nodes)
    world.host.seed(objects.node("n1"), objects.node("n2", EDGE))
    world.look()
    assert trust.has_kubeedge
    world.host.remove("/api/v1/nodes/n2")
    world.look()
    assert not trust.has_kubeedge


@pytest.mark.parametrize(
    ("labels", "reason"),
    [({"branch": "a"}, "NodeOfGroup"), (EDGE, "EdgeNode")],
)
async def test_agent_on_a_node_that_tenants_may_hold_is_reported_until_it_moves(
    world: World, caplog: pytest.LogCaptureFixture, labels: dict[str, str], reason: str
) -> None:
    caplog.set_level(logging.WARNING)
    world.host.seed(objects.node("n1", labels))
    world.look()
    world.parts.common.node = "n1"
    own = Reported(world, "AgentApart")
    for _ in range(2):
        (found,) = own.condition(world.vc(), {})
        assert (found["status"], found["reason"]) == ("False", reason)
    assert caplog.text.count("Running on a node that tenants may control") == 1
    world.host.seed(objects.node("n1", {}))
    world.host.change("/api/v1/nodes/n1", metadata={"name": "n1", "labels": {}})
    world.look()
    assert own.condition(world.vc(), {}) == []
    (found,) = own.condition(world.vc(), {"conditions": [found]})
    assert found["status"] == "True"


async def test_agent_without_its_node_name_reports_nothing(world: World) -> None:
    assert Reported(world, "AgentApart").condition(world.vc(), {}) == []


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"branch": "a"}, "belongs to virtual cluster branch-a"),
        (EDGE, "which is an edge node"),
    ],
)
async def test_agent_of_distrusting_tenants_does_not_start_there(
    world: World, labels: dict[str, str], problem: str
) -> None:
    world.host.seed(objects.node("n1", labels), objects.node("n2"))
    vcs = world.virtual_clusters.values()
    with pytest.raises(ConfigError, match=problem):
        await check_apart_from_tenants(world.host_client, "n1", vcs)
    for other in ("n2", "unknown", ""):
        await check_apart_from_tenants(world.host_client, other, vcs)
