"""What a tenant makes the agent keep of the host."""

import tracemalloc
from collections.abc import Callable, Iterable

import orjson
import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object, labels_of
from karmada_vc_agent.model.quantity import Size
from karmada_vc_agent.model.virtual_cluster import HOST_BYTES_BOUND, Bounds
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, HOLD_ANNOTATION, MARKS, WORK_ANNOTATION
from karmada_vc_agent.translation.namespace_defaults import QUOTA_NAME
from karmada_vc_agent.work.host_objects import LiveObjects
from karmada_vc_agent.work.memory_bounds import KeptObjects, ObjectIdentity, _Whole
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

MIB = 2**20
MAPS = Resource(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", namespaced=True)


class Keeping:
    """A store of host objects of branch-a, whose bound is 8 MiB."""

    def __init__(self) -> None:
        self.vcs = vcs = {
            "branch-a": objects.virtual_cluster("branch-a", bounds=Bounds(bytes=Size(8 * MIB)))
        }
        self.over: list[str] = []
        namespaces = {"of-a": "branch-a"}
        self.kept = KeptObjects(vcs, lambda name: namespaces.get(name, ""))
        self.kept.over.subscribe(lambda cluster, _: self.over.append(cluster))
        self.codec = self.kept
        self.store: Store[Object] = Store(self.codec)

    def list(self, items: Iterable[Object]) -> int:
        """List objects; return by how much memory grew."""
        pages = [as_page(some) for some in in_pages(items)]
        tracemalloc.start()
        found = [obj for page in pages for obj in self.codec.page(page).items]
        self.store.replace_all(found)
        del found
        grown = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return grown


def in_pages(items: Iterable[Object]) -> list[list[Object]]:
    found = list(items)
    return [found[n : n + 4] for n in range(0, len(found), 4)]


def as_page(items: list[Object]) -> bytes:
    return orjson.dumps({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})


@pytest.fixture
def keeping() -> Keeping:
    return Keeping()


def obj(number: int, kind: str = "ConfigMap", cluster: str = "branch-a", **more: object) -> Object:
    metadata = {
        "name": f"{kind.lower()}-{number}",
        "namespace": "of-a",
        "uid": f"{kind}-{number}",
        "resourceVersion": "1",
        "labels": {CLUSTER_LABEL: cluster},
        "annotations": {WORK_ANNOTATION: f"karmada-es-{cluster}/forged"},
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


def unmarked(each: Object) -> Object:
    each["metadata"]["annotations"] = {}
    return each


def large(number: int) -> Object:
    return obj(number, data={"text": "x" * 950_000})


def of_tiny_keys(number: int) -> Object:
    return obj(number, data={f"k{n}": "" for n in range(20_000)})


def with_annotations(number: int) -> Object:
    found = obj(number, "Namespace")
    found["metadata"]["annotations"] = {f"a{n}": "x" * 50 for n in range(5000)}
    return found


@pytest.mark.parametrize("make", [large, of_tiny_keys, with_annotations])
def test_what_is_kept_of_a_virtual_cluster_is_bounded(
    keeping: Keeping, make: Callable[[int], Object]
) -> None:
    grown = keeping.list(make(n) for n in range(20))
    assert len(keeping.store) == 20
    assert 4 * MIB < grown < 9 * MIB
    assert keeping.over == ["branch-a"]
    assert list(keeping.kept.met()) == [("branch-a", HOST_BYTES_BOUND)]


def test_an_object_of_no_work_is_kept_by_its_identity(keeping: Keeping) -> None:
    assert keeping.list(unmarked(large(n)) for n in range(40)) < MIB
    assert keeping.over == []


def test_what_a_label_says_does_not_count_in_the_namespace_of_another(keeping: Keeping) -> None:
    made = [obj(n, cluster=f"name-{n}", data={"text": "x" * 950_000}) for n in range(40)]
    assert keeping.list(made) < 9 * MIB
    assert keeping.over == ["branch-a"]


def test_a_list_of_what_is_kept_already_takes_no_more(keeping: Keeping) -> None:
    keeping.list([of_tiny_keys(1)])
    known = keeping.store.get("of-a", "configmap-1")
    assert keeping.kept.trim(of_tiny_keys(1)) is known
    changed = of_tiny_keys(1)
    changed["metadata"]["resourceVersion"] = "2"
    assert keeping.kept.trim(changed) is not known


def test_removed_object_frees_memory_budget(keeping: Keeping) -> None:
    keeping.list(large(n) for n in range(40))
    keeping.list(large(n) for n in range(2))
    assert list(keeping.kept.met()) == []
    assert all(isinstance(each, _Whole) for each in keeping.store)
    keeping.list([])
    assert keeping.kept.trim(large(1))["data"]


def test_what_the_agent_adds_to_namespaces_stays_whole(keeping: Keeping) -> None:
    keeping.list(large(n) for n in range(40))
    quota = obj(1, "ResourceQuota", spec={"hard": {"pods": "1"}})
    quota["metadata"]["name"] = QUOTA_NAME
    assert keeping.kept.trim(quota)["spec"]
    assert "spec" not in keeping.kept.trim(obj(2, "ResourceQuota", spec={"x": "x" * 90_000_000}))


def test_an_identity_has_the_marks_that_decide(keeping: Keeping) -> None:
    namespace = with_annotations(1)
    namespace["metadata"]["annotations"][HOLD_ANNOTATION] = "x" * 9_000_000
    found = keeping.kept.trim(namespace)
    assert isinstance(found, ObjectIdentity)
    assert labels_of(found) == {CLUSTER_LABEL: "branch-a"}
    assert found["metadata"]["annotations"].keys() == {HOLD_ANNOTATION}
    assert len(orjson.dumps(found)) < 5000


async def test_what_is_not_kept_is_read(
    keeping: Keeping, host: FakeApiServer, client: ApiClient
) -> None:
    made = [obj(n, data={"text": "x" * 950_000}) for n in range(20)]
    keeping.list(made)
    host.seed(made[-1])
    live = LiveObjects(client, lambda _: keeping.store)
    name = made[-1]["metadata"]["name"]
    assert live.cached(MAPS, "of-a", name) is None
    found = await live.get(MAPS, "of-a", name)
    assert found is not None
    assert found["data"]
    await live.get(MAPS, "of-a", made[0]["metadata"]["name"])
    assert await live.get(MAPS, "of-a", "absent") is None
    assert [request.method for request in host.requests] == ["GET"]


def test_an_answer_to_a_write_counts(keeping: Keeping) -> None:
    for n in range(20):
        keeping.store.observe({**large(n), "spec": {}})
    assert sum(isinstance(each, _Whole) for each in keeping.store) == 8


def newer(each: Object, version: str = "2") -> Object:
    each["metadata"]["resourceVersion"] = version
    return each


def test_a_new_list_of_what_is_within_the_bound_keeps_it_whole(keeping: Keeping) -> None:
    keeping.list(large(n) for n in range(8))
    keeping.list(newer(large(n)) for n in range(8))
    assert all(isinstance(each, _Whole) for each in keeping.store)
    assert keeping.over == []
    keeping.list(newer(large(n), "3") for n in range(9))
    assert sum(isinstance(each, _Whole) for each in keeping.store) == 8


def test_a_change_of_what_is_within_the_bound_keeps_it_whole(keeping: Keeping) -> None:
    keeping.list(large(n) for n in range(8))
    changed = keeping.codec.trim(newer(large(1)))
    assert isinstance(changed, _Whole)
    keeping.store.apply(changed)
    del changed
    assert isinstance(keeping.codec.trim(large(8)), ObjectIdentity)


def test_versions_of_a_kind_count_each(keeping: Keeping) -> None:
    kept = [keeping.codec.trim(large(n)) for n in range(8)]
    assert isinstance(keeping.codec.trim({**large(1), "apiVersion": "v2"}), ObjectIdentity)
    assert all(isinstance(each, _Whole) for each in kept)


def test_a_list_that_is_given_up_counts_no_more(keeping: Keeping) -> None:
    keeping.list(large(n) for n in range(4))
    given_up = [keeping.codec.trim(newer(large(n))) for n in range(4)]
    del given_up
    keeping.list([])
    assert all(isinstance(keeping.codec.trim(large(n)), _Whole) for n in range(8))


async def test_read_object_is_whole_again_where_there_is_memory_budget(
    keeping: Keeping, host: FakeApiServer, client: ApiClient
) -> None:
    last = host.seed(large(8))
    keeping.list([*(large(n) for n in range(8)), last])
    live, name = LiveObjects(client, lambda _: keeping.store), last["metadata"]["name"]
    await live.live(MAPS, "of-a", name)
    assert live.cached(MAPS, "of-a", name) is None
    keeping.store.remove(large(0))
    told: list[Object | None] = []
    keeping.store.add_handler(lambda old, _: told.append(old))
    told.clear()
    await live.live(MAPS, "of-a", name)
    assert live.cached(MAPS, "of-a", name) == last
    assert told == []
    assert list(keeping.kept.met()) == []
    assert keeping.over == ["branch-a"]


async def test_a_later_version_that_is_read_is_left_to_the_watch(
    keeping: Keeping, host: FakeApiServer, client: ApiClient
) -> None:
    """Handlers take a version that is stored already for an echo."""
    last = host.seed(large(8))
    keeping.list([*(large(n) for n in range(8)), newer(last, "0")])
    name = last["metadata"]["name"]
    keeping.store.remove(large(0))
    await LiveObjects(client, lambda _: keeping.store).live(MAPS, "of-a", name)
    assert isinstance(keeping.store.get("of-a", name), ObjectIdentity)


def test_a_larger_bound_counts_as_objects_change(keeping: Keeping) -> None:
    keeping.list(large(n) for n in range(9))
    keeping.vcs["branch-a"] = objects.virtual_cluster("branch-a", bounds=Bounds(bytes=Size(0)))
    assert isinstance(keeping.codec.trim(newer(large(8))), _Whole)


def test_an_account_lasts_while_anything_counts_on_it(keeping: Keeping) -> None:
    keeping.list(large(n) for n in range(9))
    vc = keeping.vcs.pop("branch-a")
    assert list(keeping.kept.met()) == []
    keeping.vcs["branch-a"] = vc
    assert list(keeping.kept.met()) == [("branch-a", HOST_BYTES_BOUND)]
    keeping.store.remove(large(8))
    assert list(keeping.kept.met()) == []
    assert isinstance(keeping.codec.trim(large(9)), ObjectIdentity)


def status_of(megabytes: int) -> Object:
    identifier = {"ordinal": 0, "version": "v1", "kind": "X", "resource": "", "name": "x"}
    content = {str(number): "x" * 1000 for number in range(megabytes * 1000)}
    entry = {"identifier": identifier, "health": "Healthy", "status": content}
    return {"conditions": [], "manifestStatuses": [entry]}


def test_what_works_report_of_objects_counts_with_these_while_it_is_in_memory() -> None:
    keeping = Keeping()
    kept = [keeping.kept.take_status("branch-a", f"uid-{n}", status_of(3)) for n in range(3)]
    assert [each is None for each in kept] == [False, False, True]
    assert keeping.over == ["branch-a"]
    assert keeping.kept.take_status("branch-a", "uid-0", status_of(3)) == kept[0]  # a newer copy
    assert keeping.kept.take_status("b", "uid-9", status_of(3)) is not None
    small: Object = {"conditions": []}
    assert keeping.kept.take_status("branch-a", "uid-4", small) is small
    del kept
    assert keeping.kept.take_status("branch-a", "uid-2", status_of(3)) is not None


def test_all_marks_of_an_object_that_is_not_whole_are_short_together() -> None:
    keeping, many = Keeping(), 400
    annotations = dict.fromkeys(sorted(MARKS - {CLUSTER_LABEL, WORK_ANNOTATION}), "x" * 4096)
    items = [objects.config_map(f"map-{n}", ns="of-a") for n in range(many)]
    for item in items:
        item["metadata"]["labels"] = {CLUSTER_LABEL: "branch-a"}
        item["metadata"]["annotations"] = annotations
    assert keeping.list(items) < many * 8192
    assert all(labels_of(each) == {CLUSTER_LABEL: "branch-a"} for each in keeping.store)


def test_a_newer_copy_that_is_dropped_leaves_the_count_to_the_stored_one(keeping: Keeping) -> None:
    keeping.list(large(n) for n in range(8))
    for n in range(8):
        keeping.codec.trim(newer(large(n)))  # as of a list that fails at a later page
    assert isinstance(keeping.codec.trim(large(8)), ObjectIdentity)
    assert keeping.codec.trim(large(1)) is keeping.store.get("of-a", "configmap-1")
    keeping.list([])
    assert isinstance(keeping.codec.trim(large(8)), _Whole)


def test_a_status_that_is_reported_again_without_a_change_counts(keeping: Keeping) -> None:
    kept = []
    for n in range(12):
        kept.append(keeping.kept.take_status("branch-a", f"uid-{n}", large(n)))
        keeping.kept.take_status("branch-a", f"uid-{n}", large(n))
    assert sum(each is not None for each in kept) == 8
