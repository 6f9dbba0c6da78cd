"""WorkQueue: changes before the backlog of first lists and resyncs, which does not starve."""

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import (
    LOW_EVERY,
    Controller,
    ControllerSpec,
    Requeue,
    WorkQueue,
)
from karmada_vc_agent.kube.flows import low_priority
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.fakes.virtual_time import VirtualTimeLoop
from tests.unit.kube.queue_steps import take, work_off


def new_queue(at_once: int = 0) -> WorkQueue[str]:
    """Return a queue whose keys are grouped by their first letter."""
    return WorkQueue(lambda key: key[0], 1.0, 10.0, at_once=at_once)


def add_backlog(queue: WorkQueue[str], *keys: str, after_s: float = 0.0) -> None:
    with low_priority():
        for key in keys:
            queue.add_after(key, after_s)


def named(group: str, count: int) -> list[str]:
    return [f"{group}{number}" for number in range(count)]


async def test_change_is_before_the_backlog_of_its_group_and_of_others() -> None:
    queue = new_queue()
    add_backlog(queue, "a1", "a2", "b1")
    queue.add("c1")
    queue.add("a9")
    assert await work_off(queue) == ["c1", "a9", "a1", "b1", "a2"]


async def test_groups_alternate_within_each_priority() -> None:
    queue = new_queue()
    add_backlog(queue, *named("a", 3), *named("b", 2))
    for key in ("x1", "x2", "x3", "y1"):
        queue.add(key)
    changed, backlog = ["x1", "y1", "x2", "x3"], ["a0", "b0", "a1", "b1", "a2"]
    assert await work_off(queue) == changed + backlog


async def test_one_of_so_many_is_of_the_backlog_however_much_changes() -> None:
    queue = new_queue()
    add_backlog(queue, *named("a", 10))
    taken = []
    for number in range(10 * LOW_EVERY):
        queue.add(f"b{number}")
        queue.add(f"a{100 + number}")
        queue.done(key := await take(queue))
        taken.append(key)
    assert taken[LOW_EVERY - 1 :: LOW_EVERY] == named("a", 10)


async def test_backlog_of_each_group_has_its_share_of_that() -> None:
    queue = new_queue()
    add_backlog(queue, *named("a", 100), "b0")
    for number in range(3 * LOW_EVERY):
        queue.add(f"c{number}")
    taken = [await take(queue) for _ in range(2 * LOW_EVERY)]
    assert [key for key in taken if key[0] != "c"] == ["a0", "b0"]


async def test_changes_do_not_starve_the_backlog_of_their_group_while_others_have_one() -> None:
    queue = new_queue(at_once=1)
    add_backlog(queue, *named("a", 2), *named("b", 100))
    taken = []
    for number in range(2 * LOW_EVERY):
        queue.add(f"a{10 + number}")
        both = [await take(queue) for _ in range(2)]
        taken.append(both[0])
        for key in both:
            queue.done(key)
    assert taken[LOW_EVERY - 1 :: LOW_EVERY] == named("a", 2)


async def test_backlog_has_workers_that_changed_groups_may_not_use() -> None:
    queue = new_queue(at_once=1)
    add_backlog(queue, "a1", "b1")
    queue.add("a2")
    queue.add("a3")
    assert [await take(queue) for _ in range(2)] == ["a2", "b1"]


@pytest.mark.parametrize("after_s", [0.0, 5.0])
async def test_key_of_the_backlog_that_changes_is_lifted(after_s: float) -> None:
    queue = new_queue()
    add_backlog(queue, "a1", "a2", after_s=after_s)
    queue.add("a2")
    await asyncio.sleep(2 * after_s)
    assert await work_off(queue) == ["a2", "a1"]


async def test_key_that_changed_is_not_lowered_by_a_resync() -> None:
    queue = new_queue()
    queue.add("a1")
    queue.add_after("a2", 1.0)
    queue.add_rate_limited("a3")
    add_backlog(queue, "a0", "a1", "a2", "a3")
    assert await work_off(queue) == ["a1", "a2", "a3", "a0"]


