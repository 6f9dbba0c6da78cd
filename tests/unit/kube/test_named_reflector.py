"""named_reflector: the store has what there is of some names, and the server tells of no other."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.flows import WatchSlots
from karmada_vc_agent.kube.informers import PartedReflector, named_reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, copy_object, dig
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer, Request

PATH = "/api/v1/nodes"


@dataclass
class Followed:
    """What is followed, and by whom; `names` may change."""

    names: list[str]
    store: Store[Object]
    reflector: PartedReflector[Object]

    def branch(self, name: str) -> str | None:
        found: str | None = dig(self.store.get("", name), "metadata", "labels", "branch")
        return found

    def follow(self, *names: str) -> None:
        self.names[:] = names
        self.reflector.parts_changed()


@asynccontextmanager
async def following(client: ApiClient, *names: str) -> AsyncIterator[Followed]:
    wanted, store = list(names), Store[Object](RawCodec())
    reflector = named_reflector(client, PATH, store, lambda: wanted)
    task = asyncio.ensure_future(reflector.run())
    try:
        await reflector.wait_synced()
        yield Followed(wanted, store, reflector)
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], object]) -> None:
    """Wait, at most some minutes of virtual time, until a condition holds."""
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(1.0)
    raise AssertionError("it did not come about")


def node(name: str, branch: str = "1") -> Object:
    return objects.node(name, {"branch": branch})


def names_in(requests: list[Request]) -> list[str]:
    return [each.query.get("fieldSelector", "").partition("=")[2] for each in requests]


def lists(host: FakeApiServer) -> list[str]:
    asked = [each for each in host.asked("GET", PATH) if not each.is_watch]
    return names_in([each for each in asked if each.query.get("limit") != "1"])


def watches(host: FakeApiServer) -> list[str]:
    return names_in([each for each in host.asked("GET", PATH) if each.is_watch])


async def test_only_these_names_are_listed_and_watched(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(*(node(name) for name in "abc"))
    async with following(client, "a", "b", "later") as followed:
        assert followed.store.is_synced
        assert sorted(each["metadata"]["name"] for each in followed.store) == ["a", "b"]
        assert all(followed.reflector.has_listed(name) for name in ("a", "b", "later"))
        assert not followed.reflector.has_listed("c")
        await until(lambda: sorted(watches(host)) == ["a", "b", "later"])
        host.seed(node("c", "2"), node("a", "2"), node("later"))
        await until(lambda: followed.branch("a") == "2" and followed.branch("later") == "1")
        assert followed.store.get("", "c") is None
        host.remove(f"{PATH}/b")
        await until(lambda: followed.branch("b") is None)
    assert sorted(lists(host)) == ["a", "b", "later"]


async def test_added_name_is_read_and_the_others_continue(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(node("a"), node("b"))
    async with following(client, "a") as followed:
        await until(lambda: watches(host) == ["a"])
        assert not followed.reflector.has_listed("b")
        followed.follow("a", "b")
        await until(lambda: followed.branch("b") == "1")
        assert followed.reflector.has_listed("b")
        host.seed(node("b", "2"))
        await until(lambda: followed.branch("b") == "2")
        assert watches(host) == ["a", "b"]
    assert lists(host) == ["a", "b"]


async def test_removed_name_is_followed_until_its_object_is_deleted(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(node("a"), node("b"))
    async with following(client, "a", "b") as followed:
        followed.follow("a")
        host.seed(node("b", "2"))
        await until(lambda: followed.branch("b") == "2")
        host.remove(f"{PATH}/b")
        await until(lambda: followed.branch("b") is None)
        followed.follow("a")
        await until(lambda: not followed.reflector.has_listed("b"))
        host.seed(node("b", "3"), node("a", "3"))
        await until(lambda: followed.branch("a") == "3")
        assert followed.store.get("", "b") is None


async def test_no_names_cost_no_request(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(node("a"))
    async with following(client) as followed:
        assert followed.store.is_synced
        await asyncio.sleep(3600.0)
        assert host.requests == []
        followed.follow("a")
        await until(lambda: followed.branch("a") == "1")


async def test_watches_resume_after_an_outage_each_where_it_was(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(node("a"), node("b"))
    async with following(client, "a", "b") as followed:
        host.seed(node("b", "2"))
        await until(lambda: followed.branch("b") == "2")
        with host.down():
            await asyncio.sleep(20.0)
            host.seed(node("a", "3"))
        await until(lambda: followed.branch("a") == "3")
        host.end_watches()
        host.seed(node("a", "4"))
        await until(lambda: followed.branch("a") == "4")
    assert sorted(lists(host)) == ["a", "b"]


async def test_first_list_continues_after_an_outage_with_the_missing_names(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(node("a"), node("b"))
    host.before("GET", PATH, lambda: host.drop_next(PATH))
    async with following(client, "a", "b") as followed:
        assert (followed.branch("a"), followed.branch("b")) == ("1", "1")
    first, second, again = lists(host)
    assert {first, second} == {"a", "b"}
    assert again in (first, second)


async def test_forgotten_version_leads_to_new_lists(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(node("stays"), node("goes"))
    async with following(client, "stays", "goes", "comes") as followed:
        with host.down():
            host.remove(f"{PATH}/goes")
            host.seed(node("comes"))
            host.storage.compact()
        await until(lambda: followed.branch("comes") == "1")
        assert followed.branch("goes") is None
        assert followed.branch("stays") == "1"
    assert len(lists(host)) == 6


async def test_rolled_back_server_is_believed(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(node("changed"))
    backup = host.storage.backup()
    async with following(client, "changed", "lost") as followed:
        host.seed(node("changed", "2"), node("lost"))
        await until(lambda: followed.branch("lost") == "1")
        host.storage.restore(backup)
        await until(lambda: followed.branch("lost") is None)
        assert followed.branch("changed") == "1"
        host.seed(node("changed", "3"))
        await until(lambda: followed.branch("changed") == "3")
    assert client.history.time_resets == 1


async def test_list_replaces_what_was_seeded(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(node("a", "now"))
    store = Store[Object](RawCodec())
    store.seed([node("a", "then"), node("gone", "then")])
    reflector = named_reflector(client, PATH, store, lambda: ["a", "gone"])
    task = asyncio.ensure_future(reflector.run())
    await reflector.wait_synced()
    assert [dig(each, "metadata", "labels", "branch") for each in store] == ["now"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_refusal_is_logged_once_for_each_and_ends(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    host.seed(node("a"))
    host.fail(403, "Forbidden", times=4, message="no right to list nodes")
    async with following(client, "a", "b") as followed:
        assert followed.branch("a") == "1"
    assert caplog.messages.count("Waiting to watch") == 2


async def test_names_share_slots_where_there_are_few_files(host: FakeApiServer) -> None:
    names = ["a", "b", "c", "d"]
    host.seed(*(node(name) for name in names))
    client = host.client("host", watch_slots=WatchSlots(2))
    try:
        async with following(client, *names) as followed:
            await asyncio.sleep(20.0)
            host.seed(node("d", "2"))
            await until(lambda: followed.branch("d") == "2")
    finally:
        await client.close()


async def test_watches_that_end_now_and_then_are_opened_again_at_once(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(node("a"))
    async with following(client, "a") as followed:
        for branch in map(str, range(2, 14)):
            await asyncio.sleep(60.0)
            host.bookmark()
            await asyncio.sleep(1.0)
            host.end_watches()
            host.seed(node("a", branch))
            await asyncio.sleep(2.0)
            assert followed.branch("a") == branch


async def test_object_written_while_not_followed_is_removed_when_deleted(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with following(client, "a", "b") as followed:
        followed.follow("a")
        await until(lambda: not followed.reflector.has_listed("b"))
        written = copy_object(host.seed(node("b")))
        host.remove(f"{PATH}/b")
        followed.store.observe(written)
        await until(lambda: followed.branch("b") is None)
        followed.follow("a", "b")
        host.seed(node("b", "2"))
        await until(lambda: followed.branch("b") == "2")


async def test_rolled_back_time_is_noticed_after_a_start_without_names(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with following(client) as followed:
        host.seed(node("a"))
        followed.follow("a")
        await until(lambda: followed.branch("a") == "1")
        backup = host.storage.backup()
        for number in range(20):
            host.seed(node("a", f"x{number}"))
        await until(lambda: followed.branch("a") == "x19")
        with host.down():
            await asyncio.sleep(5.0)
            host.storage.restore(backup)
        host.seed(node("a", "restored"))
        await until(lambda: followed.branch("a") == "restored")


async def test_name_that_cannot_be_read_costs_no_other(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(node("a"), node("b"))
    async with following(client, "a") as followed:
        host.fail(500, times=1_000, query={"fieldSelector": "metadata.name=b"})
        followed.follow("a", "b")
        await asyncio.sleep(60.0)
        assert watches(host) == ["a"]
        host.seed(node("a", "2"))
        await until(lambda: followed.branch("a") == "2")
        assert not followed.reflector.has_listed("b")
