"""FoundRecords: what is remembered of what was found, for each source alone."""

import pytest

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.features.discovered.records import DiscoveredRecord, DiscoveredRecords
from karmada_vc_agent.kube.client import ApiClient
from tests.fakes.api_server import FakeApiServer

STATE = "/api/v1/namespaces/agents/configmaps/karmada-vc-agent-state"
RECORD = DiscoveredRecord("nodeGroups", "a", {"branch": "a"}, 12.5, is_draining=True)


@pytest.fixture
async def state(client: ApiClient) -> AgentState:
    state = AgentState(client, "agents", "karmada-vc-agent")
    await state.ensure_namespace()
    await state.load()
    return state


async def test_record_outlives_the_process(client: ApiClient, state: AgentState) -> None:
    await DiscoveredRecords(state, "nodeGroups").keep("shop-a", RECORD)
    later = AgentState(client, "agents", "karmada-vc-agent")
    await later.load()
    records = DiscoveredRecords(later, "nodeGroups")
    assert list(records) == ["shop-a"]
    assert records.of("shop-a") == RECORD
    assert later.clusters() == {}
    await records.drop("shop-a")
    await records.drop("shop-a")
    assert list(records) == []


async def test_each_source_sees_its_own_only(state: AgentState) -> None:
    await DiscoveredRecords(state, "nodeGroups").keep("shop-a", RECORD)
    others = DiscoveredRecords(state, "discover")
    assert list(others) == []
    await others.drop("shop-a")
    assert DiscoveredRecords(state, "nodeGroups").of("shop-a")


async def test_spoiled_record_counts_as_absent(host: FakeApiServer, state: AgentState) -> None:
    await DiscoveredRecords(state, "nodeGroups").keep("shop-a", RECORD)
    for text in ("{", '{"source": 1}', ""):
        host.change(STATE, data={"found.shop-a": text})
        await state.load()
        assert DiscoveredRecords(state, "nodeGroups").of("shop-a") is None
