"""CheckpointStart: who has neither the hub nor a checkpoint does not lead."""

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, AgentState, ClusterRecord
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.checkpoint.entries import head_key, place_of
from karmada_vc_agent.features.checkpoint.feature import PEEK_S, CheckpointStart
from karmada_vc_agent.features.checkpoint.reader import CheckpointSettings
from karmada_vc_agent.features.checkpoint.writer import EVERYTHING
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.leader_election import LeaderElection
from tests.fakes import served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.pages import PAGES, PageFault
from tests.unit.features.checkpoint.checkpoint_scene import HOST_UID, SECRETS, TEMPLATE, Scene

LINE = "example.io/line"
WAITING = "Waiting for the hub: nothing can be served without it"


@pytest.fixture
async def scene(host: FakeApiServer, client: ApiClient) -> Scene:
    return Scene(host, client)


@pytest.fixture
async def checking() -> AsyncIterator[asyncio.Task[None]]:
    """Return the check of a hub that does not answer."""
    task = asyncio.ensure_future(asyncio.sleep(1e9))
    yield task
    task.cancel()


def election(scene: Scene, identity: str) -> LeaderElection:
    clock = asyncio.get_running_loop().time
    return LeaderElection(scene.client, "agents", "agent", identity, clock, lineage=LINE)


async def lead(scene: Scene) -> None:
    """Have somebody lead who keeps the checkpoint."""
    other = election(scene, "other")
    other.begin_lineage()
    await other.acquire()


def wait(scene: Scene, checking: asyncio.Task[None], *, enabled: bool = True) -> asyncio.Task[None]:
    config = replace(
        CONFIG(),
        agent_name="agent",
        agent_namespace="agents",
        namespace_template=TEMPLATE,
        checkpoint=CheckpointSettings(enabled),
    )
    start = CheckpointStart(config, scene.client, scene.client)
    return asyncio.ensure_future(
        start.wait_for_either(checking, scene.client, election(scene, "me"))
    )


def damage(scene: Scene, key: str) -> None:
    """Flip one byte of the time in an entry."""
    (secret,) = [each for each in scene.host.listed(SECRETS) if key in (each.get("data") or {})]
    content = base64.b64decode(secret["data"][key])
    torn = content.replace(b'"saved":"2', b'"saved":"3')
    assert torn != content
    scene.host.seed({**secret, "data": {**secret["data"], key: base64.b64encode(torn).decode()}})


async def is_over(waiting: asyncio.Task[None]) -> bool:
    await asyncio.wait((waiting,), timeout=3 * PEEK_S)
    return waiting.done()


async def test_who_finds_a_checkpoint_may_lead(scene: Scene, checking: asyncio.Task[None]) -> None:
    await lead(scene)
    waiting = wait(scene, checking)
    scene.host.requests.clear()
    assert not await is_over(waiting)
    assert scene.host.writes() == []
    await scene.write()
    assert await is_over(waiting)


async def test_a_checkpoint_that_must_not_be_served_is_none(
    scene: Scene, checking: asyncio.Task[None], caplog: pytest.LogCaptureFixture
) -> None:
    await lead(scene)
    await scene.write()
    await scene.outdated.note(EVERYTHING)
    caplog.clear()
    waiting = wait(scene, checking)
    assert not await is_over(waiting)
    (told,) = [record for record in caplog.records if record.message == WAITING]
    assert told.__dict__["reason"].startswith("branch-a: "), "once, and why"
    await scene.outdated.clear(EVERYTHING)
    assert await is_over(waiting)


async def test_a_damaged_checkpoint_is_none_and_its_secret_is_named(
    scene: Scene, checking: asyncio.Task[None], caplog: pytest.LogCaptureFixture
) -> None:
    await lead(scene)
    await scene.write()
    damage(scene, head_key("branch-a"))
    caplog.clear()
    waiting = wait(scene, checking)
    assert not await is_over(waiting)
    (told,) = [record for record in caplog.records if record.message == WAITING]
    secret = f"agent-checkpoint-{place_of('branch-a', 0)}"
    assert f"cluster.branch-a of Secret {secret}: its checksum" in told.__dict__["reason"]


async def test_a_damaged_checkpoint_is_written_again(scene: Scene) -> None:
    await scene.write()
    damage(scene, head_key("branch-a"))
    scene.new_process()
    assert scene.saved().clusters == []
    await scene.secrets.load()
    await scene.write()
    assert scene.saved().clusters == ["branch-a"]


async def test_a_checkpoint_that_an_earlier_version_did_not_keep_is_none(
    scene: Scene, checking: asyncio.Task[None]
) -> None:
    await election(scene, "stranger").acquire()
    await scene.write()
    assert not await is_over(wait(scene, checking))


async def test_who_knows_the_hub_may_lead(scene: Scene, checking: asyncio.Task[None]) -> None:
    waiting = wait(scene, checking)
    assert not await is_over(waiting)
    checking.cancel()
    assert await is_over(waiting)


async def test_without_the_setting_nothing_is_looked_for(
    scene: Scene, checking: asyncio.Task[None]
) -> None:
    scene.host.requests.clear()
    await wait(scene, checking, enabled=False)
    assert scene.host.requests == []


NOT_SERVED = b"404 page not found"


def presence_of(hub: FakeApiServer, scene: Scene) -> CheckpointStart:
    """Return what checks a hub before this agent serves."""
    config = AgentConfig(agent_name="agent", agent_namespace="agents", namespace_template=TEMPLATE)
    return CheckpointStart(config, hub.client("hub"), scene.client)


async def test_hub_that_never_served_clusters_is_no_karmada(scene: Scene) -> None:
    async with FakeApiServer(served.HUB) as hub:
        hub.answer(NOT_SERVED, 404, path=CLUSTERS_PATH, times=1_000_000)
        with pytest.raises(ConfigError, match="is not a Karmada control plane"):
            await presence_of(hub, scene).check(HOST_UID)


async def test_hub_that_served_clusters_before_is_waited_for(scene: Scene) -> None:
    state = AgentState(scene.client, "agents", "agent")
    await state.load()
    await state.remember("branch-a", ClusterRecord("uid-branch-a", "settings"))
    async with FakeApiServer(served.HUB) as hub:
        hub.answer(NOT_SERVED, 404, path=CLUSTERS_PATH, times=1_000_000)
        presence = presence_of(hub, scene)
        checking = asyncio.ensure_future(presence.check(HOST_UID))
        await asyncio.wait((checking,), timeout=300.0)
        assert not checking.done()
        hub.clear_faults()
        await asyncio.wait_for(checking, 60.0)
        assert presence.is_checked


async def test_host_that_does_not_show_the_record_is_no_evidence_against_the_hub(
    scene: Scene,
) -> None:
    """As pages before both: that nothing may be read does not say that nothing was recorded."""
    async with FakeApiServer(served.HUB) as hub:
        hub.answer(NOT_SERVED, 404, path=CLUSTERS_PATH, times=1_000_000)
        scene.host.fail(403, times=1_000_000)
        checking = asyncio.ensure_future(presence_of(hub, scene).check(HOST_UID))
        await asyncio.wait((checking,), timeout=60.0)
        assert not checking.done()
        checking.cancel()


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
async def test_only_a_list_of_clusters_proves_that_the_hub_is_there(
    scene: Scene, page: PageFault
) -> None:
    async with FakeApiServer(served.HUB) as hub:
        presence = presence_of(hub, scene)
        assert await presence.is_there()
        hub.answer(page.body, page.code, times=1_000_000)
        assert not await presence.is_there()
