"""How objects are read: the agent's settings are their defaults, as of an entry of the file."""

from typing import Any

import pytest

from karmada_vc_agent.cluster.hub_clusters import AgentState, ClusterRecord
from karmada_vc_agent.cluster.registration import LiveSettings, VirtualClusterSources
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.objects.definitions import PATH, ObjectsStart, read
from karmada_vc_agent.kube.errors import NotServedError
from karmada_vc_agent.model.virtual_cluster import Bounds
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.unit.features.objects.conftest import BRANCH_A, virtual_cluster

CONFIG = AgentConfig(
    agent_namespace="agents", cluster_region="south", bounds=Bounds(works=9, kinds=7)
)
LIVE = LiveSettings(CONFIG)


def new_start() -> ObjectsStart:
    return ObjectsStart(VirtualClusterSources(VirtualClusters()).add("another object"))


def test_settings_of_the_agent_lie_under_the_object() -> None:
    spec = BRANCH_A | {"bounds": {"works": 5}, "deletionPolicy": "Preserve"}
    found = read(virtual_cluster(spec=spec), CONFIG)
    vc = found.virtual_cluster
    assert vc is not None
    assert (vc.name, vc.region, vc.bounds) == ("branch-a", "south", Bounds(works=5, kinds=7))
    assert found.is_preserved


def test_tenant_has_an_account_of_its_own() -> None:
    config = AgentConfig(agent_namespace="agents", tenancy="Strict")
    vc = read(virtual_cluster(), config).virtual_cluster
    assert vc is not None
    assert vc.apply_as is not None
    assert vc.apply_as.name == "branch-a.karmada-vc-agent"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"nodeSelector": {}}, "spec.nodeSelector selects no nodes"),
        (BRANCH_A | {"serviceNames": "VirtualFirst"}, "spec.serviceNames VirtualFirst needs"),
        (BRANCH_A | {"region": 5}, "spec.region is 5, must be a string"),
        (BRANCH_A | {"colour": "red"}, "spec.colour is unknown"),
    ],
)
def test_mistake_is_reported_with_its_place(spec: dict[str, Any], problem: str) -> None:
    found = read(virtual_cluster(spec=spec), CONFIG)
    assert found.virtual_cluster is None
    assert problem in found.problem


async def test_what_was_in_use_is_served_from_the_start(host: FakeApiServer) -> None:
    client = host.client()
    for name, phase in (
        ("a", "Active"),
        ("b", "Refused"),
        ("c", "Deleting"),
        ("d", None),
        ("f", None),
    ):
        body = virtual_cluster(name)
        host.seed(body | ({"status": {"phase": phase}} if phase else {}))
    host.seed(virtual_cluster("e", labels={"virtualcluster.kubeedge.io/agent": "another"}))
    host.seed(objects.namespace("agents"))
    state = AgentState(client, "agents", "karmada-vc-agent")
    await state.load()
    for name in ("a", "b", "f"):
        await state.remember(name, ClusterRecord("uid", "settings"))
    started = new_start()
    await started.read(client, LIVE, state)
    assert [vc.name for vc in started.source.defined()] == ["a", "c", "f"]
    host.answer(b"404 page not found", 404, path=PATH)
    with pytest.raises(NotServedError):
        await started.read(client, LIVE, state)  # discovery still lists the kind
    host.storage.served = [each for each in host.storage.served if each.kind != "VirtualCluster"]
    await started.read(client, LIVE, state)
    assert list(started.source.defined()) == []


async def test_removal_that_began_before_the_start_preserves_what_it_is_to(
    host: FakeApiServer,
) -> None:
    for name, policy, is_deleting, phase in (
        ("a", "Preserve", True, "Active"),
        ("b", "Preserve", False, "Active"),
        ("c", "Delete", True, "Deleting"),
        ("d", "Preserve", True, "Refused"),
    ):
        body = virtual_cluster(name, spec=BRANCH_A | {"deletionPolicy": policy})
        host.seed(body | {"status": {"phase": phase}})
        if is_deleting:
            host.mark_deleted(f"{PATH}/{name}")
    started = new_start()
    await started.read(host.client(), LIVE, AgentState(host.client(), "agents", "agent"))
    assert [vc.name for vc in started.source.defined()] == ["a", "b", "c"]
    assert started.preserved == {"a"}
