"""What `leave` takes out of the checkpoint of an agent."""

from karmada_vc_agent.features.checkpoint.entries import cluster_of_key
from karmada_vc_agent.features.checkpoint.feature import forget_saved
from karmada_vc_agent.kube.client import ApiClient
from tests.fakes.api_server import FakeApiServer
from tests.unit.features.checkpoint.checkpoint_scene import SECRETS, Scene


def clusters(host: FakeApiServer) -> set[str]:
    found = {cluster_of_key(key) for each in host.listed(SECRETS) for key in each.get("data") or {}}
    return found - {""}


async def test_who_leaves_is_taken_out_and_its_neighbour_stays(
    host: FakeApiServer, client: ApiClient
) -> None:
    scene = Scene(host, client, "branch-a", "branch-b")
    scene.work("one")
    scene.work("two", of="branch-b")
    await scene.write()
    said: list[str] = []
    await forget_saved(client, "agents", "agent", "branch-a", said.append)
    assert clusters(host) == {"branch-b"}
    assert said == ["host: removed branch-a from the checkpoint of agent"]
    assert scene.names("branch-b") == ["two"]


async def test_the_secrets_go_with_the_last_virtual_cluster(
    host: FakeApiServer, client: ApiClient
) -> None:
    scene = Scene(host, client, "branch-a")
    scene.work("one")
    await scene.write()
    said: list[str] = []
    await forget_saved(client, "agents", "agent", "branch-a", said.append)
    assert host.listed(SECRETS) == []
    assert said == ["host: removed the checkpoint of agent"]


async def test_nothing_is_said_where_nothing_was_kept(
    host: FakeApiServer, client: ApiClient
) -> None:
    said: list[str] = []
    await forget_saved(client, "agents", "agent", "branch-a", said.append)
    assert (said, host.writes()) == ([], [])


async def test_unreadable_checkpoint_is_reported(host: FakeApiServer, client: ApiClient) -> None:
    host.fail(403, "Forbidden", method="GET", times=100)
    said: list[str] = []
    await forget_saved(client, "agents", "agent", "branch-a", said.append)
    assert len(said) == 1
    assert "may still have branch-a" in said[0]
