"""`explain`: what it asks, and what it says while the hub is away."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from karmada_vc_agent.diagnosis.explain import (
    explained,
    status_written,
    target_of,
    written,
)
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, HOLD_ANNOTATION, WORK_ANNOTATION
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
WORK = "karmada-es-branch-a/web-1"


@pytest.fixture
async def hub() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(served.HUB) as server:
        yield server


@pytest.fixture
async def host() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(served.HOST) as server:
        server.seed(objects.claimed(annotations={HOLD_ANNOTATION: "belt stopped"}))
        server.seed(on_host())
        server.answer(b'{"status": {"allowed": true}}', 201, path=REVIEWS, times=1000)
        yield server


def on_host() -> Object:
    made = objects.config_map()
    made["metadata"] |= {
        "namespace": "edge-v-branch-a",
        "labels": {CLUSTER_LABEL: "branch-a"},
        "annotations": {WORK_ANNOTATION: WORK},
    }
    return made


async def facts_of(hub: FakeApiServer, host: FakeApiServer, what: str) -> Object:
    return await explained(hub.client("hub"), host.client("host"), target_of(what))


async def text_of(hub: FakeApiServer, host: FakeApiServer, what: str) -> str:
    return written(await facts_of(hub, host, what), target_of(what), "text")


async def test_work_is_shown_with_its_objects_and_what_holds_them(
    hub: FakeApiServer, host: FakeApiServer
) -> None:
    work = objects.work(objects.config_map(), objects.config_map("other"))
    work["status"] = {"conditions": [objects.condition("Applied", "False", "Failed", "no")]}
    hub.seed(work)
    text = await text_of(hub, host, "branch-a/web-1")
    assert "Work web-1, generation" in text
    assert "Applied=False Failed: no" in text
    assert "ConfigMap edge/settings: on the host: edge-v-branch-a/settings" in text
    assert "held by an administrator: belt stopped" in text
    assert "ConfigMap edge/other: not on the host" in text


async def test_an_object_of_another_owner_is_not_said_to_be_missing(
    hub: FakeApiServer, host: FakeApiServer
) -> None:
    foreign = on_host()
    foreign["metadata"]["labels"] = {}
    host.seed(foreign)
    hub.seed(objects.work(objects.config_map()))
    text = await text_of(hub, host, "branch-a/web-1")
    assert "settings: not on the host, or not of this virtual cluster" in text


async def test_texts_of_tenants_move_no_cursor(hub: FakeApiServer, host: FakeApiServer) -> None:
    work = objects.work(objects.config_map())
    message = "all is well\n\x1b[2J\x1b[1;1HApplied=True"
    work["status"] = {"conditions": [objects.condition("Applied", "False", "Failed", message)]}
    hub.seed(work)
    text = await text_of(hub, host, "branch-a/web-1")
    assert "\x1b" not in text
    assert "    Applied=False Failed: all is well \\x1b[2J" in text


async def test_malformed_manifests_hide_no_other_object(
    hub: FakeApiServer, host: FakeApiServer
) -> None:
    odd: list[Any] = [{"metadata": "x"}, {"kind": 7, "metadata": {"name": 8}}, "x", None]
    hub.seed(objects.work(*odd, name="odd"))
    hub.seed(objects.work(objects.config_map()))
    facts = await facts_of(hub, host, "branch-a/configmap/edge/settings")
    assert [each["host"] for each in facts["objects"]] == ["edge-v-branch-a/settings"]
    assert "the host has no such kind" in await text_of(hub, host, "branch-a/odd")


async def test_object_is_resolved_by_its_virtual_name(
    hub: FakeApiServer, host: FakeApiServer
) -> None:
    hub.seed(objects.work(objects.config_map()))
    hub.seed(objects.work(objects.deployment(), name="else"))
    facts = await facts_of(hub, host, "branch-a/configmap/edge/settings")
    assert [work["name"] for work in facts["works"]] == ["web-1"]
    assert [each["host"] for each in facts["objects"]] == ["edge-v-branch-a/settings"]


@pytest.mark.parametrize("what", ["branch-a/web-1", "branch-a/configmap/edge/settings"])
async def test_host_alone_reports_while_the_hub_is_away(
    hub: FakeApiServer, host: FakeApiServer, what: str
) -> None:
    with hub.down():
        facts = await facts_of(hub, host, what)
    assert [(each["host"], each["work"]) for each in facts["objects"]] == [
        ("edge-v-branch-a/settings", WORK)
    ]
    assert "hub not reached, so this is what the host has" in written(
        facts, target_of(what), "text"
    )


async def test_kinds_whose_lists_have_no_version_hide_nothing(hub: FakeApiServer) -> None:
    verbs = ("get", "list")
    odd = served.Served("v1", "componentstatuses", "ComponentStatus", False, verbs=verbs)
    async with FakeApiServer((*served.HOST, odd)) as host:
        host.seed(objects.claimed())
        host.seed(on_host())
        host.answer(b'{"status": {"allowed": true}}', 201, path=REVIEWS, times=1000)
        with hub.down():
            facts = await facts_of(hub, host, "branch-a/web-1")
        assert [each["host"] for each in facts["objects"]] == ["edge-v-branch-a/settings"]
        assert not [each for each in host.requests if "componentstatuses" in each.path]


async def test_missing_cluster_is_reported(hub: FakeApiServer, host: FakeApiServer) -> None:
    with pytest.raises(CommandError, match='no Cluster "branch-x"'):
        await facts_of(hub, host, "branch-x/web-1")


@pytest.mark.parametrize("text", ["branch-a", "a/b/c", "/b", "a//b/c", "a/b/c/d/e"])
def test_argument_that_is_neither_work_nor_object_is_reported(text: str) -> None:
    with pytest.raises(ConfigError, match="CLUSTER/KIND/NAMESPACE/NAME"):
        target_of(text)


def test_object_may_be_cluster_scoped() -> None:
    assert target_of("a/clusterrole//reader") == ("a", "clusterrole", "", "reader")


def test_status_was_written_when_the_server_says() -> None:
    work = objects.work()
    work["metadata"]["managedFields"] = [
        {"manager": "x", "time": "2026-11-23T15:00:00Z"},
        {"manager": "x", "subresource": "status", "time": "2026-11-23T14:00:00Z"},
    ]
    assert status_written(work) == "2026-11-23T14:00:00Z"
