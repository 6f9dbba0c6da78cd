"""WorkWatches and Works: the Works of each registered virtual cluster, by one watch or many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.memory_bounds import WorkBounds
from karmada_vc_agent.work.work_watches import WorkWatches
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer


class Watching:
    """Watches over branch-a and branch-b, and what they told."""

    def __init__(self, hub: FakeApiServer, *, cluster_wide: bool) -> None:
        self.told: list[tuple[str, str]] = []
        vcs = {name: objects.virtual_cluster(name) for name in ("branch-a", "branch-b")}
        self.watches = WorkWatches(
            hub.client("hub"), vcs, self._changed, WorkBounds(vcs), cluster_wide=cluster_wide
        )

    def _changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        work = new or old
        assert work is not None
        self.told.append((cluster, work["metadata"]["name"]))


@asynccontextmanager
async def watching(hub: FakeApiServer, *, cluster_wide: bool) -> AsyncIterator[Watching]:
    made = Watching(hub, cluster_wide=cluster_wide)
    task = asyncio.ensure_future(made.watches.run())
    yield made
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("cluster_wide", [False, True])
async def test_works_of_started_clusters_are_listed_and_notified(
    hub: FakeApiServer, *, cluster_wide: bool
) -> None:
    hub.seed(objects.work(vc="branch-a", name="old"), objects.work(vc="foreign", name="other"))
    async with watching(hub, cluster_wide=cluster_wide) as made:
        assert made.watches.works.names("branch-a") == []
        made.watches.start("branch-a")
        made.watches.start("branch-b")
        await asyncio.sleep(1.0)
        hub.seed(objects.work(vc="branch-b", name="new"))
        await asyncio.sleep(1.0)
        works = made.watches.works
        assert (works.names("branch-a"), works.names("branch-b")) == (["old"], ["new"])
        everything = [(cluster, work["metadata"]["name"]) for cluster, work in works.all()]
        assert everything == [("branch-a", "old"), ("branch-b", "new")]
        assert works.get("branch-a", "old") is not None
        assert works.get("branch-b", "old") is None
        assert made.told == [("branch-a", "old"), ("branch-b", "new")]
    watches = [request for request in hub.requests if request.is_watch]
    assert len(watches) == (1 if cluster_wide else 2)


@pytest.mark.parametrize("cluster_wide", [False, True])
async def test_store_is_there_from_the_start_on_and_is_read_by_the_next_run(
    hub: FakeApiServer, *, cluster_wide: bool
) -> None:
    hub.seed(objects.work(vc="branch-a", name="one"))
    made = Watching(hub, cluster_wide=cluster_wide)
    made.watches.start("branch-a")
    store = made.watches.works.store("branch-a")
    assert store is not None
    assert not store.is_synced
    task = asyncio.ensure_future(made.watches.run())
    await asyncio.sleep(1.0)
    assert made.watches.works.store("branch-a") is store
    assert made.watches.works.names("branch-a") == ["one"]
    task.cancel()


async def test_stopped_cluster_is_forgotten_and_can_be_started_again(hub: FakeApiServer) -> None:
    hub.seed(objects.work(vc="branch-a", name="one"))
    async with watching(hub, cluster_wide=False) as made:
        for _ in range(2):
            made.watches.start("branch-a")
            made.watches.start("branch-a")
            await asyncio.sleep(1.0)
            assert made.watches.works.names("branch-a") == ["one"]
            made.watches.stop("branch-a")
            await asyncio.sleep(1.0)
            assert made.watches.works.names("branch-a") == []


async def test_works_that_use_a_namespace_are_those_of_the_same_cluster(
    hub: FakeApiServer,
) -> None:
    for vc in ("branch-a", "branch-b"):
        hub.seed(objects.work(objects.config_map(ns="edge"), vc=vc, name="user"))
        hub.seed(objects.work(objects.config_map(ns="other"), vc=vc, name="stranger"))
        hub.seed(objects.work(objects.namespace_manifest("edge"), vc=vc, name="itself"))
    async with watching(hub, cluster_wide=True) as made:
        made.watches.start("branch-a")
        await asyncio.sleep(1.0)
        (user,) = made.watches.works.of("branch-a", "edge")
        assert user["metadata"]["namespace"] == "karmada-es-branch-a"
        assert user["metadata"]["name"] == "user"
