"""Owners: the Work and the manifest that an object of the host came from."""

import pytest

from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.vocabulary import WORK_ANNOTATION
from karmada_vc_agent.translation.context import NAMES_ANNOTATION
from karmada_vc_agent.work.works import NAMES_AT_MOST, Owners, Place, manifest_of
from tests.fakes import objects
from tests.fakes.world import World

HERE = Place("branch-a", "edge-v-branch-a", "edge")
MAPS = Resource(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", namespaced=True)


@pytest.fixture
async def owners(world: World) -> Owners:
    world.register()
    world.hub.seed(objects.work(objects.config_map("top")), objects.work(vc="branch-b"))
    world.look()
    await world.host_discovery.refresh()
    return Owners(world.host_client, world.host_discovery, world.works)


def seed(world: World, name: str, work: str = "", owner: Object | None = None) -> Object:
    """Put a ConfigMap on the host that names a Work, or an owner."""
    made = objects.config_map(name, HERE.host)
    made["metadata"]["annotations"] = {WORK_ANNOTATION: work} if work else {}
    if owner is not None:
        reference = {key: owner["metadata"][key] for key in ("name", "uid")}
        kind = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
        made["metadata"]["ownerReferences"] = [kind | reference]
    return world.host.seed(made)


async def root(owners: Owners, name: str, uid: str = "") -> str | None:
    found = await owners.origin(HERE, MAPS, name, uid)
    return found.root["metadata"]["name"] if found else None


async def test_root_is_the_first_object_with_a_manifest(owners: Owners, world: World) -> None:
    work = "karmada-es-branch-a/web-1"
    top = seed(world, "top", work)
    middle = seed(world, "middle", work, top)
    seed(world, "bottom", "", middle)
    for name in ("top", "middle", "bottom"):
        assert await root(owners, name) == "top"


async def test_a_work_without_that_manifest_is_better_than_none(
    owners: Owners, world: World
) -> None:
    seed(world, "forged", "karmada-es-branch-a/web-1")
    found = await owners.origin(HERE, MAPS, "forged")
    assert found is not None
    work = owners.work("branch-a", found)
    assert work is not None
    assert manifest_of(work, found.root, "edge") is None


@pytest.mark.parametrize("work", ["", "karmada-es-branch-b/web-1", "karmada-es-branch-a/gone"])
async def test_work_of_others_does_not_count(owners: Owners, world: World, work: str) -> None:
    seed(world, "top", work)
    assert await root(owners, "top") is None


async def test_owner_of_another_uid_does_not_count(owners: Owners, world: World) -> None:
    top = seed(world, "top", "karmada-es-branch-a/web-1")
    top["metadata"]["uid"] = "another"
    seed(world, "bottom", owner=top)
    assert await root(owners, "bottom") is None


async def test_cached_owner_costs_no_request(owners: Owners, world: World) -> None:
    uid = seed(world, "top", "karmada-es-branch-a/web-1")["metadata"]["uid"]
    assert await root(owners, "top", uid) == "top"
    world.forget_requests()
    assert await root(owners, "top", uid) == "top"
    assert world.host.requests == []
    elsewhere = HERE._replace(host="shop-v-branch-a", virtual="shop")
    assert await owners.origin(elsewhere, MAPS, "top", uid) is None
    assert await root(owners, "other", uid) is None
    assert await root(owners, "top", "another") is None


async def test_circle_of_owners_ends(owners: Owners, world: World) -> None:
    first = seed(world, "first")
    second = seed(world, "second", owner=first)
    seed(world, "first", owner=second)
    assert await root(owners, "first") is None


@pytest.mark.parametrize("name", ["top/status", "..", "top%2Fstatus"])
async def test_name_that_is_a_path_names_nothing(owners: Owners, world: World, name: str) -> None:
    seed(world, "top", "karmada-es-branch-a/web-1")
    world.forget_requests()
    assert await root(owners, name) is None
    assert world.host.requests == []


@pytest.mark.parametrize(
    "changed", [{"name": "top/status"}, {"kind": "Node"}, {"kind": "Nonsense"}]
)
async def test_owner_that_is_none_in_the_namespace_does_not_count(
    owners: Owners, world: World, changed: Object
) -> None:
    top = seed(world, "top", "karmada-es-branch-a/web-1")
    node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": top["metadata"]}
    world.host.seed({**node, "metadata": {**top["metadata"], "namespace": ""}})
    reference = {"name": "top", "uid": top["metadata"]["uid"], "controller": True}
    reference |= {"apiVersion": "v1", "kind": "ConfigMap"}
    bottom = objects.config_map("bottom", HERE.host)
    bottom["metadata"]["ownerReferences"] = [reference | changed]
    world.host.seed(bottom)
    assert await root(owners, "bottom") is None


async def test_many_names_are_not_remembered(owners: Owners, world: World) -> None:
    top = objects.config_map("top", HERE.host)
    many = "x" * (NAMES_AT_MOST + 1)
    marks = {WORK_ANNOTATION: "karmada-es-branch-a/web-1", NAMES_ANNOTATION: many}
    top["metadata"]["annotations"] = marks
    world.host.seed(top)
    found = await owners.origin(HERE, MAPS, "top")
    assert found is not None
    assert found.root["metadata"]["annotations"] == {}
