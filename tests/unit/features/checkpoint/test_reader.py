"""read_checkpoint: what a leader may serve of what the one before kept."""

import pytest

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.checkpoint.entries import Reason
from karmada_vc_agent.features.checkpoint.reader import Checkpoint, is_kept, read_checkpoint
from karmada_vc_agent.features.checkpoint.writer import EVERYTHING
from karmada_vc_agent.kube.client import ApiClient
from tests.fakes.api_server import FakeApiServer
from tests.unit.features.checkpoint.checkpoint_scene import SECRETS, Scene


@pytest.fixture
async def scene(host: FakeApiServer, client: ApiClient) -> Scene:
    made = Scene(host, client)
    made.work("one")
    await made.write()
    return made


async def start(scene: Scene, *, is_continued: bool = True) -> Checkpoint:
    state = AgentState(scene.client, "agents", "agent")
    await state.load()
    config = AgentConfig(agent_name="agent", agent_namespace="agents")
    return await read_checkpoint(scene.client, config, state, "hub-1", is_continued=is_continued)


async def test_it_is_kept_by_default(scene: Scene) -> None:
    assert is_kept(CONFIG())
    assert (await start(scene)).saved.clusters


async def test_what_another_leader_did_not_keep_up_to_date_is_not_served(scene: Scene) -> None:
    found = await start(scene, is_continued=False)
    assert not found.saved.clusters
    assert found.saved.refusals["branch-a"].reason is Reason.OUTDATED
    # Nor by the next one, until it was written.
    assert not (await start(scene)).saved.clusters
    assert found.outdated.names() == {EVERYTHING}


async def test_without_rights_there_is_nothing_to_serve_yet(scene: Scene) -> None:
    for number in range(32):
        path = f"{SECRETS}/agent-checkpoint-{number}"
        scene.host.fail(403, "Forbidden", method="GET", path=path)
    found = await start(scene)
    assert not found.saved.clusters
    await found.secrets.settle()
    assert found.secrets.surprises, "all of them are read once they may be"