async def test_key_of_the_backlog_changed_while_it_is_processed_is_lifted() -> None:
    queue = new_queue()
    add_backlog(queue, "a1", "a2")
    key = await take(queue)
    queue.add("a1")
    queue.done(key)
    assert await work_off(queue) == ["a1", "a2"]


async def test_key_of_the_backlog_that_fails_stays_in_it() -> None:
    queue = new_queue()
    add_backlog(queue, "a1", "a2")
    for key in [await take(queue) for _ in range(2)]:
        queue.wait_for(key, ["host"])
        queue.done(key)
    queue.changed(["host"])
    queue.add("a3")
    assert await work_off(queue) == ["a3", "a1", "a2"]


async def test_failing_key_of_the_backlog_that_changes_is_lifted_for_good() -> None:
    queue = new_queue()
    add_backlog(queue, "a1", "a2")
    queue.add_rate_limited(await take(queue))
    queue.done("a1")
    queue.add("a1")
    queue.add_rate_limited(await take(queue))
    queue.done("a1")
    await asyncio.sleep(5.0)
    assert await work_off(queue) == ["a1", "a2"]


async def test_what_is_done_now_and_then_does_not_precede_what_never_was() -> None:
    queue, done = WorkQueue[str](lambda key: key, at_once=1), list[str]()

    async def reconcile(key: str) -> Requeue:
        await asyncio.sleep(0.3)
        done.append(key)
        return Requeue(1.0)

    add_backlog(queue, *named("a", 20))
    task = asyncio.ensure_future(Controller(ControllerSpec("a", queue, reconcile)).run())
    await asyncio.sleep(20 * 0.3 + 0.1)
    queue.add("a9")
    await asyncio.sleep(2 * 0.3)
    task.cancel()
    assert done == [*named("a", 20), "a0", "a9"]


@pytest.mark.parametrize("after_s", [0.0, 0.5])
async def test_key_that_changed_while_it_was_processed_is_not_requeued_as_backlog(
    after_s: float,
) -> None:
    queue = new_queue()
    add_backlog(queue, "a1", "a2")
    key = await take(queue)
    queue.add_after(key, after_s)
    queue.requeue_after(key, 1.0)
    queue.done(key)
    await asyncio.sleep(after_s)
    assert await work_off(queue) == ["a1", "a2"]


async def test_key_is_of_the_backlog_once() -> None:
    queue = new_queue()
    add_backlog(queue, "a1")
    assert queue.is_low("a1")
    await work_off(queue)
    assert not queue.is_low("a1")
    add_backlog(queue, "a2")
    queue.add("a1")
    assert await work_off(queue) == ["a1", "a2"]


async def test_keys_that_wait_are_reported_whatever_their_priority() -> None:
    queue = new_queue()
    add_backlog(queue, "a1", "a2", "b1")
    queue.add("a3")
    waiting = queue.waiting()
    assert len(queue) == 4
    assert {group: count for group, (count, _) in waiting.items()} == {"a": 3, "b": 1}


def _store_of(queue: WorkQueue[str]) -> Store[Object]:
    store: Store[Object] = Store(RawCodec())
    store.add_handler(lambda old, new: queue.add((new or old or {})["metadata"]["name"]))
    return store


def _named(name: str, version: int) -> Object:
    about = {"namespace": "n", "name": name, "uid": name}
    return {"metadata": {**about, "resourceVersion": f"{version}"}}


async def test_first_list_is_a_backlog_but_for_what_changed_since_this_process_began() -> None:
    queue = new_queue()
    store = _store_of(queue)
    store.begun_at = "20"
    store.replace_all([_named("a1", 9), _named("a2", 20), _named("a3", 21)], "30")
    store.replace_all([_named("a1", 9), _named("a2", 20), _named("a4", 12)], "31")
    assert not flows.is_low_priority()
    assert await work_off(queue) == ["a3", "a4", "a1", "a2"]


