"""`leave` touches neither what is another's nor what nobody knows."""

import pytest

from karmada_vc_agent.access.rights import HubAccess, hub_objects
from karmada_vc_agent.cluster.hub_clusters import AgentState, ClusterRecord, cluster_id
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.leave_steps import Leaving, check_exists, check_ours
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION
from tests.fakes import objects
from tests.fakes.api_server import KUBE_SYSTEM_UID, FakeApiServer

LEAVING = Leaving("branch-a", "agent", "agents", preserve=False, timeout_s=1.0)


def cluster(own_id: str, mode: str = "Pull", agent: str = "") -> Object:
    metadata: Object = {"name": "branch-a"}
    if agent:
        metadata["annotations"] = {AGENT_ANNOTATION: agent}
    return {"metadata": metadata, "spec": {"id": own_id, "syncMode": mode}}


OURS = cluster_id(KUBE_SYSTEM_UID, "branch-a")


def test_only_the_cluster_that_this_host_registered_is_ours() -> None:
    check_ours(cluster(OURS), LEAVING, KUBE_SYSTEM_UID)
    check_ours(None, LEAVING, KUBE_SYSTEM_UID)
    with pytest.raises(CommandError, match="not a virtual cluster of this host"):
        check_ours(cluster("another"), LEAVING, KUBE_SYSTEM_UID)


def test_with_the_host_away_a_push_cluster_is_still_refused() -> None:
    check_ours(cluster("unknown"), LEAVING, "")
    with pytest.raises(CommandError):
        check_ours(cluster("unknown", "Push"), LEAVING, "")


@pytest.mark.parametrize("uid", [KUBE_SYSTEM_UID, ""])
def test_cluster_that_another_agent_serves_is_refused(uid: str) -> None:
    check_ours(cluster(OURS, agent="agents/agent"), LEAVING, uid)
    for other in ("agents/another", "elsewhere/agent"):
        with pytest.raises(CommandError, match=f"is served by agent {other} .*Nothing was"):
            check_ours(cluster(OURS, agent=other), LEAVING, uid)


@pytest.fixture
async def clients(hub: FakeApiServer, host: FakeApiServer) -> tuple[ApiClient, ApiClient]:
    host.seed(objects.namespace("agents"))
    return hub.client("hub"), host.client("host")


async def test_name_of_which_there_is_nothing_is_an_error(
    clients: tuple[ApiClient, ApiClient], host: FakeApiServer
) -> None:
    with pytest.raises(
        CommandError, match='virtual cluster "branch-a" of agent agents/agent not found'
    ):
        await check_exists(LEAVING, None, *clients)
    state = AgentState(clients[1], "agents", "agent")
    await state.load()
    await state.remember("branch-b", ClusterRecord("uid", "settings"))
    with pytest.raises(CommandError, match="of agent agents/agent not found; recorded: branch-b"):
        await check_exists(LEAVING, None, *clients)
    assert not [write for write in host.writes() if write.method == "DELETE"]


async def test_any_trace_of_a_name_counts_as_existing(
    clients: tuple[ApiClient, ApiClient], hub: FakeApiServer, host: FakeApiServer
) -> None:
    await check_exists(LEAVING, cluster(OURS), *clients)
    state = AgentState(clients[1], "agents", "agent")
    await state.load()
    await state.remember("branch-a", ClusterRecord("", "", has_left=True))
    await check_exists(LEAVING, None, *clients)
    await state.forget("branch-a")
    host.seed(objects.claimed(agent="agent"))
    await check_exists(LEAVING, None, None, clients[1])


async def test_name_in_the_role_of_the_agent_is_recognised(
    host: FakeApiServer,
) -> None:
    objects = hub_objects(HubAccess("agent", ("branch-a",)))
    host.seed(next(obj for obj in objects if obj["kind"] == "ClusterRole"))
    hub = host.client("hub")
    await check_exists(LEAVING, None, hub, None)
    for name in ("branch-b", "kube-system"):
        other = Leaving(name, "agent", "agents", preserve=False, timeout_s=1.0)
        with pytest.raises(CommandError):
            await check_exists(other, None, hub, None)


async def test_namespaces_that_another_agent_claims_are_not_touched(
    clients: tuple[ApiClient, ApiClient], host: FakeApiServer
) -> None:
    host.seed(objects.claimed(agent="another"))
    with pytest.raises(CommandError, match='are claimed by agent "another"'):
        await check_exists(LEAVING, cluster(OURS), *clients)


async def test_names_that_hub_and_host_have_are_listed_once(
    clients: tuple[ApiClient, ApiClient], hub: FakeApiServer
) -> None:
    state = AgentState(clients[1], "agents", "agent")
    await state.load()
    await state.remember("branch-b", ClusterRecord("uid", "settings"))
    made = hub_objects(HubAccess("agent", ("branch-b",)))
    hub.seed(next(obj for obj in made if obj["kind"] == "ClusterRole"))
    with pytest.raises(CommandError, match=r"; recorded: branch-b$"):
        await check_exists(LEAVING, None, *clients)
