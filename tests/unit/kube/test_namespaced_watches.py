"""Watches in single namespaces: one store of what the namespaces of the moment have."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH, Resource
from karmada_vc_agent.kube.informers import WatchScope, namespaced_reflector
from karmada_vc_agent.kube.reflector import WATCH_S
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from tests.fakes.api_server import FakeApiServer

VERBS = frozenset(("list", "watch"))
SECRETS = Resource(GroupVersionKind("", "v1", "Secret"), "secrets", True, VERBS)
NODES = Resource(GroupVersionKind("", "v1", "Node"), "nodes", False, VERBS)


def secret(namespace: str, name: str = "s") -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


class Setting:
    """Watches of Secrets in `namespaces`."""

    def __init__(self, client: ApiClient, *, are_ours: bool = False) -> None:
        self.namespaces = ["a", "b"]
        self.scope = WatchScope(client, lambda: self.namespaces)
        self.store: Store[Object] = Store(RawCodec())
        watches = namespaced_reflector(
            client, SECRETS, self.store, {}, self.scope, are_ours=are_ours
        )
        self.task = asyncio.ensure_future(watches.run())

    def known(self) -> set[str]:
        return {f"{o['metadata']['namespace']}/{o['metadata']['name']}" for o in self.store}

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds():  # noqa: ASYNC110 - what it looks at sets no event
                await asyncio.sleep(0.05)

    def move(self, *namespaces: str) -> None:
        self.namespaces = list(namespaces)
        self.scope.changed()


@pytest.fixture
async def setting(host: FakeApiServer, client: ApiClient) -> AsyncIterator[Setting]:
    host.seed(secret("a"), secret("b"), secret("foreign"))
    made = Setting(client)
    await made.until(lambda: made.store.is_synced)
    yield made
    made.task.cancel()
    with suppress(asyncio.CancelledError):
        await made.task


async def test_store_is_synced_when_all_namespaces_have_answered(setting: Setting) -> None:
    assert setting.known() == {"a/s", "b/s"}


async def test_other_namespaces_are_never_requested(setting: Setting, host: FakeApiServer) -> None:
    paths = {request.path for request in host.requests}
    assert paths == {SECRETS.path("a"), SECRETS.path("b")}


async def test_changes_are_followed(setting: Setting, host: FakeApiServer) -> None:
    host.seed(secret("b", "new"))
    await setting.until(lambda: "b/new" in setting.known())
    host.remove(f"{SECRETS.path('a')}/s")
    await setting.until(lambda: setting.known() == {"b/s", "b/new"})


async def test_added_namespace_is_watched_and_a_deleted_one_forgotten(
    setting: Setting, host: FakeApiServer
) -> None:
    host.seed(secret("c"))
    setting.move("b", "c")
    await setting.until(lambda: setting.known() == {"b/s", "c/s"})
    host.seed(secret("a", "late"), secret("c", "late"))
    await setting.until(lambda: "c/late" in setting.known())
    assert "a/late" not in setting.known()


async def test_namespace_that_does_not_answer_costs_the_others_nothing(
    setting: Setting, host: FakeApiServer
) -> None:
    host.seed(secret("c"))
    host.fail(403, "Forbidden", path=SECRETS.path("c"), times=2)
    setting.move("a", "b", "c")
    host.seed(secret("a", "new"))
    await setting.until(lambda: "a/new" in setting.known())
    await setting.until(lambda: "c/s" in setting.known())


async def test_server_is_queried_where_a_resource_may_be_watched(
    host: FakeApiServer, client: ApiClient
) -> None:
    scope = WatchScope(client, list)
    assert await scope.is_whole(NODES), "what has no namespace is watched whole or not at all"
    assert host.requests == []
    for allowed in (b"true", b"false"):
        host.answer(b'{"status": {"allowed": %s}}' % allowed, 201, path=SELF_ACCESS_REVIEWS_PATH)
    assert await scope.is_whole(SECRETS)
    assert not await scope.is_whole(SECRETS)


async def test_no_answer_is_waited_for(host: FakeApiServer, client: ApiClient) -> None:
    host.fail(500, "InternalError", path=SELF_ACCESS_REVIEWS_PATH, times=2)
    host.answer(b'{"status": {"allowed": false}}', 201, path=SELF_ACCESS_REVIEWS_PATH)
    assert not await WatchScope(client, list).is_whole(SECRETS)


async def test_object_deleted_before_any_watch_reported_it_is_forgotten(
    setting: Setting, host: FakeApiServer
) -> None:
    with host.down(path=SECRETS.path("a")):
        host.end_watches()
        setting.store.observe(host.seed(secret("a", "ghost")))
        host.remove(f"{SECRETS.path('a')}/ghost")
        host.seed(secret("a", "new"))
        host.storage.compacted = host.storage.version
        setting.store.observe(host.seed(secret("a", "later")))
        assert "a/ghost" in setting.known()
    await setting.until(lambda: "a/new" in setting.known())
    assert setting.known() == {"a/s", "a/new", "a/later", "b/s"}


async def test_object_cached_from_a_response_alone_ends_with_its_namespace(
    setting: Setting, host: FakeApiServer
) -> None:
    told: list[Object | None] = []
    setting.store.add_handler(lambda _, new: told.append(new))
    told.clear()
    with host.down(path=SECRETS.path("a")):
        host.end_watches()
        setting.store.observe(host.seed(secret("a", "written")))
        assert "a/written" in setting.known()
        setting.move("b")
        await setting.until(lambda: setting.known() == {"b/s"})
    assert told == [None, None], "who follows the store hears of both that went"


# --- of our own objects only ------------------------------------------------------------------


@pytest.fixture
async def ours(host: FakeApiServer, client: ApiClient) -> AsyncIterator[Setting]:
    """Namespace a has a Secret of ours, namespace b has none."""
    host.seed(secret("a"))
    made = Setting(client, are_ours=True)
    await made.until(lambda: made.store.is_synced and is_watched(host, "a"))
    yield made
    made.task.cancel()
    with suppress(asyncio.CancelledError):
        await made.task


def is_watched(host: FakeApiServer, namespace: str) -> bool:
    return any(request.is_watch for request in host.asked("GET", SECRETS.path(namespace)))


async def test_namespace_without_an_object_of_ours_takes_no_connection(
    ours: Setting, host: FakeApiServer
) -> None:
    await asyncio.sleep(10 * WATCH_S[1])
    assert not is_watched(host, "b")
    lists = len(host.asked("GET", SECRETS.path("b")))
    assert 10 <= lists <= 1 + 10 * WATCH_S[1] / WATCH_S[0]


async def test_namespace_is_watched_once_we_write_an_object_there(
    ours: Setting, host: FakeApiServer
) -> None:
    ours.store.observe(host.seed(secret("b", "written")))
    await ours.until(lambda: is_watched(host, "b"))
    host.seed(secret("b", "more"))
    await ours.until(lambda: ours.known() == {"a/s", "b/written", "b/more"})
    host.remove(f"{SECRETS.path('b')}/written")
    await ours.until(lambda: ours.known() == {"a/s", "b/more"})


async def test_object_of_another_writer_is_cached_once_a_watch_is_reopened(
    ours: Setting, host: FakeApiServer
) -> None:
    host.seed(secret("b", "restored"))
    await asyncio.sleep(WATCH_S[1] + 1.0)
    assert ours.known() == {"a/s", "b/restored"}


async def test_unwatched_namespace_is_checked_when_time_was_rolled_back(
    ours: Setting, host: FakeApiServer, client: ApiClient
) -> None:
    before = len(host.asked("GET", SECRETS.path("b")))
    client.history.notice("a test says so")
    await ours.until(lambda: not client.history.is_in_doubt)
    assert len(host.asked("GET", SECRETS.path("b"))) == before + 2


async def test_object_that_is_written_while_a_list_is_under_way_is_watched(
    ours: Setting, host: FakeApiServer
) -> None:
    ours.move("a", "b", "c")
    release = host.hold("GET", SECRETS.path("c"))
    await ours.until(lambda: bool(host.asked("GET", SECRETS.path("c"))))
    ours.store.observe(host.seed(secret("c")))
    release.set()
    await ours.until(lambda: is_watched(host, "c"))
    assert ours.known() == {"a/s", "c/s"}
