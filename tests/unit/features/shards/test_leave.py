"""What `leave` needs of shards: the Lease to hold, and what is left of them."""

import pytest

from karmada_vc_agent.features.shards.division import lease_names, shard_of
from karmada_vc_agent.features.shards.election import COUNT
from karmada_vc_agent.features.shards.feature import FEATURE
from karmada_vc_agent.install.leave_steps import leases_of
from karmada_vc_agent.install.served import pod_problem
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer


def lease(name: str, **annotations: str) -> Object:
    metadata = {"name": name, "namespace": "agents", "annotations": annotations}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_leave_holds_the_lease_of_the_shard_that_serves(
    host: FakeApiServer, client: ApiClient, count: int
) -> None:
    host.seed(lease("agent", **({COUNT: str(count)} if count > 1 else {})))
    assert FEATURE.leases is not None
    names = await FEATURE.leases(client, "agents", "agent", "branch-a")
    expected = f"agent-{shard_of('branch-a', count)}-of-{count}" if count > 1 else "agent"
    assert names == [expected]


async def test_all_leases_are_those_of_the_number_that_serves(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(lease("agent", **{COUNT: "2"}))
    assert await leases_of(client, "agents", "agent") == ["agent-0-of-2", "agent-1-of-2"]


async def test_doctor_and_join_ask_for_each_shard(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(lease("agent", **{COUNT: "2"}))
    deployment = objects.deployment("agent", "agents")
    for available, serves in ((1, False), (2, True)):
        status = {"replicas": 3, "updatedReplicas": 3, "availableReplicas": available}
        generation = {"observedGeneration": 1}
        metadata = {**deployment["metadata"], "namespace": "agents", "generation": 1}
        host.seed(deployment | {"metadata": metadata, "status": status | generation})
        assert (await pod_problem(client, "agents", "agent") is None) == serves


async def test_leave_of_an_agent_that_never_ran_holds_its_lease(client: ApiClient) -> None:
    assert await leases_of(client, "agents", "agent", "branch-a") == ["agent"]


async def test_purge_leaves_no_lease_of_a_shard(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(*map(lease, lease_names("agent")), lease("another-0-of-2"))
    said: list[str] = []
    await FEATURE.purge(client, "agents", "agent", said.append)
    left = host.listed("/apis/coordination.k8s.io/v1/namespaces/agents/leases")
    assert [each["metadata"]["name"] for each in left] == ["another-0-of-2"]
    assert "host: deleted lease agents/agent-1-of-2" in said


async def test_purge_of_an_agent_without_shards_is_one_request(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(lease("agent"))
    await FEATURE.purge(client, "agents", "agent", print)
    assert [each.method for each in host.requests] == ["GET"]
