"""Reflector: the store follows the server through pages, cuts, forgotten versions, absences."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from karmada_vc_agent.kube import informers
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import is_absent
from karmada_vc_agent.kube.reflector import FIRST_PAGE, PAGE_SIZE, Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import Served
from tests.fakes.virtual_time import let_others_run

PATH = "/api/v1/configmaps"


def config_map(name: str, value: str = "1") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "edge"},
        "data": {"value": value},
    }


@asynccontextmanager
async def reflecting(
    client: ApiClient, path: str = PATH, query: dict[str, str] | None = None
) -> AsyncIterator[Store[Object]]:
    store: Store[Object] = Store(RawCodec())
    absent = partial(is_absent, client, path)
    reflector = Reflector(client, path, RawCodec(), store, query, is_absent=absent)
    task = asyncio.ensure_future(reflector.run())
    try:
        await reflector.wait_synced()
        yield store
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    """Wait, at most a few minutes of virtual time, until a condition holds."""
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(1.0)
    raise AssertionError("it did not come about")


def value_of(store: Store[Object], name: str) -> str | None:
    obj = store.get("edge", name)
    return obj["data"]["value"] if obj else None


def lists(host: FakeApiServer) -> int:
    return sum(1 for r in host.asked("GET", PATH) if not r.is_watch) - small_questions(host)


def small_questions(host: FakeApiServer) -> int:
    """Return how often the server was asked where it is."""
    return sum(1 for r in host.asked("GET", PATH) if r.query.get("limit") == "1")


def watches(host: FakeApiServer) -> list[str]:
    return [r.query["resourceVersion"] for r in host.asked("GET", PATH) if r.is_watch]


class FaultOnSecondPage:
    """Breaks off the connection of the second request, once."""

    def __init__(self, host: FakeApiServer) -> None:
        self.done = False
        host.before("GET", PATH, self._cut_next, times=1)
        self._host = host

    def _cut_next(self) -> None:
        self.done = True
        self._host.drop_next(PATH)


async def test_existing_objects_are_listed_and_added_ones_watched(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(config_map("old"))
    async with reflecting(client) as store:
        assert value_of(store, "old") == "1"
        host.seed(config_map("new"))
        await until(lambda: value_of(store, "new") == "1")
        host.seed(config_map("new", "2"))
        await until(lambda: value_of(store, "new") == "2")
        host.remove("/api/v1/namespaces/edge/configmaps/new")
        await until(lambda: value_of(store, "new") is None)
    assert lists(host) == 1


async def test_long_list_arrives_in_pages(host: FakeApiServer, client: ApiClient) -> None:
    count = 2 * PAGE_SIZE + 1
    host.seed(*(config_map(f"m{number}") for number in range(count)))
    async with reflecting(client) as store:
        assert len(store) == count
        assert all(obj["kind"] == "ConfigMap" for obj in store)
    assert lists(host) == 3


async def test_change_between_pages_is_seen_by_the_watch(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(*(config_map(f"m{number:04}") for number in range(PAGE_SIZE + 1)))
    host.before("GET", PATH, lambda: None)
    host.before("GET", PATH, lambda: host.seed(config_map("m0000", "2")), times=2)
    async with reflecting(client) as store:
        await until(lambda: value_of(store, "m0000") == "2")
        assert len(store) == PAGE_SIZE + 1


async def test_list_continues_after_an_outage_with_the_page_it_was_at(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(*(config_map(f"m{number:04}") for number in range(FIRST_PAGE + 1)))
    cut = FaultOnSecondPage(host)
    async with reflecting(client) as store:
        assert len(store) == FIRST_PAGE + 1
    asked = [r.query for r in host.asked("GET", PATH) if not r.is_watch]
    assert cut.done
    assert [("continue" in query) for query in asked] == [False, True, True]


async def test_page_that_falls_silent_is_requested_with_fewer_objects(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(*(config_map(f"m{number:04}") for number in range(FIRST_PAGE)))
    released = host.hold("GET", PATH)
    async with reflecting(client) as store:
        assert len(store) == FIRST_PAGE
    released.set()
    limits = [r.query["limit"] for r in host.asked("GET", PATH) if not r.is_watch]
    assert limits[:2] == [str(FIRST_PAGE), str(FIRST_PAGE // 2)]


async def test_list_whose_pages_expire_starts_over(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(*(config_map(f"m{number}") for number in range(PAGE_SIZE + 1)))

    def change_and_compact() -> None:
        if lists(host) == 2:
            host.seed(config_map("late"))
            host.storage.compact()

    host.before("GET", PATH, change_and_compact, times=2)
    async with reflecting(client) as store:
        assert len(store) == PAGE_SIZE + 2
    assert lists(host) == 4


async def test_watch_that_ends_is_resumed_without_a_list(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with reflecting(client) as store:
        host.seed(config_map("first"))
        await until(lambda: value_of(store, "first") == "1")
        host.end_watches()
        host.seed(config_map("second"))
        await until(lambda: value_of(store, "second") == "1")
    assert lists(host) == 1
    assert watches(host)[1] == str(host.storage.version - 1)


async def test_watch_that_breaks_off_is_resumed_without_a_list(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with reflecting(client) as store:
        with host.down():
            await asyncio.sleep(20.0)
            host.seed(config_map("meanwhile"))
        await until(lambda: value_of(store, "meanwhile") == "1")
    assert lists(host) == 1


async def test_bookmark_moves_the_version_that_a_watch_resumes_from(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with reflecting(client) as store:
        await until(lambda: len(watches(host)) == 1)
        host.storage.version += 50
        host.bookmark()
        host.storage.compact()
        await let_others_run()
        await asyncio.sleep(0.1)
        host.end_watches()
        host.seed(config_map("after"))
        await until(lambda: value_of(store, "after") == "1")
    assert lists(host) == 1


async def test_forgotten_version_leads_to_a_new_list(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(config_map("stays"), config_map("goes"))
    async with reflecting(client) as store:
        with host.down():
            host.remove("/api/v1/namespaces/edge/configmaps/goes")
            host.seed(config_map("comes"))
            host.storage.compact()
        await until(lambda: value_of(store, "comes") == "1")
        assert value_of(store, "goes") is None
        assert value_of(store, "stays") == "1"
    assert lists(host) == 2


async def test_watch_refused_with_410_leads_to_a_new_list(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.before("GET", PATH, lambda: host.fail(410, "Gone"))
    async with reflecting(client) as store:
        await until(lambda: lists(host) == 2)
        host.seed(config_map("new"))
        await until(lambda: value_of(store, "new") == "1")


async def test_error_event_that_is_no_410_resumes_the_watch(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with reflecting(client) as store:
        await until(lambda: len(watches(host)) == 1)
        host.watch_error(500, "InternalError")
        await until(lambda: len(watches(host)) == 2)
        host.seed(config_map("new"))
        await until(lambda: value_of(store, "new") == "1")
    assert lists(host) == 1


async def test_unserved_resource_is_empty_and_requested_again(
    host: FakeApiServer, client: ApiClient
) -> None:
    path = "/apis/example.com/v1/widgets"
    async with reflecting(client, path) as store:
        assert store.is_synced
        assert len(store) == 0
        host.storage.served.append(Served("example.com/v1", "widgets", "Widget", is_custom=True))
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        host.seed({**widget, "metadata": {"name": "w", "namespace": "edge"}})
        await until(lambda: len(store) == 1)


async def test_resource_that_is_served_no_more_is_empty(
    host: FakeApiServer, client: ApiClient
) -> None:
    path = "/apis/kinds.example.org/v1/widgets"
    host.storage.served.append(Served("kinds.example.org/v1", "widgets", "Widget", is_custom=True))
    widget = {"apiVersion": "kinds.example.org/v1", "kind": "Widget"}
    host.seed({**widget, "metadata": {"name": "w", "namespace": "edge"}})
    async with reflecting(client, path) as store:
        host.storage.served.pop()
        host.end_watches()
        await until(lambda: len(store) == 0)


async def test_waiting_for_a_server_that_is_away_at_the_start(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(config_map("web"))
    host.fail(500, times=3)
    async with reflecting(client) as store:
        assert value_of(store, "web") == "1"


async def test_pauses_grow_while_the_server_refuses(host: FakeApiServer, client: ApiClient) -> None:
    host.fail(403, "Forbidden", times=1_000)
    store: Store[Object] = Store(RawCodec())
    task = asyncio.ensure_future(Reflector(client, PATH, RawCodec(), store).run())
    await asyncio.sleep(100.0)
    task.cancel()
    asked = len(host.requests)
    assert 12 <= asked <= 30  # about six pauses that double, then 5 to 10 s each
    assert not store.is_synced


async def test_refusal_is_logged_once(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    host.fail(403, "Forbidden", times=5, message="no right to list configmaps")
    async with reflecting(client):
        pass
    said = [(r.message, r.__dict__["reason"]) for r in caplog.records]
    assert said == [("Waiting to watch", "no right to list configmaps")]


async def test_selector_is_part_of_list_and_watch(host: FakeApiServer, client: ApiClient) -> None:
    labelled = config_map("mine")
    labelled["metadata"]["labels"] = {"team": "red"}
    host.seed(labelled, config_map("other"))
    async with reflecting(client, query={"labelSelector": "team"}) as store:
        assert [obj["metadata"]["name"] for obj in store] == ["mine"]
        host.seed({**labelled, "metadata": {**labelled["metadata"], "labels": {}}})
        await until(lambda: len(store) == 0)


async def test_missing_first_lists_are_named_and_waited_for(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    store: Store[Object] = Store(RawCodec())
    there = Reflector(client, PATH, RawCodec(), store)
    late = Reflector(client, "/api/v1/pods", RawCodec(), Store(RawCodec()))
    released = host.hold("GET", "/api/v1/pods")
    tasks = [asyncio.ensure_future(reflector.run()) for reflector in (there, late)]
    waiting = asyncio.ensure_future(informers.wait_all_synced([there, late], 20.0))
    await asyncio.sleep(15.0)
    assert informers.unlisted_paths([there, late]) == ["/api/v1/pods"]
    assert "Waiting for the first lists" not in caplog.messages
    await asyncio.sleep(10.0)
    assert caplog.messages.count("Waiting for the first lists") == 1
    assert not waiting.done()
    released.set()
    await waiting
    assert informers.unlisted_paths([there, late]) == []
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- time goes back ---------------------------------------------------------------------------


def change(host: FakeApiServer, name: str, value: str) -> None:
    host.change(f"/api/v1/namespaces/edge/configmaps/{name}", data={"value": value})


async def test_rolled_back_server_is_listed_after_a_silent_watch(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(config_map("kept"), config_map("changed"))
    backup = host.storage.backup()
    async with reflecting(client) as store:
        change(host, "changed", "2")
        host.seed(config_map("lost"))
        await until(lambda: value_of(store, "lost") == "1")
        host.storage.restore(backup)
        # The watch lives on: the server simply never comes to the version it was asked from.
        await until(lambda: value_of(store, "lost") is None)
        assert value_of(store, "changed") == "1"
        assert value_of(store, "kept") == "1"
        host.seed(config_map("new"))
        await until(lambda: value_of(store, "new") == "1")


async def test_server_rolled_back_while_away_is_listed_when_it_is_back(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(config_map("changed"))
    backup = host.storage.backup()
    async with reflecting(client) as store:
        change(host, "changed", "2")
        await until(lambda: value_of(store, "changed") == "2")
        with host.down():
            await asyncio.sleep(5.0)
            host.storage.restore(backup)
        for _ in range(20):
            await asyncio.sleep(1.0)
        assert value_of(store, "changed") == "1"


async def test_objects_older_than_cached_are_believed_despite_grown_versions(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(config_map("changed"))
    backup = host.storage.backup()
    async with reflecting(client) as store:
        change(host, "changed", "2")
        await until(lambda: value_of(store, "changed") == "2")
        with host.down():
            host.storage.restore(backup)
            host.seed(*(config_map(f"m{n}") for n in range(5)))
            host.storage.compact()
        await until(lambda: value_of(store, "changed") == "1")
    assert client.history.time_resets == 1


async def test_all_that_watch_a_server_look_again_when_one_of_them_sees_it(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with reflecting(client) as store:
        host.seed(config_map("known"))
        await until(lambda: value_of(store, "known") == "1")
        before = lists(host)
        client.history.notice("as the test wants")
        assert client.history.is_in_doubt
        await until(lambda: lists(host) == before + 1)
        await until(lambda: lists(host) == before + 2)  # the second look, after a pause
        await until(lambda: not client.history.is_in_doubt)
        host.seed(config_map("new"))
        await until(lambda: value_of(store, "new") == "1")


async def test_doubt_lasts_until_the_server_was_looked_at_twice(
    host: FakeApiServer, client: ApiClient
) -> None:
    settled: list[bool] = []
    client.history.settled.subscribe(lambda: settled.append(True))
    async with reflecting(client):
        client.history.notice("as the test wants")
        await asyncio.sleep(1.0)
        with host.down():
            await asyncio.sleep(60.0)
            assert client.history.is_in_doubt
        await until(lambda: not client.history.is_in_doubt)
    assert settled == [True]


async def test_quiet_server_that_is_well_costs_one_small_question_for_each_silent_watch(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(config_map("web"))
    async with reflecting(client) as store:
        await asyncio.sleep(1000.0)
        assert lists(host) == 1
        assert small_questions(host) <= len(watches(host)) <= 8
        assert value_of(store, "web") == "1"
    assert client.history.time_resets == 0


async def test_watch_that_sent_an_event_is_resumed_without_a_list(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with reflecting(client) as store:
        for number in range(3):
            host.seed(config_map(f"m{number}"))
            await until(lambda number=number: value_of(store, f"m{number}") == "1")  # type: ignore[misc]
            host.end_watches()
        await asyncio.sleep(1.0)
    assert small_questions(host) == 0


async def test_resource_that_returns_later_than_the_others_is_no_new_evidence(
    host: FakeApiServer, client: ApiClient
) -> None:
    """The parts of a restored server do not all answer at once."""
    host.seed(config_map("old"))
    backup = host.storage.backup()
    async with reflecting(client) as store:
        host.seed(config_map("lost"))
        await until(lambda: value_of(store, "lost") == "1")
        host.storage.restore(backup)
        with host.down():
            client.history.notice("somebody else saw it")
            await asyncio.sleep(30.0)
        await until(lambda: value_of(store, "lost") is None)
        await until(lambda: not client.history.is_in_doubt)
    assert client.history.time_resets == 1


async def test_event_with_a_lower_version_leads_to_a_new_list(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(config_map("old"))
    async with reflecting(client) as store:
        host.storage.version = 3  # what it tells next is lower than its list was
        host.seed(config_map("new"))
        await until(lambda: lists(host) == 2)
        assert value_of(store, "new") == "1"
    assert client.history.time_resets == 1


@pytest.mark.parametrize(("code", "is_stored", "counts"), [
    (401, False, False), (401, True, False), (403, True, False), (403, False, True),
])  # fmt: skip
async def test_refusal_does_not_verify_the_cached_objects(
    host: FakeApiServer, client: ApiClient, code: int, *, is_stored: bool, counts: bool
) -> None:
    if is_stored:
        host.seed(config_map("known"))
    async with reflecting(client):
        host.fail(code, "No", path=PATH, times=1000)
        client.history.notice("as the test wants")
        await asyncio.sleep(60.0)
        assert client.history.is_in_doubt is not counts


async def test_unknown_credential_is_no_answer(host: FakeApiServer, client: ApiClient) -> None:
    host.fail(401, "Unauthorized", path=PATH, times=4)
    reflector = Reflector(client, PATH, RawCodec(), Store(RawCodec()))
    task = asyncio.ensure_future(reflector.run())
    assert await reflector.wait_answered()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
