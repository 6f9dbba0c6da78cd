"""What looks like a change of a status alone and is a whole sync: large objects, adopted ones."""

from collections.abc import Callable

import pytest

from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.model.objects import Object, annotations_of, dig
from karmada_vc_agent.model.vocabulary import KEPT_PLACEMENT_ANNOTATION, WORK_ANNOTATION
from karmada_vc_agent.work.memory_bounds import KeptObjects, ObjectIdentity
from tests.fakes import objects
from tests.fakes.world import World
from tests.unit.kube.queue_steps import work_off
from tests.unit.work.test_execution import DEPLOYMENT, KEY, SETTINGS, given
from tests.unit.work.test_status_alone import READY, become_ready, is_reflected, sync


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
