"""remove_once_there: what is left of a checkpoint that was turned off."""

import logging

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.lifecycle.checkpoint_removal import remove_checkpoint, remove_once_there
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.unit.lifecycle.checkpoint_scene import SECRETS, Scene


async def test_its_secrets_go_and_no_others(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene(host, client, "branch-a", "branch-b")
    scene.work("one")
    await scene.write()
    host.seed(objects.secret("karmada-kubeconfig", "agents"))
    await remove_once_there(client, "agents", "agent")
    assert [each["metadata"]["name"] for each in host.listed(SECRETS)] == ["karmada-kubeconfig"]
    assert "it is turned off" in caplog.text


async def test_nothing_is_said_where_nothing_was_kept(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host.seed(objects.namespace("agents"))
    await remove_once_there(client, "agents", "agent")
    assert caplog.text == ""
    assert await remove_checkpoint(client, "agents", "agent") == []


@pytest.mark.parametrize(("status", "told"), [(403, "delete Secrets agent-"), (422, "Cannot")])
async def test_what_may_stay_is_told(
    host: FakeApiServer,
    client: ApiClient,
    caplog: pytest.LogCaptureFixture,
    status: int,
    told: str,
) -> None:
    caplog.set_level(logging.INFO)
    host.fail(status, "Whatever", method="DELETE", times=100)
    await remove_once_there(client, "agents", "agent")
    assert told in caplog.text
    assert len(host.requests) <= 32
