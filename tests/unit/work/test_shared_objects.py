"""SharedObjects: owners come and go on a server, and what waits is looked at again."""

import pytest

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.objects import GroupVersionKind, Object, put
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from karmada_vc_agent.translation.kind_policy import Code, RefusedError
from karmada_vc_agent.translation.translate import mark_as_shared
from karmada_vc_agent.work.rules.apply_plan import owners_of
from tests.fakes import objects
from tests.fakes.world import World

CRDS = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = f"{PATH}/widgets.example.com"


def crd(scope: str = "Namespaced") -> Object:
    obj: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": "widgets"},
            "versions": [{"name": "v1", "served": True}],
        },
    }
    mark_as_shared(obj)
    return obj


def crd_with(*versions: str) -> Object:
    obj = crd()
    obj["spec"]["versions"] = [{"name": name, "served": True} for name in versions]
    mark_as_shared(obj)
    return obj


async def join(world: World, cluster: str, obj: Object | None = None) -> None:
    resource = await world.find_resource(CRDS)
    assert resource is not None
    await world.shared_objects.apply(
        resource, obj or crd(), cluster, f"karmada-es-{cluster}/widgets", lambda wanted, _: wanted
    )


async def leave(world: World, cluster: str, *, preserve: bool = False) -> None:
    resource = await world.find_resource(CRDS)
    assert resource is not None
    await world.shared_objects.leave(
        resource,
        "widgets.example.com",
        cluster,
        f"karmada-es-{cluster}/widgets",
        preserve=preserve,
    )


async def test_one_that_is_being_deleted_is_waited_for(world: World) -> None:
    await join(world, "branch-a")
    world.host.seed(going(world.host.live(WIDGETS)))
    with pytest.raises(RetryError):
        await join(world, "branch-b")


def going(live: Object) -> Object:
    stamps = {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["x/y"]}
    return {**live, "metadata": live["metadata"] | stamps}


async def test_two_share_one_object_and_the_last_one_deletes_it(world: World) -> None:
    await join(world, "branch-a")
    await join(world, "branch-b")
    assert set(owners_of(world.host.live(WIDGETS))) == {"branch-a", "branch-b"}
    await leave(world, "branch-a")
    assert set(owners_of(world.host.live(WIDGETS))) == {"branch-b"}
    await leave(world, "branch-b")
    assert world.host.find(WIDGETS) is None


async def test_difference_is_refused_without_naming_others(world: World) -> None:
    await join(world, "branch-a")
    with pytest.raises(RefusedError) as caught:
        await join(world, "branch-b", crd(scope="Cluster"))
    assert caught.value.refusal.code is Code.SHARED_OBJECT_CONFLICT
    assert caught.value.refusal.detail == (
        "differs from the object owned by other virtual clusters at spec.scope"
    )
    assert "branch-a" not in caught.value.refusal.detail


async def test_kinds_of_a_group_that_the_host_serves_are_the_hosts(world: World) -> None:
    world.host.answer(b"{}", path="/apis/example.com")
    with pytest.raises(RefusedError) as caught:
        await join(world, "branch-a")
    assert caught.value.refusal.path == "spec.group"
    assert world.host.find(WIDGETS) is None


async def test_group_of_a_shared_definition_takes_more(world: World) -> None:
    await join(world, "branch-a")
    world.host.answer(b"{}", path="/apis/example.com")
    gadgets = put(crd(), "gadgets.example.com", "metadata", "name")
    await join(world, "branch-b", put(gadgets, "gadgets", "spec", "names", "plural"))
    assert world.host.find(f"{PATH}/gadgets.example.com")


async def test_definition_with_objects_stays_and_belongs_to_no_one(world: World) -> None:
    await join(world, "branch-a")
    world.host.seed(
        {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "namespace": "edge"},
        }
    )
    await leave(world, "branch-a")
    assert owners_of(world.host.live(WIDGETS)) == {}


async def test_what_was_retained_is_held_to_the_rules_and_keeps_its_owners(world: World) -> None:
    await join(world, "branch-a", crd_with("v1"))

    def check(retained: Object, live: Object | None) -> Object:
        assert live is not None
        return put(retained, "Cluster", "spec", "scope")

    resource = await world.find_resource(CRDS)
    assert resource is not None
    work = "karmada-es-branch-a/widgets"
    await world.shared_objects.apply(resource, crd_with("v1", "v2"), "branch-a", work, check)
    live = world.host.live(WIDGETS)
    assert live["spec"]["scope"] == "Cluster"
    assert set(owners_of(live)) == {"branch-a"}


async def test_preserved_object_stays_and_belongs_to_no_one(world: World) -> None:
    await join(world, "branch-a")
    await leave(world, "branch-a", preserve=True)
    assert owners_of(world.host.live(WIDGETS)) == {}


