"""What /readyz says of an agent: what keeps it from its work, and what is only a warning."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

import orjson
import pytest
from msgspec.structs import replace

from karmada_vc_agent.agent import (
    NEITHER,
    SERVING,
    STANDING_BY,
    STARTING,
    Agent,
    check_host_version,
)
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.checkpoint.feature import CheckpointStart
from karmada_vc_agent.features.checkpoint.reader import CheckpointSettings
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.clients import Clients, connect
from karmada_vc_agent.runner.service import Service
from karmada_vc_agent.telemetry.endpoints import Note
from tests.fakes.api_server import FakeApiServer

NOWHERE = Credentials("http://127.0.0.1:1", None, "a test")
VIRTUAL_CLUSTERS = tuple(VirtualCluster(name, node_names=(name,)) for name in ("a", "b"))


@dataclass
class Scene:
    """An agent and what it asks; all of that is mocked."""

    agent: Agent
    clients: Any
    service: Any
    servers: dict[str, Any]

    def wrong(self) -> dict[str, str]:
        """Return the checks that do not pass."""
        checks = self.agent.readiness().items()
        return {name: text for name, text in checks if text and not isinstance(text, Note)}

    def warnings(self) -> dict[str, str]:
        checks = self.agent.readiness().items()
        return {name: text for name, text in checks if isinstance(text, Note)}


@pytest.fixture
def scene() -> Scene:
    """Return an agent that serves: both servers answer, and nothing is wrong."""
    agent = Agent(AgentConfig(virtual_clusters=VIRTUAL_CLUSTERS), NOWHERE, NOWHERE)
    clients, service = MagicMock(spec=Clients), MagicMock(spec=Service)
    service.not_accepted.return_value, service.checks.return_value = None, {}
    service.not_followed.return_value = None
    clients.hub.history.is_in_doubt = clients.host.history.is_in_doubt = False
    servers: dict[str, Any] = {name: MagicMock(is_reachable=True) for name in ("hub", "host")}
    agent.clients, agent.service, agent.phase = clients, service, SERVING
    agent.hub_start = CheckpointStart(agent._config, clients.hub_urgent, clients.host_urgent)
    agent.reachability = servers
    return Scene(agent, clients, service, servers)


def test_agent_that_starts_is_not_ready() -> None:
    agent = Agent(AgentConfig(), NOWHERE, NOWHERE)
    assert Scene(agent, None, None, {}).wrong() == {"phase": "starting: waits for the API servers"}


def test_agent_that_serves_is_ready(scene: Scene) -> None:
    assert (scene.wrong(), scene.warnings()) == ({}, {})


def test_host_that_does_not_answer_is_named(scene: Scene) -> None:
    scene.servers["host"].is_reachable = False
    assert scene.wrong() == {"host": "the API server of the host does not answer"}


@pytest.mark.parametrize("phase", [SERVING, STANDING_BY])
@pytest.mark.parametrize("enabled", [False, True])
def test_agent_that_serves_or_stands_by_is_ready_without_the_hub(
    scene: Scene, phase: str, *, enabled: bool
) -> None:
    config = replace(CONFIG(), checkpoint=CheckpointSettings(enabled=enabled))
    scene.agent.hub_start = CheckpointStart(config, MagicMock(), MagicMock())
    scene.agent.phase = phase
    scene.servers["hub"].is_reachable = False
    assert scene.wrong() == {}
    assert scene.warnings() == {"hub": "the API server of the hub does not answer"}


def test_start_with_neither_hub_nor_checkpoint_is_not_ready(scene: Scene) -> None:
    scene.agent.phase = STARTING
    scene.servers["hub"].is_reachable = False
    assert scene.wrong()["hub"] == "the API server of the hub does not answer"


def test_start_says_why_no_checkpoint_is_served(scene: Scene) -> None:
    scene.agent.phase, scene.agent.waits_for = STARTING, NEITHER
    scene.agent.hub_start = MagicMock(lack="a: its checksum differs")
    assert scene.wrong() == {"phase": f"{STARTING}: {NEITHER}: a: its checksum differs"}


def test_hub_that_answers_and_accepts_nothing_is_a_warning(scene: Scene) -> None:
    scene.service.not_accepted.return_value = "it refuses Leases"
    assert (scene.wrong(), scene.warnings()) == ({}, {"hub": "it refuses Leases"})


@pytest.mark.parametrize("server", ["hub", "host"])
def test_server_that_answers_and_does_not_list_is_named(scene: Scene, server: str) -> None:
    scene.service.not_followed.side_effect = lambda of: "no list" if of == server else None
    is_wrong = server == "host"
    assert scene.wrong() == ({server: "no list"} if is_wrong else {})
    assert scene.warnings() == ({} if is_wrong else {server: "no list"}), "the checkpoint serves"


def test_standby_says_that_the_hub_is_a_page(scene: Scene) -> None:
    scene.agent.service, scene.agent.phase = None, STANDING_BY
    scene.agent.hub_start = MagicMock()
    scene.agent.hub_start.refuses = None
    scene.agent.hub_start.away = "no list"
    assert (scene.wrong(), scene.warnings()) == ({}, {"hub": "no list"})


def test_standby_is_ready_unless_the_hub_would_refuse_it(scene: Scene) -> None:
    scene.agent.service, scene.agent.phase = None, STANDING_BY
    scene.agent.hub_start = MagicMock()
    scene.agent.hub_start.refuses = scene.agent.hub_start.away = None
    assert scene.wrong() == {}
    scene.agent.hub_start.refuses = "the hub refuses the agent: Unauthorized"
    assert scene.wrong() == {"hub": "the hub refuses the agent: Unauthorized"}


def test_rolled_back_server_is_a_warning(scene: Scene) -> None:
    scene.clients.host.history.is_in_doubt = True
    assert scene.wrong() == {}
    text = "the API server of the host went back in time; resyncing everything"
    assert scene.warnings() == {"host": text}


def test_virtual_cluster_that_waits_for_its_rights_fails_no_other(scene: Scene) -> None:
    scene.agent._joined._refused = {"b"}
    text = "waiting for rights on the hub: b; run karmada-vc-agent join"
    assert (scene.wrong(), scene.warnings()) == ({}, {"rights": text})
    scene.agent._virtual_clusters.replace_all(())
    assert scene.wrong() == {"rights": text}


def test_right_that_is_missing_for_what_is_served_is_named(scene: Scene) -> None:
    scene.agent._joined._refused = {"b"}
    scene.service.checks.return_value["rights"] = "hub: the agent lacks a rule"
    assert scene.wrong() == {"rights": "hub: the agent lacks a rule"}
    scene.service.checks.return_value["rights"] = Note("a: hub: the agent lacks a rule")
    assert scene.wrong() == {}
    told = "waiting for rights on the hub: b; run karmada-vc-agent join"
    assert scene.warnings() == {"rights": f"{told}; a: hub: the agent lacks a rule"}


def test_nothing_is_written_to_a_hub_that_has_listed_nothing(scene: Scene) -> None:
    scene.agent._fence.offline = MagicMock(is_fencing=False)
    assert scene.agent._fence.of_hub() == ""
    scene.agent._fence.offline = MagicMock(is_fencing=True)
    assert scene.agent._fence.of_hub() == "the hub has not listed its Clusters yet"


def test_who_does_not_know_that_it_leads_writes_nothing_to_the_hub(scene: Scene) -> None:
    scene.agent._fence.offline = MagicMock(is_fencing=False)
    scene.agent._fence.election = MagicMock()
    scene.agent._fence.election.is_in_touch.return_value = True
    assert scene.agent._fence.of_hub() == ""
    scene.agent._fence.election.is_in_touch.return_value = False
    assert scene.agent._fence.of_hub() == "not the leader"


async def test_every_lane_of_the_hub_has_the_fence() -> None:
    reasons = ["a reason"]
    clients = connect(AgentConfig(), NOWHERE, NOWHERE, lambda: True, lambda: reasons[0])
    for lane in clients.of_hub():
        with pytest.raises(UnreachableError, match="a reason"):
            await lane.create("/api/v1/events", {})
    for lane in clients.of_host():
        with pytest.raises(UnreachableError) as caught:
            await lane.create("/api/v1/events", {})
        assert "a reason" not in str(caught.value)
    await clients.close()


# --- the version of the host --------------------------------------------------------------


@pytest.mark.parametrize(("version", "is_warned"), [("v1.37.2", False), ("v1.38.0", True)])
async def test_host_newer_than_any_that_was_measured_is_warned_of(
    host: FakeApiServer,
    client: ApiClient,
    caplog: pytest.LogCaptureFixture,
    version: str,
    *,
    is_warned: bool,
) -> None:
    host.version = {"gitVersion": version}
    await check_host_version(client, installs_policies=True)
    reasons = [getattr(each, "reason", "") for each in caplog.records]
    assert [version in each for each in reasons] == [True] * is_warned


@pytest.mark.parametrize("installs_policies", [False, True])
@pytest.mark.parametrize("is_confined", [False, True])
async def test_old_host_ends_an_agent_that_nothing_confines(
    host: FakeApiServer, client: ApiClient, *, is_confined: bool, installs_policies: bool
) -> None:
    """As `join --unconfined` grants rights, the agent serves it."""
    host.version = {"gitVersion": "v1.29.3"}
    allowed = orjson.dumps({"status": {"allowed": is_confined}})
    host.answer(allowed, 201, path=SELF_ACCESS_REVIEWS_PATH)
    ends = is_confined and installs_policies
    with pytest.raises(ConfigError, match=r"v1\.29\.3") if ends else nullcontext():
        await check_host_version(client, installs_policies=installs_policies)
