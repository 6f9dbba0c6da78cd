"""Works over the bounds: who is out, what is kept of them, and who is told."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.kube.reflector import FIRST_PAGE
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, bytes_of, copy_object
from karmada_vc_agent.model.quantity import Size
from karmada_vc_agent.model.virtual_cluster import Bounds
from karmada_vc_agent.work.memory_bounds import NAMESPACES_KEPT, WorkBounds, WorkCodec
from karmada_vc_agent.work.work_watches import ALL_WORKS_PATH, WorkWatches
from karmada_vc_agent.work.works import WorkKey, is_trimmed, namespaces_used, work_path
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

MIB = 2**20


def config_map(name: str, size: int = 0, namespace: str = "edge") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"key": "x" * size},
    }


def work(name: str, *manifests: Object, created: int = 0, vc: str = "branch-a") -> Object:
    made = objects.work(*manifests, vc=vc, name=name)
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:{created // 60:02}:{created % 60:02}Z"
    made["metadata"]["annotations"] = {"large": "x" * 100_000}
    return made


class Watching:
    """Watches with bounds, and what was told."""

    def __init__(self, hub: FakeApiServer, bounds: Bounds, *, cluster_wide: bool) -> None:
        self.changed: list[WorkKey] = []
        self.met: list[tuple[str, str]] = []
        vcs = {name: objects.virtual_cluster(name, bounds=bounds) for name in ("branch-a", "b")}
        self.bounds = WorkBounds(
            vcs, lambda _: False, self.changed.append, lambda *what: self.met.append(what)
        )
        self.watches = WorkWatches(
            hub.client("hub"), vcs, lambda *_: None, self.bounds, cluster_wide=cluster_wide
        )

    def out(self) -> list[str]:
        works = self.watches.works.of("branch-a")
        return sorted(w["metadata"]["name"] for w in works if self.bounds.refusal(w))

    def bytes_kept(self) -> int:
        return sum(
            len(orjson.dumps(w, default=str)) for w in self.watches.works.store("branch-a") or ()
        )


@asynccontextmanager
async def watching(
    hub: FakeApiServer, *, cluster_wide: bool = False, **bounds: Any
) -> AsyncIterator[Watching]:
    made = Watching(hub, Bounds(**bounds), cluster_wide=cluster_wide)
    task = asyncio.ensure_future(made.watches.run())
    made.watches.start("branch-a")
    await asyncio.sleep(1.0)
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("cluster_wide", [False, True])
async def test_what_is_over_the_bytes_is_not_kept(
    hub: FakeApiServer, *, cluster_wide: bool
) -> None:
    numbers = sorted(range(30), key=lambda n: n * 7 % 30)
    for n in numbers:
        hub.seed(work(f"w-{n:02}", config_map("c", MIB), created=n))
    async with watching(hub, cluster_wide=cluster_wide, bytes=10 * MIB + 20_000) as made:
        assert made.out() == [f"w-{n:02}" for n in range(10, 30)]
        assert made.bytes_kept() < 11.5 * MIB
        amount = f"{10 * MIB + 20_000} bytes of memory for the manifests of its Works"
        text = f"the virtual cluster may have {amount} (bounds.bytes)"
        assert made.met == [("branch-a", text)]


async def test_removed_work_admits_the_next(hub: FakeApiServer) -> None:
    for n in range(4):
        hub.seed(work(f"w-{n}", config_map("c"), created=n))
    async with watching(hub, works=2) as made:
        assert made.out() == ["w-2", "w-3"]
        made.changed.clear()
        hub.remove("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/w-0")
        await asyncio.sleep(1.0)
        assert made.out() == ["w-3"]
        assert made.changed == [("branch-a", "w-2")]
        trimmed = made.watches.works.get("branch-a", "w-2")
        assert trimmed is not None
        assert is_trimmed(trimmed)  # it is read again by who carries it out


async def test_an_older_one_puts_out_a_younger_one_that_is_stored(hub: FakeApiServer) -> None:
    hub.seed(work("young", config_map("c", MIB, "one"), config_map("d", 0, "two"), created=9))
    async with watching(hub, works=1) as made:
        young = made.watches.works.get("branch-a", "young")
        assert made.out() == []
        hub.seed(work("old", config_map("c"), created=1))
        await asyncio.sleep(1.0)
        assert made.out() == ["young"]
        assert made.watches.works.get("branch-a", "young") is young
        assert made.bytes_kept() < 200_000
        for namespace in ("one", "two"):
            assert made.watches.works.of("branch-a", namespace) == [young]
        hub.remove("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/young")
        await asyncio.sleep(1.0)
        assert made.watches.works.of("branch-a", "one") == []


async def test_works_of_clusters_that_are_not_served_are_not_kept(hub: FakeApiServer) -> None:
    hub.seed(work("w", config_map("c", MIB), vc="foreign"))
    async with watching(hub, cluster_wide=True) as made:
        assert made.bytes_kept() < 2000
        assert made.bounds.met() is not None


async def test_a_work_of_countless_manifests_is_not_kept(hub: FakeApiServer) -> None:
    many = [config_map("c", 0, f"namespace-{n}") for n in range(5000)]
    hub.seed(work("w", *many))
    async with watching(hub, manifests_per_work=100) as made:
        assert made.out() == ["w"]
        assert made.bytes_kept() < NAMESPACES_KEPT * 100 + 2000


async def test_neighbour_is_not_counted(hub: FakeApiServer) -> None:
    for n in range(5):
        hub.seed(work(f"w-{n}", config_map("c"), created=n))
        hub.seed(work(f"w-{n}", config_map("c"), created=n, vc="b"))
    async with watching(hub, works=4) as made:
        made.watches.start("b")
        await asyncio.sleep(1.0)
        assert made.out() == ["w-4"]
        assert list(made.bounds.met()) == [("branch-a", "works"), ("b", "works")]
        made.watches.stop("b")
        await asyncio.sleep(1.0)
        assert list(made.bounds.met()) == [("branch-a", "works")]


@pytest.mark.parametrize(
    "odd", [{}, {"spec": None}, {"spec": {"workload": {"manifests": ["x", 7, None, {}]}}}]
)
async def test_works_of_odd_shape_are_counted(hub: FakeApiServer, odd: Any) -> None:
    made = {**objects.work(name="odd"), **odd}
    if not odd:
        del made["spec"]
    hub.seed(made, work("later", config_map("c"), created=60))
    async with watching(hub, works=1) as watched:
        assert len(watched.out()) == 1


@pytest.mark.parametrize("cluster_wide", [False, True])
async def test_what_only_a_list_that_started_over_had_takes_no_place(
    hub: FakeApiServer, *, cluster_wide: bool
) -> None:
    numbers = range(FIRST_PAGE + 10)
    for n in numbers:
        hub.seed(work(f"w-{n:02}", config_map("c"), created=n))

    def start_over() -> None:
        for n in range(20):
            hub.remove(work_path("karmada-es-branch-a", f"w-{n:02}"))
        hub.storage.compact()

    path = ALL_WORKS_PATH if cluster_wide else work_path("karmada-es-branch-a")
    hub.before("GET", path, lambda: hub.before("GET", path, start_over))
    async with watching(hub, cluster_wide=cluster_wide, works=len(numbers) - 20) as made:
        assert len(made.watches.works.names("branch-a")) == len(numbers) - 20
        assert [r for r in hub.asked("GET", path) if "continue" in r.query], "it came in pages"
        assert made.out() == []
        assert list(made.bounds.met()) == []


async def test_a_list_of_works_that_are_kept_already_takes_no_more(hub: FakeApiServer) -> None:
    hub.seed(work("same", config_map("c")), work("changed", config_map("c")))
    async with watching(hub) as made:
        store = made.watches.works.store("branch-a")
        assert store is not None
        before = {each["metadata"]["name"]: each for each in store}
        codec = WorkCodec(made.bounds)
        again = copy_object(before["same"])
        assert codec.trim(again) is before["same"]
        again = copy_object(before["changed"])
        again["metadata"]["resourceVersion"] += "0"
        assert codec.trim(again) is again


async def test_what_is_trimmed_later_is_what_the_store_holds(hub: FakeApiServer) -> None:
    hub.seed(work("young", config_map("c", MIB), created=9))
    async with watching(hub, works=1) as made:
        hub.storage.compact()
        hub.watch_error(410, "Expired")  # a list decodes it once more, and the store keeps its own
        await asyncio.sleep(1.0)
        assert made.bytes_kept() > MIB
        hub.seed(work("old", config_map("c"), created=1))
        await asyncio.sleep(1.0)
        assert made.out() == ["young"]
        assert made.bytes_kept() < 200_000


@pytest.mark.parametrize("cluster_wide", [False, True])
async def test_virtual_cluster_added_later_has_its_works_whole(
    hub: FakeApiServer, *, cluster_wide: bool
) -> None:
    """The watch for all has kept next to nothing of them until then."""
    hub.seed(work("late"))
    vcs = VirtualClusters([objects.virtual_cluster("b")])
    bounds = WorkBounds(vcs)
    told: list[str] = []
    watches = WorkWatches(
        hub.client("hub"),
        vcs,
        lambda _cluster, _old, new: told.append(new["metadata"]["name"] if new else "gone"),
        bounds,
        cluster_wide=cluster_wide,
    )
    task = asyncio.ensure_future(watches.run())
    watches.start("b")
    await asyncio.sleep(1.0)
    vcs.put(objects.virtual_cluster("branch-a"))
    watches.start("branch-a")
    await asyncio.sleep(1.0)
    (found,) = watches.works.of("branch-a")
    assert is_trimmed(found) is None
    assert told == ["late"]
    hub.seed(work("later"))
    await asyncio.sleep(1.0)
    assert told == ["late", "later"], "once, whoever reads it too"
    vcs.replace_all([objects.virtual_cluster("b")])
    watches.leave("branch-a")
    await asyncio.sleep(1.0)
    assert watches.works.store("branch-a") is None
    assert watches.works.store("b") is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("cluster_wide", [False, True])
async def test_raised_bounds_let_in_what_was_out(hub: FakeApiServer, *, cluster_wide: bool) -> None:
    for name in ("one", "two"):
        hub.seed(work(name))
    vcs = VirtualClusters([objects.virtual_cluster("branch-a", bounds=Bounds(works=1))])
    bounds = WorkBounds(vcs)
    watches = WorkWatches(
        hub.client("hub"), vcs, lambda *_: None, bounds, cluster_wide=cluster_wide
    )
    task = asyncio.ensure_future(watches.run())
    watches.start("branch-a")
    await asyncio.sleep(1.0)
    assert sum(is_trimmed(found) is not None for found in watches.works.of("branch-a")) == 1
    vcs.put(objects.virtual_cluster("branch-a", bounds=Bounds(works=2)))
    watches.leave("branch-a")
    watches.start("branch-a")
    await asyncio.sleep(1.0)
    assert [is_trimmed(found) for found in watches.works.of("branch-a")] == [None, None]
    assert all(bounds.refusal(found) is None for found in watches.works.of("branch-a"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("gone", "kept"), [("branch-a", "b"), ("b", "branch-a")], ids=["ours", "never ours"]
)
async def test_works_of_who_is_served_no_more_are_not_kept(
    hub: FakeApiServer, gone: str, kept: str
) -> None:
    for vc in ("branch-a", "b"):
        hub.seed(work("large", config_map("c", MIB), vc=vc))
    async with watching(hub, cluster_wide=True) as made:
        made.watches.start(kept)
        await asyncio.sleep(1.0)
        store = made.watches.works.store("branch-a")
        assert store is not None
        assert made.bytes_kept() > 2 * MIB
        made.watches.leave(gone)
        await asyncio.sleep(1.0)
        (of_kept,) = made.watches.works.of(kept)
        assert is_trimmed(of_kept) is None
        assert sum(len(orjson.dumps(w, default=str)) for w in store) < 1.5 * MIB


def test_works_of_tiny_keys_count_what_they_hold() -> None:
    tiny = {**config_map("c"), "data": {f"k{n}": "" for n in range(40_000)}}
    works = [work(f"w-{n:02}", tiny, created=n) for n in range(8)]
    content = orjson.dumps({"kind": "WorkList", "metadata": {}, "items": works})
    bounds = WorkBounds({"branch-a": objects.virtual_cluster(bounds=Bounds(bytes=Size(10 * MIB)))})
    tracemalloc.start()
    page = WorkCodec(bounds).page(content)
    now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < len([each for each in page.items if not is_trimmed(each)]) < 4
    assert now < 11 * MIB
    assert most < 11 * MIB + bytes_of(tiny) + len(content), "one is decoded after the other"


def watches_of(bounds: Bounds, *, cluster_wide: bool) -> WorkWatches:
    """Return watches over branch-a and b that list nothing by themselves."""
    vcs = {name: objects.virtual_cluster(name, bounds=bounds) for name in ("branch-a", "b")}
    hub: Any = None
    made = WorkWatches(hub, vcs, lambda *_: None, WorkBounds(vcs), cluster_wide=cluster_wide)
    for name in vcs:
        made.start(name)
    return made


def versioned(made: Object, version: str) -> Object:
    made["metadata"] |= {"uid": made["metadata"]["name"], "resourceVersion": version}
    return made


def replace(store: Store[Object], version: str, *works: Object) -> None:
    """Have a store take a list, decoded as a reflector does it."""
    head = {"kind": "WorkList", "metadata": {"resourceVersion": version}}
    page = store.codec.page(orjson.dumps({**head, "items": works}))
    store.replace_all(page.items, version)


@pytest.mark.parametrize("cluster_wide", [False, True])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_work_of_the_checkpoint_that_is_out_leaves_no_namespace_behind(
    *, cluster_wide: bool, is_deleted: bool
) -> None:
    watches = watches_of(Bounds(manifests_per_work=20), cluster_wide=cluster_wide)
    store = watches.works.store("branch-a")
    assert store is not None
    namespaces = [f"n-{number}" for number in range(NAMESPACES_KEPT + 10)]
    manifests = [config_map("c", namespace=namespace) for namespace in namespaces]
    store.seed([versioned(work("large", *manifests), "")])
    listed = work("other" if is_deleted else "large", config_map("c"))
    replace(store, "100", versioned(listed, "90"))
    assert watches.works.of("branch-a", "edge") == list(store)
    assert [watches.works.of("branch-a", each) for each in namespaces] == [[]] * len(namespaces)


def test_work_of_the_checkpoint_whose_virtual_cluster_has_left_leaves_no_namespace_behind() -> None:
    watches = watches_of(Bounds(), cluster_wide=False)
    store = watches.works.store("branch-a")
    assert store is not None
    watches.bounds.virtual_clusters = {}
    store.seed([versioned(work("one", config_map("c")), "")])
    replace(store, "100", versioned(work("other", config_map("c", namespace="n")), "90"))
    assert watches.works.of("branch-a", "edge") == []


def test_restart_of_one_searches_no_works_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """New bounds for a thousand virtual clusters stopped the loop for a minute."""
    watches = watches_of(Bounds(), cluster_wide=True)
    store = watches.works.store("branch-a")
    assert store is not None
    works = [versioned(work("one", config_map("c"), vc=vc), "5") for vc in ("branch-a", "b")]
    replace(store, "10", *works)
    monkeypatch.setattr(Store, "__iter__", None)
    watches.leave("branch-a")
    watches.start("branch-a")
    first, second = (store.get(f"karmada-es-{vc}", "one") for vc in ("branch-a", "b"))
    assert first is not None
    assert second is not None
    assert is_trimmed(first)
    assert not is_trimmed(second)


def test_work_whose_page_was_decoded_before_its_virtual_cluster_left_is_not_kept_whole() -> None:
    watches = watches_of(Bounds(), cluster_wide=True)
    store = watches.works.store("b")
    assert store is not None
    made = versioned(work("one", config_map("c")), "5")
    page = store.codec.page(orjson.dumps({"kind": "WorkList", "metadata": {}, "items": [made]}))
    watches.leave("branch-a")
    watches.start("branch-a")
    store.replace_all(page.items, "10")
    (kept,) = store
    assert is_trimmed(kept)


def test_watch_of_its_own_shares_nothing_with_the_one_for_all() -> None:
    """That one trims the Works of who it does not serve; both may decode one version of a Work."""
    watches = watches_of(Bounds(), cluster_wide=True)
    for_all = watches.works.store("b")
    watches.leave("branch-a")
    watches.start("branch-a")
    own = watches.works.store("branch-a")
    assert own is not None
    assert for_all is not None
    for store in (own, for_all):
        replace(store, "10", versioned(work("one", config_map("c")), "5"))
        store.apply(store.codec.trim(versioned(work("one", config_map("c")), "12")))
        replace(store, "13", versioned(work("one", config_map("c")), "12"))
    (of_all,), (of_own,) = for_all, watches.works.of("branch-a")
    assert is_trimmed(of_all)
    assert not is_trimmed(of_own)
    watches.stop("branch-a")
    assert [is_trimmed(each) is not None for each in for_all] == [True]


def test_work_that_is_read_again_and_out_keeps_few_namespaces() -> None:
    watches = watches_of(Bounds(manifests_per_work=20), cluster_wide=False)
    manifests = [config_map("c", namespace=f"n-{number}") for number in range(NAMESPACES_KEPT + 10)]
    made = versioned(work("large", *manifests), "5")
    watches.bounds.observe(made)
    assert len(set(namespaces_used(made))) == NAMESPACES_KEPT
