"""What looks like a change of a status alone, and is synced in full."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from karmada_vc_agent.interpretation.user_hooks import RETAIN, Hook
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    put,
)
from karmada_vc_agent.model.quantity import Size
from karmada_vc_agent.model.virtual_cluster import Bounds
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_LABEL,
    KEPT_PLACEMENT_ANNOTATION,
    WORK_ANNOTATION,
)
from karmada_vc_agent.work.memory_bounds import KeptObjects, ObjectIdentity
from tests.fakes import objects
from tests.fakes.world import World
from tests.unit.kube.queue_steps import work_off
from tests.unit.work.test_execution import DEPLOYMENT, KEY, SETTINGS, applied, given
from tests.unit.work.test_status_alone import READY, become_ready, drift, is_reflected, sync

HOST_NAMESPACE = "/api/v1/namespaces/edge-v-branch-a"
SERVICE = f"{HOST_NAMESPACE}/services/web"


async def start(world: World, manifest: Object) -> None:
    given(world, manifest)
    await follow(world)


async def follow(world: World) -> None:
    """Sync until nothing is due, and connect execution to what it follows."""
    spec = world.execution
    await spec.reconcile(KEY)
    world.look()
    for source in spec.sources:
        source.connect(spec.queue)
    await work_off(spec.queue)
    await spec.reconcile(KEY)
    world.look()
    await work_off(spec.queue)


def hold_identities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have informers keep the identity alone of objects of Works, as beyond `bounds.bytes`."""

    def trim(self: KeptObjects, obj: Object) -> Object:
        whole = RawCodec.trim(self, obj)
        return ObjectIdentity(whole) if WORK_ANNOTATION in annotations_of(whole) else whole

    monkeypatch.setattr(KeptObjects, "trim", trim)


def as_cached(_: pytest.MonkeyPatch) -> None:
    """Leave all as it is."""


cached = pytest.mark.parametrize("cached", [as_cached, hold_identities])
Cached = Callable[[pytest.MonkeyPatch], None]


