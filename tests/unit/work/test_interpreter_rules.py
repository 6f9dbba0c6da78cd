"""What the hub says about interpreting: changes hold at once, missing rights are said."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from karmada_vc_agent.interpretation.user_hooks import INTERPRET_HEALTH, RETAIN, Operation
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.work.served_kinds import Concerns, InterpreterRules
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import Served

API = "config.karmada.io/v1alpha1"
CUSTOMIZATIONS = f"/apis/{API}/resourceinterpretercustomizations"
WEBHOOKS = f"/apis/{API}/resourceinterpreterwebhookconfigurations"
SERVICES = "/api/v1/services"
WIDGET = GroupVersionKind("example.io", "v1", "Widget")
GADGET = GroupVersionKind("example.io", "v1", "Gadget")


@pytest.fixture
async def hub() -> AsyncIterator[FakeApiServer]:
    resources = (
        Served(API, "resourceinterpretercustomizations", "ResourceInterpreterCustomization", False),
        Served(
            API,
            "resourceinterpreterwebhookconfigurations",
            "ResourceInterpreterWebhookConfiguration",
            False,
        ),
        Served("v1", "services", "Service"),
    )
    async with FakeApiServer(resources) as server:
        yield server


@asynccontextmanager
async def watching(hub: FakeApiServer, told: list[Concerns]) -> AsyncIterator[InterpreterRules]:
    async def run(_turn: Any, script: str, operation: Operation, _objects: Sequence[Object]) -> Any:
        return {"ran": script, "for": operation}

    rules = InterpreterRules(hub.client("hub"), run, told.append)
    task = asyncio.ensure_future(rules.run())
    try:
        await rules.wait_answered()
        yield rules
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await rules.close()


async def until(condition: Callable[[], object]) -> None:
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come about")


def customization(kind: str, script: str) -> Object:
    return {
        "apiVersion": API,
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": kind.lower()},
        "spec": {
            "target": {"apiVersion": "example.io/v1", "kind": kind},
            "customizations": {"retention": {"luaScript": script}},
        },
    }


def configuration(client: Object) -> Object:
    rule = {
        "operations": ["InterpretHealth"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "kinds": ["Gadget"],
    }
    hook = {"name": "a", "clientConfig": client, "rules": [rule]}
    return {
        "apiVersion": API,
        "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": [hook],
    }


async def test_present_webhooks_are_listed_before_anything_is_interpreted(
    hub: FakeApiServer,
) -> None:
    hub.seed(customization("Widget", "one"), configuration({"url": "https://example.io"}))
    async with watching(hub, []) as rules:
        scripts, webhooks = rules.levels
        assert scripts.hook(WIDGET, RETAIN) is not None
        assert scripts.hook(GADGET, RETAIN) is None
        assert webhooks.hook(GADGET, INTERPRET_HEALTH) is not None
    assert hub.asked("GET", SERVICES) == []


async def test_change_is_notified_for_the_affected_kinds(hub: FakeApiServer) -> None:
    told: list[Concerns] = []
    async with watching(hub, told) as rules:
        assert told == []
        hub.seed(customization("Widget", "one"))
        await until(lambda: len(told) == 1)
        hub.seed(configuration({"url": "https://example.io"}))
        await until(lambda: len(told) == 2)
        assert [(tell(WIDGET), tell(GADGET)) for tell in told] == [(True, False), (False, True)]
        hub.change(f"{CUSTOMIZATIONS}/widget", metadata={"name": "widget", "labels": {"a": "b"}})
        hub.remove(f"{WEBHOOKS}/hooks")
        await until(lambda: len(told) == 3)
        assert rules.levels[1].hook(GADGET, INTERPRET_HEALTH) is None
        assert (told[2](WIDGET), told[2](GADGET)) == (False, True)


@pytest.mark.parametrize("path", [CUSTOMIZATIONS, WEBHOOKS])
async def test_a_missing_right_is_said_with_the_rule_to_add_and_holds_up_nothing(
    hub: FakeApiServer, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    hub.seed(customization("Widget", "one"), configuration({"url": "https://example.io"}))
    hub.fail(403, "Forbidden", method="GET", path=path, times=99)
    with caplog.at_level(logging.WARNING):
        async with watching(hub, []) as rules:
            found = [
                rules.levels[0].hook(WIDGET, RETAIN),
                rules.levels[1].hook(GADGET, INTERPRET_HEALTH),
            ]
    assert [hook is None for hook in found] == [path == CUSTOMIZATIONS, path == WEBHOOKS]
    rules_told = [getattr(record, "rule", None) for record in caplog.records]
    resource = path.rpartition("/")[2]
    assert (
        f"{{apiGroups: [config.karmada.io], resources: [{resource}], verbs: [get, list, watch]}}"
        in rules_told
    )


async def test_services_are_read_only_when_a_webhook_names_one(hub: FakeApiServer) -> None:
    async with watching(hub, []):
        await asyncio.sleep(1.0)
        assert not hub.asked("GET", SERVICES)
        hub.seed(configuration({"service": {"namespace": "ops", "name": "hook"}}))
        await until(lambda: hub.asked("GET", SERVICES))


async def test_services_that_may_not_be_read_are_said(
    hub: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    hub.fail(403, "Forbidden", method="GET", path=SERVICES, times=99)
    hub.seed(configuration({"service": {"namespace": "ops", "name": "hook"}}))
    with caplog.at_level(logging.WARNING):
        async with watching(hub, []):
            await until(lambda: any(hasattr(record, "rule") for record in caplog.records))
    told = [record.rule for record in caplog.records if hasattr(record, "rule")]
    assert told == ['{apiGroups: [""], resources: [services], verbs: [list, watch]}']


async def test_hub_without_the_kinds_is_no_reason_to_wait_and_they_count_once_they_come(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    told: list[Concerns] = []
    services = Served("v1", "services", "Service")
    leases = Served("coordination.k8s.io/v1", "leases", "Lease")
    async with FakeApiServer((services, leases)) as hub:
        async with asyncio.timeout(5.0), watching(hub, told) as rules:
            assert caplog.text.count("Waiting to watch") == 2
            hub.storage.served = [
                Served(
                    API,
                    "resourceinterpretercustomizations",
                    "ResourceInterpreterCustomization",
                    namespaced=False,
                )
            ]
            hub.seed(customization("Widget", "late"))
            async with asyncio.timeout(60.0):
                await until(lambda: told)
            assert rules.levels
        assert "it may not be read" not in caplog.text


async def test_rules_that_the_hub_served_stay_while_it_does_not(hub: FakeApiServer) -> None:
    told: list[Concerns] = []
    hub.seed(customization("Widget", "one"))
    async with watching(hub, told) as rules:
        await until(lambda: told)
        hub.storage.served = [each for each in hub.storage.served if each.api_version != API]
        hub.end_watches()
        path = f"/apis/{API}/resourceinterpretercustomizations"
        await until(lambda: len(hub.asked("GET", path)) > 3)
        assert [len(store) for store in rules.stores] == [1, 0]
