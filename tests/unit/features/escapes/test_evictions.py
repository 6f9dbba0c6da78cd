"""Evictions: which pods are evicted, when, and what is told of it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from karmada_vc_agent.features.escapes import feature as escapes
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.errors import TooManyRequestsError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import LabelSelector
from tests.fakes import objects
from tests.fakes.world import World, new_world

NAMESPACE = "edge-v-branch-a"
KEY = (NAMESPACE, "web-x")
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/web-x"
EVICTION = f"{POD}/eviction"
NODE = "/api/v1/nodes/n1"
DAMPING_S = 30.0
OF_A = {"branch": "a"}


def pod(**changed: Any) -> Object:
    made = objects.pod("web-x", NAMESPACE, "n1", nodeSelector=OF_A)
    return {**made, **changed, "metadata": {**made["metadata"], **changed.get("metadata", {})}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Node n1 left branch-a, where pod web-x ran, which is to be evicted."""
    vcs = (
        objects.virtual_cluster(on_node_leave="Evict"),
        objects.virtual_cluster("branch-b", on_node_leave="Evict"),
    )
    async with new_world(*vcs) as world:
        for name in ("branch-a", "branch-b"):
            world.register(name)
        claims = (objects.claimed(), objects.claimed("branch-b"))
        world.host.seed(objects.node("n1", {"branch": "b"}), *claims, pod())
        world.look()
        world.host.answer(b"{}", 201, path=EVICTION, times=9)
        world.forget_requests()
        yield world


async def settle(world: World) -> None:
    """Reconcile, and once more after the node has been away for long enough."""
    spec = world.spec(escapes.setup_evictions)
    outcome = await spec.reconcile(KEY)
    if outcome is not None:
        world.skipped_s += outcome.after_s
        await spec.reconcile(KEY)


async def test_pod_on_a_node_that_left_is_evicted_after_a_while(world: World) -> None:
    spec = world.spec(escapes.setup_evictions)
    assert await spec.reconcile(KEY) == Requeue(DAMPING_S)
    assert world.host.writes() == []
    world.skipped_s += DAMPING_S
    assert await spec.reconcile(KEY) is None
    (request,) = world.host.writes()
    live = world.host.live(POD)
    assert (request.method, request.path) == ("POST", EVICTION)
    assert request.body["deleteOptions"] == {"preconditions": {"uid": live["metadata"]["uid"]}}
    text = 'evicted pod edge/web-x: its node left virtual cluster "branch-a"'
    assert await world.events() == [("Cluster", "PodEvicted", text)]


async def test_node_that_returns_in_time_costs_no_pod(world: World) -> None:
    spec = world.spec(escapes.setup_evictions)
    await spec.reconcile(KEY)
    world.skipped_s += DAMPING_S - 1.0
    world.host.seed(objects.node("n1", OF_A))
    world.look()
    assert await spec.reconcile(KEY) is None
    world.host.seed(objects.node("n1", {"branch": "b"}))
    world.look()
    assert await spec.reconcile(KEY) == Requeue(DAMPING_S), "it is counted from the start again"
    assert world.host.writes() == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"spec": {"nodeName": "n1"}}, id="never-selected-the-nodes"),
        pytest.param({"spec": {"nodeName": "gone", "nodeSelector": OF_A}}, id="its-node-is-gone"),
        pytest.param({"spec": {"nodeSelector": OF_A}}, id="not-placed-yet"),
        pytest.param({"status": {"phase": "Succeeded"}}, id="finished"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="going"),
    ],
)
async def test_other_pods_stay(world: World, changed: Object) -> None:
    world.host.seed(pod(**changed))
    world.look()
    await settle(world)
    assert world.host.requests == []


@pytest.mark.parametrize(
    "claim",
    [
        objects.claimed("branch-b", host=NAMESPACE),
        objects.claimed("unserved", host=NAMESPACE),
        objects.claimed(agent="another"),
        objects.namespace(NAMESPACE),
    ],
    ids=["of-another", "of-nobody-served", "of-another-agent", "unclaimed"],
)
async def test_pods_of_others_stay(world: World, claim: Object) -> None:
    world.host.seed(claim)
    world.look()
    await settle(world)
    assert world.host.writes() == []


@pytest.mark.parametrize("changed", [{"on_node_leave": "Keep"}, {"paused": True}])
async def test_pods_stay_where_requested(world: World, changed: dict[str, Any]) -> None:
    world.virtual_clusters.put(objects.virtual_cluster(**{"on_node_leave": "Evict", **changed}))
    await settle(world)
    assert world.host.requests == []


async def test_node_that_an_older_virtual_cluster_selects_as_well_did_not_leave() -> None:
    vcs = (
        objects.virtual_cluster(on_node_leave="Evict"),
        objects.virtual_cluster("older", node_selector=LabelSelector({"site": "one"})),
    )
    async with new_world(*vcs) as world:
        world.register(creationTimestamp="2026-01-02T00:00:00Z")
        world.register("older", creationTimestamp="2026-01-01T00:00:00Z")
        world.host.seed(objects.node("n1", {**OF_A, "site": "one"}), objects.claimed(), pod())
        world.look()
        assert world.membership.owner_of("n1") == "older"
        await settle(world)
        assert world.host.writes() == []


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]},
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
    ],
    ids=["its-controller-takes-care", "the-node-runs-it-by-itself"],
)
async def test_pods_kept_by_another_controller_stay(world: World, metadata: Object) -> None:
    world.host.seed(pod(metadata=metadata))
    world.look()
    await settle(world)
    assert world.host.writes() == []
    assert await world.events() == []


async def test_what_the_host_says_by_then_decides(world: World) -> None:
    """Stores may be late: the node is back, or the pod another one."""
    world.host.seed(objects.node("n1", OF_A))
    await settle(world)
    world.host.seed(objects.node("n1", {"branch": "b"}))
    world.host.remove(POD)
    world.host.seed(pod())
    await settle(world)
    assert world.host.writes() == []


async def test_pod_deleted_meanwhile_is_fine(world: World) -> None:
    world.host.remove(POD)
    await settle(world)
    assert world.host.writes() == []


async def test_budget_is_respected_and_reported_once(world: World) -> None:
    spec = world.spec(escapes.setup_evictions)
    await spec.reconcile(KEY)
    world.skipped_s += DAMPING_S
    world.host._faults.clear()
    world.host.fail(
        429, "TooManyRequests", path=EVICTION, times=2, message="it would violate its budget"
    )
    for _ in range(2):
        with pytest.raises(TooManyRequestsError):
            await spec.reconcile(KEY)
    assert len(world.host.asked("POST", EVICTION)) == 2, "it asks again after its back-off only"
    world.host.answer(b"{}", 201, path=EVICTION)
    assert await spec.reconcile(KEY) is None
    held = 'cannot evict pod edge/web-x, whose node left virtual cluster "branch-a"'
    evicted = 'evicted pod edge/web-x: its node left virtual cluster "branch-a"'
    assert await world.events() == [
        ("Cluster", "PodEvictionHeld", f"{held}: it would violate its budget"),
        ("Cluster", "PodEvicted", evicted),
    ]


async def test_nothing_is_evicted_before_the_cluster_is_confirmed_as_ours(world: World) -> None:
    world.hub.remove("/apis/cluster.karmada.io/v1alpha1/clusters/branch-a")
    world.look()
    await settle(world)
    assert world.host.writes() == []
