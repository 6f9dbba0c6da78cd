"""AgentState: what outlives the process, in a ConfigMap on the host."""

import asyncio

import pytest

from karmada_vc_agent.cluster.hub_clusters import AgentState, ClusterRecord
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, InvalidError
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

PATH = "/api/v1/namespaces/agents/configmaps/agent-state"
RECORD = ClusterRecord(uid="u1", settings="s1")


@pytest.fixture
async def state(host: FakeApiServer, client: ApiClient) -> AgentState:
    made = AgentState(client, "agents", "agent")
    await made.ensure_namespace()
    await made.load()
    host.requests.clear()
    return made


async def after_restart(client: ApiClient) -> AgentState:
    made = AgentState(client, "agents", "agent")
    await made.load()
    return made


async def test_namespace_is_made_once(host: FakeApiServer, client: ApiClient) -> None:
    for _ in range(2):
        await AgentState(client, "agents", "agent").ensure_namespace()
    assert [request.method for request in host.writes()] == ["POST"]
    assert host.live("/api/v1/namespaces/agents")


async def test_namespace_that_another_replica_makes_meanwhile_is_fine(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.before("POST", "/api/v1/namespaces", lambda: host.seed(objects.namespace("agents")))
    await AgentState(client, "agents", "agent").ensure_namespace()
    assert [request.method for request in host.writes()] == ["POST"]
    assert host.live("/api/v1/namespaces/agents")


async def test_record_is_there_after_a_restart(client: ApiClient, state: AgentState) -> None:
    assert state.cluster("branch-a") is None
    await state.remember("branch-a", RECORD)
    assert state.cluster("branch-a") == RECORD
    again = await after_restart(client)
    assert again.cluster("branch-a") == RECORD
    assert again.clusters() == {"branch-a": RECORD}


async def test_cached_record_costs_no_request(host: FakeApiServer, state: AgentState) -> None:
    await state.remember("branch-a", RECORD)
    host.requests.clear()
    await state.remember("branch-a", RECORD)
    assert host.requests == []


async def test_records_do_not_disturb_each_other(client: ApiClient, state: AgentState) -> None:
    other = ClusterRecord("u2", "s2")
    await state.remember("branch-a", RECORD)
    await state.remember("branch-b", other)
    again = await after_restart(client)
    assert again.clusters() == {"branch-a": RECORD, "branch-b": other}


async def test_record_that_was_not_stored_is_not_believed(
    host: FakeApiServer, state: AgentState
) -> None:
    host.fail(403, "Forbidden", method="PATCH")
    with pytest.raises(ForbiddenError):
        await state.remember("branch-a", RECORD)
    assert state.cluster("branch-a") is None
    await state.remember("branch-a", RECORD)
    assert state.cluster("branch-a") == RECORD


async def test_state_that_another_replica_makes_meanwhile_is_read(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(objects.namespace("agents"))
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "agent-state", "namespace": "agents"},
        "data": {"cluster.branch-a": '{"uid":"u1","settings":"s1"}'},
    }
    host.before("POST", "/api/v1/namespaces/agents/configmaps", lambda: host.seed(theirs))
    assert (await after_restart(client)).cluster("branch-a") == RECORD


async def test_template_is_fixed_at_its_first_use(client: ApiClient, state: AgentState) -> None:
    await state.check_template("{namespace}-v-{cluster}")
    again = await after_restart(client)
    await again.check_template("{namespace}-v-{cluster}")
    with pytest.raises(ConfigError) as raised:
        await again.check_template("{cluster}-x-{namespace}")
    text = str(raised.value)
    assert "TemplateChanged: " in text
    assert '"{cluster}-x-{namespace}"' in text
    assert '"{namespace}-v-{cluster}"' in text
    assert "ConfigMap agents/agent-state" in text


async def test_template_is_no_record_of_a_cluster(state: AgentState) -> None:
    await state.check_template("{namespace}-v-{cluster}")
    assert state.clusters() == {}


@pytest.mark.parametrize(
    "value",
    ["", "no json", "[]", "7", "{}", '{"uid": 7, "settings": "s"}', "[" * 3000, r'"\ud83d"'],
)
async def test_spoiled_record_counts_as_absent_and_is_reported(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    host.seed(objects.namespace("agents"))
    data = {"cluster.branch-a": value, "cluster.branch-b": '{"uid":"u1","settings":"s1"}'}
    metadata = {"name": "agent-state", "namespace": "agents"}
    host.seed({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    state = await after_restart(client)
    assert state.cluster("branch-a") is None
    assert state.clusters() == {"branch-b": RECORD}
    assert [r.__dict__["key"] for r in caplog.records] == ["cluster.branch-a"]
    await state.remember("branch-a", RECORD)
    assert (await after_restart(client)).cluster("branch-a") == RECORD


async def test_deleted_state_is_written_again_with_its_content(
    host: FakeApiServer, client: ApiClient, state: AgentState
) -> None:
    await state.remember("branch-a", RECORD)
    host.remove(PATH)
    await state.write("checkpoint-outdated.branch-a", "true")
    again = await after_restart(client)
    assert again.cluster("branch-a") == RECORD
    assert again.value("checkpoint-outdated.branch-a") == "true"


async def test_deletion_of_a_cluster_is_recorded_where_the_state_was_deleted(
    host: FakeApiServer, client: ApiClient, state: AgentState
) -> None:
    await state.remember("branch-a", RECORD)
    await state.remember("branch-b", RECORD)
    host.remove(PATH)
    assert (await state.remember_deleted("branch-a", "u1", "s1")).was_deleted
    again = await after_restart(client)
    assert again.cluster("branch-b") == RECORD
    assert again.clusters()["branch-a"].was_deleted


async def test_record_is_read_again_where_the_state_was_deleted(
    host: FakeApiServer, state: AgentState
) -> None:
    await state.remember("branch-a", RECORD)
    host.remove(PATH)
    assert await state.read_again("branch-a") == RECORD
    assert host.live(PATH)["data"]


async def test_record_that_a_restored_host_lacks_stays_cached(
    host: FakeApiServer, client: ApiClient, state: AgentState
) -> None:
    await state.remember("branch-a", RECORD)
    await AgentState(client, "agents", "agent").forget("branch-a")
    assert await state.read_again("branch-a") == RECORD
    assert state.cluster("branch-a") == RECORD


async def test_records_that_wait_are_one_request(
    host: FakeApiServer, client: ApiClient, state: AgentState
) -> None:
    names = [f"branch-{number}" for number in range(9)]
    await asyncio.gather(*(state.remember(name, RECORD) for name in names))
    assert len(host.writes()) == 2, "that of the first, and that of all that waited for it"
    assert list((await after_restart(client)).clusters()) == names


async def test_record_that_is_refused_keeps_no_other_from_being_written(
    host: FakeApiServer, client: ApiClient, state: AgentState
) -> None:
    host.fail(422, "Invalid", method="PATCH")
    writes = [state.remember(name, RECORD) for name in ("branch-a", "branch-b")]
    first, second = await asyncio.gather(*writes, return_exceptions=True)
    assert isinstance(first, InvalidError)
    assert second is None
    assert list((await after_restart(client)).clusters()) == ["branch-b"]
