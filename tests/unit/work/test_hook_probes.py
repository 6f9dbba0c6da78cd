"""Webhooks that do not answer are probed beside the workers, and heard of when they do."""

import asyncio
from collections.abc import Hashable

import pytest

from karmada_vc_agent.interpretation.hook_errors import (
    HookError,
    OverrunError,
    UnreachableHookError,
)
from karmada_vc_agent.interpretation.hooks import Dependency, Hook
from karmada_vc_agent.work.hook_probes import PROBED_AT_MOST, HookProbes


class Webhook:
    """Silent for 10 s, unless it was told what to say."""

    def __init__(self) -> None:
        self.says: bool | Exception | None = None
        self.is_current = True
        self.asked: list[float] = []
        self.under_way = 0

    async def ask(self) -> bool:
        self.asked.append(asyncio.get_running_loop().time() - 1000.0)
        self.under_way += 1
        try:
            if self.says is None:
                await asyncio.sleep(10.0)
                raise OverrunError("no response within 10 s")
            if isinstance(self.says, Exception):
                raise self.says
            return self.says
        finally:
            self.under_way -= 1

    def rest(self, cluster: str = "branch-a", key: str = "hook") -> Dependency:
        async def never(*_: object) -> None:
            raise AssertionError

        hook = Hook(key, never, is_remote=True)
        return Dependency(cluster, hook, self.ask, lambda: self.is_current)


@pytest.mark.parametrize("answer", [True, False, HookError("it was not successful")])
@pytest.mark.parametrize("down_s", [1.0, 13.0, 70.0])
async def test_answer_is_heard_of_soon(answer: bool | HookError, down_s: float) -> None:
    told: list[tuple[str, Hashable, float]] = []
    loop = asyncio.get_running_loop()
    probes = HookProbes(lambda *what: told.append((*what, loop.time() - 1000.0)))
    task = asyncio.ensure_future(probes.run())
    webhook = Webhook()
    probes.probe(webhook.rest())
    await asyncio.sleep(down_s)
    assert told == []
    webhook.says = answer
    await asyncio.sleep(15.0)
    [(cluster, key, at)] = told
    assert (cluster, key) == ("branch-a", "hook")
    assert at - down_s <= max(2.1, 0.1 * down_s + 0.1)
    assert webhook.under_way == 0
    task.cancel()


async def test_silent_webhook_is_asked_less_and_less_often() -> None:
    probes = HookProbes(lambda *_: None)
    task = asyncio.ensure_future(probes.run())
    webhook = Webhook()
    for _ in range(200):
        probes.probe(webhook.rest())  # for each of its Works
    await asyncio.sleep(20.5)
    assert len(webhook.asked) <= 10
    webhook.asked.clear()
    await asyncio.sleep(1000.0)
    assert len(webhook.asked) <= 130
    assert webhook.under_way <= 4
    task.cancel()


async def test_webhook_that_is_away_is_asked_until_it_is_there() -> None:
    told: list[object] = []
    probes = HookProbes(lambda *what: told.append(what))
    task = asyncio.ensure_future(probes.run())
    webhook = Webhook()
    webhook.says = UnreachableHookError("refused")
    probes.probe(webhook.rest())
    await asyncio.sleep(5.0)
    assert told == []
    webhook.says = True
    await asyncio.sleep(2.5)
    assert told == [("branch-a", "hook")]
    task.cancel()


async def test_webhook_that_was_changed_is_probed_no_more() -> None:
    told: list[object] = []
    probes = HookProbes(lambda *what: told.append(what))
    task = asyncio.ensure_future(probes.run())
    webhook = Webhook()
    probes.probe(webhook.rest())
    await asyncio.sleep(5.0)
    webhook.is_current = False
    await asyncio.sleep(20.0)
    asked = len(webhook.asked)
    await asyncio.sleep(100.0)
    assert (len(webhook.asked), webhook.under_way, told) == (asked, 0, [])
    webhook.is_current = True
    webhook.says = True
    probes.probe(webhook.rest())
    await asyncio.sleep(3.0)
    assert told == [("branch-a", "hook")]
    task.cancel()


@pytest.mark.parametrize(("is_shared", "expected"), [(True, 128), (False, 255)])
async def test_only_so_many_of_a_virtual_cluster_are_probed(
    is_shared: bool,
    expected: int,
) -> None:
    probes = HookProbes(lambda *_: None, lambda: is_shared)
    task = asyncio.ensure_future(probes.run())
    webhooks = [Webhook() for _ in range(PROBED_AT_MOST + 10)]
    for number, webhook in enumerate(webhooks):
        probes.probe(webhook.rest(key=f"hook {number}"))
    neighbour = Webhook()
    probes.probe(neighbour.rest("branch-b"))
    await asyncio.sleep(3.0)
    assert len([webhook for webhook in webhooks if webhook.asked]) == expected
    assert neighbour.asked
    task.cancel()


async def test_a_bug_in_one_webhook_ends_no_probe_of_another() -> None:
    told: list[object] = []
    probes = HookProbes(lambda *what: told.append(what))
    task = asyncio.ensure_future(probes.run())
    faulty, sound = Webhook(), Webhook()
    faulty.says = RuntimeError("a bug")
    sound.says = UnreachableHookError("refused")
    probes.probe(faulty.rest("branch-a"))
    probes.probe(sound.rest("branch-b"))
    await asyncio.sleep(10.0)
    sound.says = True
    await asyncio.sleep(10.0)
    assert told == [("branch-a", "hook"), ("branch-b", "hook")]
    task.cancel()
