"""OfflineServing: what is put into the stores, when, and what the hub's list makes of it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from karmada_vc_agent.features.checkpoint import entries, feature
from karmada_vc_agent.features.checkpoint.entries import (
    CLUSTER,
    RULES,
    RULES_KEY,
    Reason,
    head_key,
)
from karmada_vc_agent.features.checkpoint.feature import OfflineServing
from karmada_vc_agent.features.checkpoint.reader import Saved, read
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner.hub_presence import PATIENCE_S
from karmada_vc_agent.work.works import Works, new_store
from tests.unit.features.checkpoint.scene import cluster, entry, expected, header, secret, work

LONG_S = feature.LISTS_S + 5.0


class Hub:
    """What the reflectors of a hub feed, and what is told of it."""

    def __init__(self, saved: Saved, *, is_away: bool = True) -> None:
        self.clusters: Store[Object] = Store(RawCodec())
        self.works = new_store(RawCodec())
        self.answered_at: float | None = None
        self.failing_s: dict[str, float] = {}
        self.told: list[tuple[str | None, str | None]] = []
        self.known = 0
        self.works.add_handler(lambda old, new: self.told.append((_spec(old), _spec(new))))
        self.offline = OfflineServing(
            saved,
            self.clusters,
            Works({"a": self.works}),
            (),
            lambda: self.answered_at,
            is_away=is_away,
            failing_s=lambda what: self.failing_s.get(what, 0.0),
            clock=asyncio.get_running_loop().time,
        )
        self.offline.on_hub_answer = self._count

    def _count(self) -> None:
        self.known += 1

    def names(self) -> list[str]:
        return sorted(obj["metadata"]["name"] for obj in (*self.clusters, *self.works))


def _spec(obj: Object | None) -> str | None:
    return None if obj is None else str(obj["metadata"].get("resourceVersion"))


@pytest.fixture
async def tasks() -> AsyncIterator[list[asyncio.Task[None]]]:
    running: list[asyncio.Task[None]] = []
    yield running
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def start(tasks: list[asyncio.Task[None]], **more: Any) -> Hub:
    hub = Hub(read([secret()], expected()), **more)
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    await asyncio.sleep(1.0)
    return hub


async def test_all_is_there_at_once_while_the_hub_is_away(tasks: list[asyncio.Task[None]]) -> None:
    hub = await start(tasks)
    assert hub.names() == ["a", "one"]
    assert hub.offline.is_fencing
    assert not hub.works.is_synced
    at = hub.offline.as_of("a")
    assert at is not None
    assert at.isoformat() == "2026-05-01T10:00:00+00:00"


async def test_unusable_rules_are_reported_once(
    tasks: list[asyncio.Task[None]], caplog: pytest.LogCaptureFixture
) -> None:
    torn = entries.encode(header(RULES, cluster="", uid=""), [b"torn"])
    hub = Hub(read([secret(**{RULES_KEY: torn})], expected()))
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    await asyncio.sleep(1.0)
    assert hub.names() == ["a", "one"], "the rest is served"
    (told,) = [each for each in caplog.records if each.message == "Not using the checkpoint"]
    assert told.__dict__["entry"] == RULES_KEY


async def test_a_hub_that_answers_is_waited_for(tasks: list[asyncio.Task[None]]) -> None:
    hub = await start(tasks, is_away=False)
    assert hub.names() == []
    await asyncio.sleep(LONG_S)
    assert hub.names() == ["a", "one"]


async def test_a_hub_that_answers_again_is_waited_for(tasks: list[asyncio.Task[None]]) -> None:
    hub = Hub(read([secret()], expected()))
    hub.answered_at = asyncio.get_running_loop().time() + 0.1
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    await asyncio.sleep(1.0)
    assert hub.names() == []


async def test_a_hub_that_answers_and_does_not_list_is_not_waited_for(
    tasks: list[asyncio.Task[None]],
) -> None:
    hub = await start(tasks, is_away=False)
    hub.failing_s[""] = PATIENCE_S / 2
    await asyncio.sleep(1.0)
    assert hub.names() == [], "it may be a moment"
    hub.failing_s[""] = PATIENCE_S
    await asyncio.sleep(1.0)
    assert hub.names() == ["a"], "its Works may still come"
    hub.failing_s["a"] = PATIENCE_S
    await asyncio.sleep(1.0)
    assert hub.names() == ["a", "one"]


async def test_an_answer_that_is_no_list_does_not_count_as_one_of_the_hub(
    tasks: list[asyncio.Task[None]],
) -> None:
    hub = Hub(read([secret()], expected()))
    hub.answered_at = asyncio.get_running_loop().time() + 0.1
    hub.failing_s[""] = 0.1
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    await asyncio.sleep(1.0)
    assert hub.names() == ["a", "one"]


async def test_a_hub_that_answered_before_it_was_away_is_not_waited_for(
    tasks: list[asyncio.Task[None]],
) -> None:
    hub = Hub(read([secret()], expected()))
    hub.answered_at = asyncio.get_running_loop().time() - 5.0
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    await asyncio.sleep(1.0)
    assert hub.names() == ["a", "one"]


async def test_first_list_replaces_it_and_reports_all(tasks: list[asyncio.Task[None]]) -> None:
    hub = await start(tasks)
    hub.told.clear()
    hub.clusters.replace_all([cluster()], "50")
    hub.works.replace_all([work(), work("two")], "50")
    assert hub.told == [("None", "12"), (None, "12")]
    stored = hub.works.get("karmada-es-a", "one")
    assert stored is not None
    assert "status" in stored
    await asyncio.sleep(1.0)
    assert hub.known == 1
    assert not hub.offline.is_fencing
    assert hub.offline.as_of("a") is None
    assert tasks[0].done()


async def test_works_wait_for_their_own_list(tasks: list[asyncio.Task[None]]) -> None:
    hub = await start(tasks, is_away=False)
    hub.clusters.replace_all([cluster()], "50")
    await asyncio.sleep(LONG_S)
    assert hub.names() == ["a", "one"]
    assert not hub.offline.is_fencing
    assert hub.offline.as_of("a") is not None


async def test_works_wait_while_the_hub_lists_those_of_others(
    tasks: list[asyncio.Task[None]],
) -> None:
    heads = {head_key(name): entry(CLUSTER, cluster(name), cluster=name, parts=1) for name in "bc"}
    saved = read([secret(**heads)], expected(uids=dict.fromkeys("abc", "uid-a")))
    hub = Hub(saved, is_away=False)
    hub.clusters.replace_all([cluster(name) for name in "abc"], "50")
    others = {name: Store[Object](RawCodec()) for name in "bc"}
    hub.offline.works = Works({"a": hub.works, **others})
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    for listed in (*others.values(), None):
        await asyncio.sleep(feature.LISTS_S * 0.7)
        assert hub.names() == ["a", "b", "c"], "the hub lists, one after another"
        if listed is not None:
            listed.replace_all([], "50")
    await asyncio.sleep(feature.LISTS_S * 0.4)
    assert hub.names() == ["a", "b", "c", "one"]


async def test_works_do_not_wait_for_ever_for_a_hub_that_lists_slowly(
    tasks: list[asyncio.Task[None]],
) -> None:
    names = [f"c{number:02}" for number in range(20)]
    heads = {head_key(each): entry(CLUSTER, cluster(each), cluster=each, parts=1) for each in names}
    saved = read([secret(**heads)], expected(uids=dict.fromkeys(("a", *names), "uid-a")))
    hub = Hub(saved, is_away=False)
    hub.clusters.replace_all([cluster(name) for name in ("a", *names)], "50")
    others = {name: Store[Object](RawCodec()) for name in names}
    hub.offline.works = Works({"a": hub.works, **others})
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    waited_s = 0.0
    for store in others.values():
        await asyncio.sleep(step_s := feature.LISTS_S * 0.9)
        waited_s += step_s
        store.replace_all([], "50")
        assert ("one" in hub.names()) == (waited_s > feature.ALL_LISTS_S), waited_s


async def test_works_of_another_cluster_are_refused(tasks: list[asyncio.Task[None]]) -> None:
    hub = await start(tasks, is_away=False)
    hub.clusters.replace_all([cluster(uid="another")], "50")
    await asyncio.sleep(LONG_S)
    assert hub.names() == ["a"]
    assert hub.offline.saved.refusals["a"].reason is Reason.CLUSTER


async def test_another_hub_takes_it_away(tasks: list[asyncio.Task[None]]) -> None:
    hub = await start(tasks)
    hub.offline.hub_identified("hub-2")
    assert hub.clusters.get("", "a") is None
    assert hub.offline.saved.refusals["a"].reason is Reason.HUB
    assert hub.offline.is_fencing, "nothing is written to a hub that has told nothing"


async def test_the_same_hub_leaves_it(tasks: list[asyncio.Task[None]]) -> None:
    hub = await start(tasks)
    hub.offline.hub_identified("hub-1")
    hub.offline.hub_identified("")
    assert hub.names() == ["a", "one"]


async def test_listed_cluster_is_not_filled_from_the_checkpoint(
    tasks: list[asyncio.Task[None]],
) -> None:
    hub = Hub(read([secret()], expected()))
    hub.clusters.replace_all([], "50")
    hub.works.replace_all([], "50")
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    await asyncio.sleep(LONG_S)
    assert hub.names() == []
    assert not hub.offline.is_fencing


async def test_nothing_is_fenced_without_a_checkpoint(tasks: list[asyncio.Task[None]]) -> None:
    hub = Hub(read([{}], expected()))
    tasks.append(asyncio.ensure_future(hub.offline.run()))
    await asyncio.sleep(LONG_S)
    assert hub.names() == []
    assert not hub.offline.is_fencing


async def test_the_fence_is_lifted_also_if_all_that_was_served_is_dropped_meanwhile(
    tasks: list[asyncio.Task[None]],
) -> None:
    hub = await start(tasks)
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    hub.offline.hub_identified("another")
    hub.clusters.replace_all([], "100")
    await hub.offline.run()
    assert not hub.offline.is_fencing
    assert hub.known == 1