@cached
async def test_drift_of_a_large_config_map_is_put_right(
    world: World, cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(monkeypatch)
    await start(world, objects.config_map(value="1"))
    world.host.change(SETTINGS, data={"value": "by hand"})
    await sync(world)
    assert world.host.live(SETTINGS)["data"] == {"value": "1"}


@cached
async def test_label_of_a_large_deployment_is_put_right(
    world: World, cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(monkeypatch)
    deployment = objects.deployment(replicas=2)
    deployment["metadata"]["labels"] = {**deployment["metadata"].get("labels", {}), "team": "x"}
    await start(world, deployment)
    metadata = world.host.live(DEPLOYMENT)["metadata"]
    labels = {**metadata["labels"], "team": "y"}
    world.host.change(DEPLOYMENT, metadata={**metadata, "labels": labels})
    await sync(world)
    assert world.host.live(DEPLOYMENT)["metadata"]["labels"]["team"] == "x"


@cached
async def test_status_of_a_large_deployment_is_reflected(
    world: World, cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(monkeypatch)
    await start(world, objects.deployment(replicas=2))
    become_ready(world)
    await sync(world)
    assert is_reflected(world)


async def test_adopted_workload_that_loses_a_pod_is_placed(world: World) -> None:
    world.host.seed(objects.node("own-1", {"branch": "a"}))
    for name in ("p1", "p2"):
        pod = objects.pod(name, "edge-v-branch-a", "own-1")
        pod["metadata"]["labels"] = {"app": "web"}
        world.host.seed(pod)
    given(world, objects.deployment(replicas=2))
    await world.execution.reconcile(KEY)
    live = world.host.live(DEPLOYMENT)
    spec, metadata = live["spec"], live["metadata"]
    placing = ("nodeSelector", "tolerations", "affinity")
    pods = {k: v for k, v in spec["template"]["spec"].items() if k not in placing}
    marks = {**metadata["annotations"], KEPT_PLACEMENT_ANNOTATION: "true"}
    world.host.change(
        DEPLOYMENT,
        metadata={**metadata, "annotations": marks},
        spec={**spec, "template": {**spec["template"], "spec": pods}},
        status={"observedGeneration": 2, **READY},
    )
    world.look()
    await follow(world)
    selector = ("spec", "template", "spec", "nodeSelector")
    live = world.host.live(DEPLOYMENT)
    assert dig(live, *selector) is None, "its pods run on own nodes, where they are"
    world.host.remove("/api/v1/namespaces/edge-v-branch-a/pods/p2")
    world.host.seed({**live, "status": {"observedGeneration": 2, "replicas": 1}})
    await sync(world)
    assert dig(world.host.live(DEPLOYMENT), *selector) == {"branch": "a"}


async def test_drift_while_its_namespace_was_not_claimed_is_put_right(world: World) -> None:
    await start(world, objects.deployment(replicas=2))
    labels = world.host.live(HOST_NAMESPACE)["metadata"]["labels"]
    label(world, HOST_NAMESPACE, {})
    await work_off(world.execution.queue)
    live = world.host.live(DEPLOYMENT)
    world.host.change(DEPLOYMENT, spec={**live["spec"], "replicas": 7})
    world.look()
    assert len(world.execution.queue) == 0, "it is not that of the virtual cluster now"
    label(world, HOST_NAMESPACE, labels)
    await work_off(world.execution.queue)
    become_ready(world)
    await sync(world)
    assert world.host.live(DEPLOYMENT)["spec"]["replicas"] == 2


def delete(world: World) -> None:
    world.host.remove(DEPLOYMENT)


@pytest.mark.parametrize("change", [become_ready, drift, delete])
async def test_change_without_a_claim_is_synced_once_there_is_one_again(
    world: World, change: Callable[[World], None]
) -> None:
    await start(world, objects.deployment(replicas=2))
    labels = world.host.live(HOST_NAMESPACE)["metadata"]["labels"]
    label(world, HOST_NAMESPACE, {})
    await work_off(world.execution.queue)
    change(world)
    world.look()
    label(world, HOST_NAMESPACE, labels)
    assert KEY in await work_off(world.execution.queue)
    await world.execution.reconcile(KEY)
    assert world.host.live(DEPLOYMENT)["spec"]["replicas"] == 2
    assert is_reflected(world) == (change is become_ready)


async def test_node_that_left_is_refused_with_the_next_status(world: World) -> None:
    nodes = [objects.node(name, {"branch": "a"}) for name in ("n1", "n2")]
    world.host.seed(*nodes)
    world.look()
    await start(world, objects.deployment(replicas=2, nodeName="n1"))
    label(world, "/api/v1/nodes/n1", {"branch": "b"})
    await work_off(world.execution.queue)
    become_ready(world)
    await sync(world)
    assert "NodeNameForbidden" in applied(world)["message"]


async def test_large_config_map_that_loses_its_data_gets_it_again(world: World) -> None:
    world.virtual_clusters.put(objects.virtual_cluster(bounds=Bounds(bytes=Size(60_000))))
    filler = objects.config_map("filler", "edge-v-branch-a", "x" * 40_000)
    filler["metadata"]["labels"] = {CLUSTER_LABEL: "branch-a"}
    filler["metadata"]["annotations"] = {WORK_ANNOTATION: "karmada-es-branch-a/other"}
    world.host.seed(objects.claimed(), filler)
    manifest = objects.config_map(value="y" * 30_000)
    del manifest["metadata"]["annotations"]  # an identity has none of them
    resource = await world.find_resource(gvk_of(manifest))
    assert resource is not None
    world.look()
    assert world.store_of(resource) is not None, "the filler counts before"
    await start(world, manifest)
    kept = world.host.live(SETTINGS)
    world.host.seed({key: value for key, value in kept.items() if key != "data"})
    await sync(world)
    assert world.host.live(SETTINGS)["data"] == kept["data"]


async def test_what_is_retained_by_the_status_of_a_service_is_retained(world: World) -> None:
    async def retain(_cluster: str, objs: Sequence[Object]) -> Object:
        desired, observed = objs
        (ingress,) = dig(observed, "status", "loadBalancer", "ingress") or [{}]
        return put(desired, ingress.get("ip"), "spec", "loadBalancerIP")

    world.levels.append(cast(Any, _Retains(Hook(RETAIN, "a customization", retain))))
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": objects.managed("web", "edge")}
    await start(world, {**service, "spec": spec})
    status = {"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}]}}
    world.host.seed({**world.host.live(SERVICE), "status": status})
    await sync(world)
    assert world.host.live(SERVICE)["spec"]["loadBalancerIP"] == "10.1.1.1"


class _Retains:
    """A level of interpretation that has one hook, for Services."""

    name = "declarative"

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def hook(self, kind: GroupVersionKind, operation: str) -> Hook | None:
        return self._hook if (kind.kind, operation) == ("Service", RETAIN) else None


def label(world: World, path: str, labels: dict[str, str]) -> None:
    metadata = world.host.live(path)["metadata"]
    world.host.change(path, metadata={**metadata, "labels": labels})
    world.look()
