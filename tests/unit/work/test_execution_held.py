"""ExecutionController where an administrator holds a namespace of the host."""

import asyncio

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.controller import Requeue, RetryError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import HOLD_ANNOTATION
from tests.fakes import objects
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
NAMESPACE = "/api/v1/namespaces/edge-v-branch-a"
SETTINGS = f"{NAMESPACE}/configmaps/settings"


async def given(world: World, value: str = "1") -> None:
    if world.hub.find(f"{CLUSTERS_PATH}/branch-a") is None:
        world.register()
    work = objects.work(objects.config_map(value=value))
    if world.hub.find(WORK) is None:
        world.hub.seed(work)
    else:
        world.hub.change(WORK, spec=work["spec"])
    await sync(world)


async def sync(world: World) -> None:
    world.look()
    world.forget_requests()
    outcome = await world.execution.reconcile(KEY)
    if isinstance(outcome, Requeue):
        world.execution.queue.rest(KEY, outcome.dependencies)
    world.look()


def hold(world: World, reason: str | None) -> None:
    live = world.host.live(NAMESPACE)
    annotations = {k: v for k, v in live["metadata"]["annotations"].items() if k != HOLD_ANNOTATION}
    if reason is not None:
        annotations[HOLD_ANNOTATION] = reason
    world.host.seed({**live, "metadata": {**live["metadata"], "annotations": annotations}})
    world.look()


def applied(world: World) -> Object:
    found: list[Object] = world.hub.live(WORK)["status"]["conditions"]
    return next(c for c in found if c["type"] == "Applied")


async def test_nothing_is_written_in_a_held_namespace_and_the_work_says_why(world: World) -> None:
    await given(world)
    hold(world, "belt stopped")
    await given(world, value="2")
    assert world.host.writes() == []
    assert world.host.live(SETTINGS)["data"] == {"value": "1"}
    assert applied(world)["status"] == "False"
    assert "NamespaceHeld" in applied(world)["message"]
    assert "belt stopped" in applied(world)["message"]
    assert "edge-v-branch-a" not in applied(world)["message"]


async def test_drift_and_deletion_wait_for_the_hold_as_well(world: World) -> None:
    await given(world)
    hold(world, "true")
    world.host.seed({**world.host.live(SETTINGS), "data": {"value": "by hand"}})
    await sync(world)
    assert world.host.live(SETTINGS)["data"] == {"value": "by hand"}
    world.hub.mark_deleted(WORK)
    with pytest.raises(RetryError, match="NamespaceHeld"):
        await sync(world)
    assert world.host.find(SETTINGS) is not None
    hold(world, None)
    await sync(world)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is None


async def test_work_is_enqueued_when_the_hold_is_taken_off(world: World) -> None:
    await given(world)
    hold(world, "true")
    await given(world, value="2")
    queue = world.execution.queue
    for source in world.execution.sources:
        source.connect(queue)
    hold(world, None)
    await asyncio.sleep(1.0)
    assert KEY in [await queue.take() for _ in range(len(queue))]
    await sync(world)
    assert world.host.live(SETTINGS)["data"] == {"value": "2"}
    assert applied(world)["status"] == "True"


async def test_work_that_needs_no_write_stays_applied(world: World) -> None:
    await given(world)
    hold(world, "true")
    await sync(world)
    assert applied(world)["status"] == "True"
    hold(world, "false")
    await given(world, value="2")
    assert world.host.live(SETTINGS)["data"] == {"value": "2"}


async def test_hold_is_reported_on_the_cluster_when_it_begins_and_ends(world: World) -> None:
    await given(world)
    hold(world, "belt stopped")
    assert world.parts.common.stores.claims.held_in("branch-a") == ["edge (belt stopped)"]
    hold(world, None)
    assert world.parts.common.stores.claims.held_in("branch-a") == []
    told = [(reason, text) for kind, reason, text in await world.events() if kind == "Cluster"]
    assert told == [
        ("NamespaceHeld", "the agent writes nothing in namespace edge: belt stopped"),
        ("NamespaceReleased", "namespace edge is not held any more"),
    ]


async def test_annotation_on_a_namespace_that_is_not_claimed_holds_nothing(world: World) -> None:
    namespace = objects.namespace("agents", annotations={HOLD_ANNOTATION: "true"})
    world.host.seed(namespace)
    world.look()
    assert world.parts.common.stores.claims.refusal("/api/v1/namespaces/agents/secrets/x") is None
