"""Defaults of claimed namespaces: made before anything else, put right, taken away."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import ApplyAs, VirtualNamespace
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from karmada_vc_agent.work.namespace_writer import RESOURCES
from tests.fakes import objects
from tests.fakes.world import World, new_world

EDGE = VirtualNamespace("edge")
HOST = "edge-v-branch-a"
QUOTA = f"/api/v1/namespaces/{HOST}/resourcequotas/vc-quota"
LIMITS = f"/api/v1/namespaces/{HOST}/limitranges/vc-limits"
POLICY = f"/apis/networking.k8s.io/v1/namespaces/{HOST}/networkpolicies/vc-isolation"
BINDING = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{HOST}/rolebindings/vc:apply-as"
ALL: dict[str, Any] = {
    "quota": {"pods": "4"},
    "limits": ({"type": "Container", "default": {"cpu": "1"}},),
    "network_policy": "isolate",
    "apply_as": ApplyAs("tenants", "a", "edit"),
}


def look(world: World) -> None:
    """Make all stores of defaults equal to the host, as synced informers would."""
    for resource in RESOURCES.values():
        world.store_of(resource)
    world.look()
    world.forget_requests()


async def test_defaults_are_there_before_the_namespace_is_used() -> None:
    async with new_world(objects.virtual_cluster(**ALL)) as world:
        await world.namespace_writer.claim(world.vc(), EDGE)
        for path in (QUOTA, LIMITS, POLICY, BINDING):
            assert world.host.live(path)["metadata"]["labels"][CLUSTER_LABEL] == "branch-a"
        assert world.host.live(QUOTA)["spec"]["hard"] == {"pods": "0"}
        world.forget_requests()
        await world.namespace_writer.claim(world.vc(), EDGE)
        assert world.host.requests == []


@pytest.mark.parametrize("is_in_flight", [False, True])
async def test_defaults_of_changed_settings_are_there_before_the_namespace_is_used(
    *, is_in_flight: bool
) -> None:
    """Also where the sync that needs it began before they changed."""
    async with new_world(objects.virtual_cluster()) as world:
        before = world.vc()
        await world.namespace_writer.claim(before, EDGE)
        look(world)
        world.virtual_clusters.put(objects.virtual_cluster(**ALL))
        await world.namespace_writer.claim(before if is_in_flight else world.vc(), EDGE)
        for path in (LIMITS, POLICY):
            assert world.host.find(path) is not None


async def test_no_one_is_bound_before_the_bounds_are_there() -> None:
    async with new_world(objects.virtual_cluster(**ALL)) as world:
        await world.namespace_writer.claim(world.vc(), EDGE)
        made = [request.path.rpartition("/")[2] for request in world.host.writes()]
        assert made.index("rolebindings", made.index("limitranges")) == len(made) - 1
        assert "resourcequotas" in made[:-1]


async def test_defaults_that_are_right_cost_no_request() -> None:
    async with new_world(objects.virtual_cluster(**ALL)) as world:
        await world.namespace_writer.claim(world.vc(), EDGE)
        look(world)
        await world.namespaces.reconcile(("branch-a", EDGE))
        assert world.host.requests == []


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (LIMITS, {"spec": {"limits": []}}),
        (POLICY, {"spec": {"podSelector": {}, "ingress": [{}]}}),
        (BINDING, {"subjects": []}),
        (BINDING, {"roleRef": {"kind": "ClusterRole", "name": "view"}}),
        (POLICY, None),
        (QUOTA, None),
    ],
)
async def test_default_changed_or_deleted_is_put_right(path: str, change: Object | None) -> None:
    async with new_world(objects.virtual_cluster(**ALL)) as world:
        await world.namespace_writer.claim(world.vc(), EDGE)
        before = world.host.live(path)
        world.host.remove(path)
        if change is not None:
            world.host.seed({**before, **change})
        look(world)
        await world.namespaces.reconcile(("branch-a", EDGE))
        after = world.host.live(path)
        for part in ("spec", "subjects", "roleRef"):
            assert after.get(part) == before.get(part)


async def test_default_without_its_label_is_recovered() -> None:
    async with new_world(objects.virtual_cluster(**ALL)) as world:
        await world.namespace_writer.claim(world.vc(), EDGE)
        for path in (QUOTA, LIMITS):
            live = world.host.live(path)
            world.host.seed({**live, "metadata": {**live["metadata"], "labels": {}}})
        look(world)
        await world.namespaces.reconcile(("branch-a", EDGE))
        for path in (QUOTA, LIMITS):
            assert world.host.live(path)["metadata"]["labels"][CLUSTER_LABEL] == "branch-a"


async def test_defaults_go_with_their_settings() -> None:
    async with new_world(objects.virtual_cluster(**ALL)) as world:
        await world.namespace_writer.claim(world.vc(), EDGE)
        look(world)
        world.virtual_clusters.put(objects.virtual_cluster())
        await world.namespaces.reconcile(("branch-a", EDGE))
        assert [world.host.find(path) for path in (QUOTA, LIMITS, POLICY, BINDING)] == [None] * 4


async def test_namesake_of_a_default_that_is_not_ours_stays() -> None:
    async with new_world(objects.virtual_cluster()) as world:
        await world.namespace_writer.claim(world.vc(), EDGE)
        metadata: dict[str, Any] = {"name": "vc-quota", "namespace": HOST}
        world.host.seed({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata})
        look(world)
        await world.namespaces.reconcile(("branch-a", EDGE))
        assert world.host.find(QUOTA) is not None


async def test_defaults_leave_a_namespace_that_is_given_up() -> None:
    vc = objects.virtual_cluster(adopt_namespaces=(HOST,), **ALL)
    async with new_world(vc) as world:
        world.host.seed(objects.namespace(HOST))
        await world.namespace_writer.claim(vc, EDGE)
        look(world)
        await world.namespace_writer.release(vc, EDGE, preserve=False)
        assert world.host.find(f"/api/v1/namespaces/{HOST}") is not None
        assert [world.host.find(path) for path in (QUOTA, LIMITS, POLICY, BINDING)] == [None] * 4


async def test_recreated_namespace_is_equipped_again() -> None:
    async with new_world(objects.virtual_cluster(**ALL)) as world:
        await world.namespace_writer.claim(world.vc(), EDGE)
        for path in (QUOTA, LIMITS, POLICY, BINDING, f"/api/v1/namespaces/{HOST}"):
            world.host.remove(path)
        look(world)
        await world.namespace_writer.claim(world.vc(), EDGE)
        assert world.host.live(QUOTA)["spec"]["hard"] == {"pods": "0"}