async def test_what_an_earlier_process_had_listed_is_a_backlog() -> None:
    queue = new_queue()
    store = _store_of(queue)
    store.seed([_named("a1", 9)])
    queue.add("a2")
    assert await work_off(queue) == ["a2", "a1"]


async def _list(client: ApiClient, path: str, store: Store[Object]) -> None:
    reflector = Reflector(client, path, store.codec, store)
    task = asyncio.ensure_future(reflector.run())
    await reflector.wait_synced()
    task.cancel()


@pytest.mark.parametrize("was_reset", [False, True])
async def test_later_first_lists_are_compared_to_the_first_list_of_the_server(
    *, was_reset: bool
) -> None:
    queue = new_queue()
    async with FakeApiServer() as host:
        client = host.client()
        if was_reset:
            client.history.first_version = "1000000"
            client.history.notice("it was restored from a backup")
        host.seed(objects.namespace("a1"))
        await _list(client, "/api/v1/nodes", Store(RawCodec()))
        host.seed(objects.namespace("a2"))
        await _list(client, "/api/v1/namespaces", _store_of(queue))
    assert [key for key in await work_off(queue) if key in ("a1", "a2")] == ["a2", "a1"]


_KEYS = st.sampled_from([f"{group}{number}" for group in "abc" for number in range(4)])
_STEPS = st.lists(st.tuples(st.sampled_from(("change", "resync", "take", "fail", "done")), _KEYS))


class _Model:
    """A queue, and what each step should have made of it."""

    def __init__(self) -> None:
        self.queue = new_queue()
        self.changed: set[str] = set()
        self.ready: set[str] = set()
        self.working: dict[str, bool] = {}
        self.in_a_row = 0
        self.of_group: Counter[str] = Counter()

    def change(self, key: str) -> None:
        self.queue.add(key)
        self.changed.add(key)
        self._added(key)

    def resync(self, key: str) -> None:
        add_backlog(self.queue, key)
        self._added(key)

    def _added(self, key: str) -> None:
        if key in self.working:
            self.working[key] = True
        else:
            self.ready.add(key)

    async def take(self) -> None:
        if not self.ready:
            return
        backlog, is_changed = self.ready - self.changed, self.changed & self.ready
        key = await take(self.queue)
        group, is_due = key[0], self.in_a_row == LOW_EVERY - 1
        is_of_both = group in {each[0] for each in backlog} & {each[0] for each in is_changed}
        is_own = is_of_both and self.of_group[group] == LOW_EVERY - 1 and not is_due
        assert (key in backlog) == (is_due if backlog else False) or is_own or not is_changed
        assert key in backlog or not is_own
        self.in_a_row = 0 if not backlog or (key in backlog and not is_own) else self.in_a_row + 1
        self.of_group[group] = self.of_group[group] + 1 if is_of_both and key in self.changed else 0
        self.ready.remove(key)
        self.working[key] = False

    def end(self, key: str, *, is_done: bool) -> None:
        if key not in self.working:
            return
        if is_done:
            self.queue.forget(key)
        else:
            self.queue.rest(key, ())
        self.queue.done(key)
        if self.working.pop(key):
            self.ready.add(key)
        elif is_done:
            self.changed.discard(key)

    def check(self) -> None:
        assert len(self.queue) == len(self.ready)
        here = {*self.ready, *self.working}
        assert {key for key in here if self.queue.is_low(key)} == here - self.changed


async def _play(steps: Iterable[tuple[str, str]]) -> None:
    model = _Model()
    for step, key in steps:
        match step:
            case "change":
                model.change(key)
            case "resync":
                model.resync(key)
            case "take":
                await model.take()
            case _:
                model.end(key, is_done=step == "done")
        model.check()


@given(_STEPS)
def test_random_steps(steps: list[tuple[str, str]]) -> None:
    """Nothing is lost or doubled, changes are first, and no more in a row than may be."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_play(steps))
