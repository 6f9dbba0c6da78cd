"""The controller of namespaces: `default` is made, and what is claimed is put right."""

from typing import Any

import pytest

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.model.vocabulary import CREATED_BY_AGENT_ANNOTATION, NODE_SELECTOR_ANNOTATION
from tests.fakes import objects
from tests.fakes.world import World, new_world

EDGE = VirtualNamespace("edge")
DEFAULT = VirtualNamespace("default")
PATH = "/api/v1/namespaces/edge-v-branch-a"
SELECTOR = {NODE_SELECTOR_ANNOTATION: "branch=a"}


def given(world: World, *found: Object) -> None:
    if found:
        world.host.seed(*found)
    world.look()
    world.forget_requests()


def created(**metadata: Any) -> Object:
    annotations = {CREATED_BY_AGENT_ANNOTATION: "true", **SELECTOR}
    return objects.claimed(annotations=annotations, **metadata)


async def test_default_is_made_once_the_cluster_is_registered(world: World) -> None:
    await world.namespaces.reconcile(("branch-a", DEFAULT))
    assert world.host.writes() == []
    world.register()
    world.look()
    await world.namespaces.reconcile(("branch-a", DEFAULT))
    assert world.host.live("/api/v1/namespaces/default-v-branch-a")


async def test_default_is_not_made_on_demand() -> None:
    async with new_world(objects.virtual_cluster(namespaces="OnDemand")) as world:
        world.register()
        world.look()
        await world.namespaces.reconcile(("branch-a", DEFAULT))
        assert world.host.writes() == []


async def test_default_that_may_not_be_claimed_is_retried(world: World) -> None:
    world.register()
    given(world, objects.namespace("default-v-branch-a"))
    with pytest.raises(RetryError, match="is not claimed by any virtual cluster"):
        await world.namespaces.reconcile(("branch-a", DEFAULT))


async def test_no_other_namespace_is_made_by_itself(world: World) -> None:
    world.register()
    world.look()
    await world.namespaces.reconcile(("branch-a", EDGE))
    assert world.host.writes() == []


@pytest.mark.parametrize("selector", [None, "branch=b", ""])
async def test_selector_changed_by_hand_is_put_right(world: World, selector: str | None) -> None:
    annotations = {} if selector is None else {NODE_SELECTOR_ANNOTATION: selector}
    given(world, objects.claimed(annotations=annotations))
    await world.namespaces.reconcile(("branch-a", EDGE))
    assert annotations_of(world.host.live(PATH)) == SELECTOR


async def test_namespace_that_is_right_costs_no_request(world: World) -> None:
    given(world, created())
    await world.namespaces.reconcile(("branch-a", EDGE))
    assert world.host.writes() == []
    world.forget_requests()  # the first time it was asked whether the rights are there
    await world.namespaces.reconcile(("branch-a", EDGE))
    assert world.host.requests == []


async def test_terminating_namespace_is_not_corrected(world: World) -> None:
    given(
        world,
        objects.claimed(deletionTimestamp=objects.SINCE, finalizers=["example.com/wait"]),
    )
    await world.namespaces.reconcile(("branch-a", EDGE))
    assert world.host.writes() == []


async def test_virtual_cluster_not_in_the_settings_is_left_alone(world: World) -> None:
    given(world, objects.claimed(vc="branch-z"))
    await world.namespaces.reconcile(("branch-z", EDGE))
    assert world.host.writes() == []