async def test_leaving_a_deleted_object_is_fine(world: World) -> None:
    await leave(world, "branch-a")
    assert world.host.find(WIDGETS) is None


async def test_write_that_met_a_newer_object_is_planned_again(world: World) -> None:
    await join(world, "branch-a")
    world.look()
    metadata = world.host.live(WIDGETS)["metadata"]
    labels = {**metadata["labels"], "other": "writer"}
    world.host.change(WIDGETS, metadata={**metadata, "labels": labels})
    await join(world, "branch-b")
    assert set(owners_of(world.host.live(WIDGETS))) == {"branch-a", "branch-b"}


async def test_change_is_notified_to_all_owners_of_the_object(world: World) -> None:
    await join(world, "branch-a")
    await join(world, "branch-b")
    world.shared_objects.follow(None, world.host.live(WIDGETS))
    assert set(world.enqueued) == {("branch-a", "widgets"), ("branch-b", "widgets")}
    world.enqueued.clear()
    await leave(world, "branch-a")
    world.enqueued.clear()
    world.shared_objects.follow(None, world.host.live(WIDGETS))
    assert world.enqueued == [("branch-b", "widgets")]


async def test_writer_notifies_the_other_owners_at_once(world: World) -> None:
    """An informer tells no more of what its own writer has observed before the watch came."""
    await join(world, "branch-a")
    assert world.enqueued == []
    await join(world, "branch-b")
    assert world.enqueued == [("branch-a", "widgets")]
    world.enqueued.clear()
    with pytest.raises(RefusedError):
        await join(world, "branch-a", crd_with("v1", "v2"))
    assert world.enqueued == [("branch-b", "widgets")], "its wish may be what the other waits for"
    world.enqueued.clear()
    await join(world, "branch-b", crd_with("v1", "v2"))
    assert world.enqueued == [("branch-a", "widgets")]
    world.enqueued.clear()
    await leave(world, "branch-b")
    assert world.enqueued == [("branch-a", "widgets")]


async def test_work_with_a_shared_object_that_differs_is_refused_for_good(world: World) -> None:
    await join(world, "branch-b")
    world.register()
    manifest = crd(scope="Cluster")
    manifest["metadata"] = {"name": "widgets.example.com"}
    world.hub.seed(objects.work(manifest))
    world.look()
    await world.execution.reconcile(("branch-a", "web-1"))
    assert list(world.memory.refusals()) == [("branch-a", "SharedObjectConflict")]


def widget(cluster: str = "") -> Object:
    obj: Object = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": f"w-{cluster or 'host'}", "namespace": f"edge-v-{cluster or 'host'}"},
    }
    obj["metadata"]["labels"] = {CLUSTER_LABEL: cluster} if cluster else {}
    return obj


async def test_definition_that_says_less_is_not_changed_either(world: World) -> None:
    open_, closed = crd(), crd()
    for obj, schema in ((open_, {"type": "object", "open": True}), (closed, {"type": "object"})):
        obj["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    await join(world, "branch-a", open_)
    world.host.seed(widget("branch-b"))
    with pytest.raises(RefusedError):
        await join(world, "branch-a", closed)
    await join(world, "branch-b", closed)
    assert "'open'" in str(world.host.live(WIDGETS))
    await join(world, "branch-a", closed)
    assert "'open'" not in str(world.host.live(WIDGETS))


@pytest.mark.parametrize("other", ["branch-b", ""])
async def test_definition_is_not_changed_under_objects_of_those_who_do_not_bring_it(
    world: World, other: str
) -> None:
    await join(world, "branch-a")
    world.host.seed(widget("branch-a"))
    changed = crd()
    changed["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object"}}
    world.host.seed(widget(other))
    with pytest.raises(RefusedError) as caught:
        await join(world, "branch-a", changed)
    assert caught.value.refusal.code is Code.SHARED_OBJECT_CONFLICT
    assert "branch-b" not in caught.value.refusal.detail
    assert "schema" not in str(world.host.live(WIDGETS))
    if other:  # who brings it too has agreed
        await join(world, other)
        with pytest.raises(RefusedError):
            await join(world, "branch-a", changed)
        await join(world, other, changed)
        assert "schema" in str(world.host.live(WIDGETS))


async def test_last_owner_does_not_delete_what_a_neighbour_has_just_joined(world: World) -> None:
    await join(world, "branch-a")
    await join(world, "branch-b")
    both = world.host.live(WIDGETS)["metadata"]
    await leave(world, "branch-b")
    world.look()

    def join_again() -> None:
        version = world.host.live(WIDGETS)["metadata"]["resourceVersion"]
        world.host.change(WIDGETS, metadata={**both, "resourceVersion": version})

    world.host.before("DELETE", WIDGETS, join_again)
    await leave(world, "branch-a")
    assert set(owners_of(world.host.live(WIDGETS))) == {"branch-b"}
