"""Sources: a change enqueues keys, or retries those that wait for it."""

import asyncio
from collections.abc import Hashable, Iterator

import pytest

from karmada_vc_agent.kube.controller import Enqueues, Retries, Signal, WorkQueue

Key = tuple[str, str]


def new_queue() -> WorkQueue[Key]:
    return WorkQueue(lambda key: key[0], base_delay_s=1000.0, max_delay_s=1000.0)


async def ready(queue: WorkQueue[Key]) -> list[Key]:
    found = []
    while len(queue):
        key = await queue.take()
        assert key is not None
        found.append(key)
    return found


async def test_change_enqueues_its_keys() -> None:
    queue, told = new_queue(), Signal[[str, int]]()

    def keys(cluster: str, count: int) -> Iterator[Key]:
        return ((cluster, str(number)) for number in range(count))

    Enqueues(told.subscribe, keys).connect(queue)
    told.emit("a", 2)
    told.emit("b", 0)
    assert await ready(queue) == [("a", "0"), ("a", "1")]


async def test_changes_settle_before_their_key_is_ready() -> None:
    queue, told = new_queue(), Signal[[str]]()
    Enqueues(told.subscribe, lambda name: [(name, "x")], after_s=5.0).connect(queue)
    told.emit("a")
    assert await ready(queue) == []
    await asyncio.sleep(5.1)
    assert await ready(queue) == [("a", "x")]


async def test_change_retries_the_keys_of_its_groups() -> None:
    queue, told = new_queue(), Signal[[set[Hashable]]]()
    retries: Retries[Key] = Retries(told.subscribe)
    retries.connect(queue)
    for key in (("a", "1"), ("b", "1")):
        queue.add_rate_limited(key)
    told.emit({"a"})
    assert await ready(queue) == [("a", "1")]


async def test_change_retries_what_waits_for_it_or_nothing() -> None:
    queue, told = new_queue(), Signal[[set[Hashable]]]()
    retries: Retries[Key] = Retries(told.subscribe)
    retries.connect(queue)
    keys: dict[Hashable, Key] = {"hook": ("a", "1"), "kind": ("b", "1")}
    for dependency, key in keys.items():
        queue.wait_for(key, [dependency])
    told.emit(set())
    assert await ready(queue) == []
    told.emit({"kind"})
    assert await ready(queue) == [("b", "1")]


async def test_thousand_changes_a_second_retry_a_key_twice_a_second() -> None:
    queue, told = new_queue(), Signal[[set[Hashable]]]()
    retries: Retries[Key] = Retries(told.subscribe)
    retries.connect(queue)
    refused, neighbour = ("a", "1"), ("b", "1")
    for key in (refused, neighbour):
        queue.rest(key, ["namespace"] if key == refused else [])
    retried = []
    for _ in range(10_000):
        told.emit({"a"})
        for key in await ready(queue):
            retried.append(key)
            queue.done(key)
            queue.rest(key, ["namespace"])
        await asyncio.sleep(0.001)
    assert set(retried) == {refused}
    assert 18 <= len(retried) <= 22
    told.emit({"namespace"})
    await asyncio.sleep(0.5)
    assert await ready(queue) == [refused], "the last change is not lost"


def test_handler_that_fails_costs_no_other() -> None:
    told, heard = Signal[[str]](), []
    told.subscribe(lambda name: heard.append(name[1]))
    told.subscribe(heard.append)
    with pytest.raises(IndexError):
        told.emit("")
    assert heard == [""]
