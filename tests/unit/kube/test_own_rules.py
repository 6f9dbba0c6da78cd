"""is_allowed_by_rules: one list of rules for many needs, and reviews of what it does not say."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from karmada_vc_agent.kube.discovery import (
    RULES_FOR_S,
    SELF_ACCESS_REVIEWS_PATH,
    SELF_RULES_REVIEWS_PATH,
    is_allowed_by_rules,
)
from karmada_vc_agent.kube.errors import Need
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer, written
from tests.fakes.virtual_time import let_others_run

NEED = Need("patch", "cluster.karmada.io", "clusters/status", name="branch-a")
RULE = {
    "verbs": ["patch"],
    "apiGroups": ["cluster.karmada.io"],
    "resources": ["clusters/status"],
    "resourceNames": ["branch-a", "branch-b"],
}


def lists(hub: FakeApiServer, rules: Any) -> None:
    hub.answer(written({"status": {"resourceRules": rules}}), 201, path=SELF_RULES_REVIEWS_PATH)


def refuses(hub: FakeApiServer) -> None:
    hub.answer(b'{"status": {"allowed": false}}', 201, path=SELF_ACCESS_REVIEWS_PATH, times=99)


def reviews(hub: FakeApiServer) -> list[int]:
    """Return how many lists of rules were requested, and how many reviews of one need."""
    paths = (SELF_RULES_REVIEWS_PATH, SELF_ACCESS_REVIEWS_PATH)
    return [len(hub.asked("POST", path)) for path in paths]


async def test_many_needs_are_one_request(hub: FakeApiServer) -> None:
    client = hub.client("hub")
    lists(hub, [RULE])
    refuses(hub)
    needs = [replace(NEED, name=name) for name in RULE["resourceNames"]]
    assert all(await asyncio.gather(*(is_allowed_by_rules(client, need) for need in needs)))
    assert reviews(hub) == [1, 0]
    await asyncio.sleep(RULES_FOR_S + 1)
    assert not await is_allowed_by_rules(client, NEED), "the right was revoked"
    assert reviews(hub) == [2, 1]


async def test_needs_are_not_answered_one_after_the_other(
    hub: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, listed, passes = hub.client("hub"), asyncio.Event(), 0

    async def create(*_: object) -> Object:
        await listed.wait()
        return {"status": {"resourceRules": [{**RULE, "resourceNames": []}]}}

    monkeypatch.setattr(client, "create", create)
    answers = [asyncio.ensure_future(is_allowed_by_rules(client, NEED)) for _ in range(300)]
    await let_others_run()
    listed.set()
    while not all(task.done() for task in answers):
        await asyncio.sleep(0)
        passes += 1
    assert all(task.result() for task in answers)
    assert passes < 10


@pytest.mark.parametrize("everything", ["verbs", "apiGroups", "resources"])
async def test_rule_for_everything_is_one(hub: FakeApiServer, everything: str) -> None:
    lists(hub, [{**RULE, everything: ["*"], "resourceNames": []}])
    refuses(hub)
    assert await is_allowed_by_rules(hub.client("hub"), NEED)


@pytest.mark.parametrize(
    "rules",
    [
        None,
        7,
        [[]],
        [{"verbs": 7}],
        [{**RULE, "resourceNames": ["branch-b"]}],
        [{**RULE, "verbs": ["get"]}],
        [{**RULE, "resources": ["clusters"]}],
    ],
)
async def test_what_no_rule_grants_is_reviewed(hub: FakeApiServer, rules: Any) -> None:
    lists(hub, rules)
    refuses(hub)
    assert not await is_allowed_by_rules(hub.client("hub"), NEED)
    assert reviews(hub) == [1, 1]


async def test_server_that_lists_no_rules_reviews_each_need(hub: FakeApiServer) -> None:
    hub.fail(403, "Forbidden", path=SELF_RULES_REVIEWS_PATH)
    hub.answer(b'{"status": {"allowed": true}}', 201, path=SELF_ACCESS_REVIEWS_PATH)
    assert await is_allowed_by_rules(hub.client("hub"), NEED)
