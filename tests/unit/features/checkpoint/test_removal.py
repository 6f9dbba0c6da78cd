"""remove_disabled: what is left of a checkpoint that was turned off."""

import asyncio
import logging

import pytest

from karmada_vc_agent.features.checkpoint.feature import remove_checkpoint, remove_disabled
from karmada_vc_agent.kube.client import ApiClient
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.fakes.pages import PAGES
from tests.unit.features.checkpoint.checkpoint_scene import SECRETS, Scene


async def test_its_secrets_go_and_no_others(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene(host, client, "branch-a", "branch-b")
    scene.work("one")
    await scene.write()
    host.seed(objects.secret("karmada-kubeconfig", "agents"))
    await remove_disabled(client, "agents", "agent")
    assert [each["metadata"]["name"] for each in host.listed(SECRETS)] == ["karmada-kubeconfig"]
    assert "it is turned off" in caplog.text


async def test_nothing_is_said_where_nothing_was_kept(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host.seed(objects.namespace("agents"))
    await remove_disabled(client, "agents", "agent")
    assert caplog.text == ""
    assert await remove_checkpoint(client, "agents", "agent") == []


async def test_leftovers_of_a_denial_are_reported(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host.fail(403, "Forbidden", method="DELETE", times=100)
    await remove_disabled(client, "agents", "agent")
    assert "delete Secrets agent-" in caplog.text
    assert len(host.writes()) == 1


@pytest.mark.parametrize("page", ["404 plain", "403 page", "502 page", "401 Status"])
async def test_they_go_once_the_host_answers_for_itself(
    host: FakeApiServer, client: ApiClient, page: str
) -> None:
    scene = Scene(host, client, "branch-a")
    scene.work("one")
    await scene.write()
    with host.in_front(PAGES[page]):
        removing = asyncio.create_task(remove_disabled(client, "agents", "agent"))
        await asyncio.sleep(60)
    assert host.listed(SECRETS)
    await removing
    assert host.listed(SECRETS) == []
