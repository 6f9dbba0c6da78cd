"""ExecutionController: what one manifest brings up costs that manifest, and is told."""

from typing import Any, cast

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.controller import ControllerSpec, RetryError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.translate import MAX_LEVELS
from karmada_vc_agent.work.manifests import Manifests
from karmada_vc_agent.work.reporting import WorkManifest
from tests.fakes import objects
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
SETTINGS = "/api/v1/namespaces/edge-v-branch-a/configmaps/settings"
ODD_SHAPES: list[Any] = [None, 7, "text", [], {}, [7], [[]], {"a": 1}, [{}], [None]]
PATHS = [
    ("spec",),
    ("spec", "template"),
    ("spec", "template", "spec"),
    ("spec", "template", "spec", "containers"),
    ("spec", "template", "spec", "nodeSelector"),
    ("spec", "template", "spec", "affinity"),
    ("spec", "template", "spec", "tolerations"),
    ("spec", "template", "spec", "volumes"),
    ("spec", "template", "metadata"),
    ("spec", "selector"),
    ("metadata", "namespace"),
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("metadata", "ownerReferences"),
    ("metadata", "finalizers"),
    ("metadata",),
    ("kind",),
    ("apiVersion",),
    ("status",),
]


def nested(levels: int) -> Any:
    value: Any = "leaf"
    for _ in range(levels):
        value = {"a": value}
    return value


def applied(world: World) -> Object:
    found: list[Object] = world.hub.live(WORK)["status"]["conditions"]
    return next(c for c in found if c["type"] == "Applied")


def given(world: World, *manifests: Any) -> None:
    """Put a registered, ready Cluster and a Work there."""
    if world.hub.find(f"{CLUSTERS_PATH}/branch-a") is None:
        world.register()
    world.hub.seed(objects.work(*manifests))
    world.look()


def put(obj: Object, path: tuple[str, ...], value: Any) -> Object:
    for step in path[:-1]:
        obj = obj[step]
    obj[path[-1]] = value
    return obj


@pytest.mark.parametrize("path", PATHS, ids=".".join)
async def test_odd_manifest_costs_none_of_the_others(world: World, path: tuple[str, ...]) -> None:
    manifests = []
    for number, shape in enumerate(ODD_SHAPES):
        manifest = objects.deployment()
        manifest["metadata"]["name"] = f"web-{number}"
        put(manifest, path, shape)
        manifests.append(manifest)
    given(world, *manifests, objects.config_map())
    try:
        await world.execution.reconcile(KEY)
    except RetryError:
        assert applied(world)["status"] == "False"
    assert world.host.find(SETTINGS) is not None
    assert "Dispatching" in {c["type"] for c in world.hub.live(WORK)["status"]["conditions"]}


async def test_what_is_no_manifest_is_refused(world: World) -> None:
    given(world, 7, None, "text", ["a"], objects.config_map())
    await world.execution.reconcile(KEY)
    assert applied(world)["message"].startswith("Failed to apply all manifests (1/5): ")
    assert "ManifestInvalid: apiVersion is not set" in applied(world)["message"]
    assert world.host.find(SETTINGS) is not None


@pytest.mark.parametrize("levels", [MAX_LEVELS, 249, 250, 255])
async def test_manifest_nested_too_deep_is_refused_and_reported_to_the_hub(
    world: World, levels: int
) -> None:
    deep = objects.config_map() | {"data": nested(levels)}
    deep["metadata"]["name"] = "deep"
    given(world, deep, objects.config_map())
    await world.execution.reconcile(KEY)
    assert f"ManifestInvalid: it is nested deeper than {MAX_LEVELS}" in applied(world)["message"]
    assert world.host.find(SETTINGS) is not None


async def test_manifest_as_deep_as_is_allowed_is_applied(world: World) -> None:
    given(world, objects.config_map() | {"data": nested(MAX_LEVELS - 1)})
    await world.execution.reconcile(KEY)
    assert applied(world)["status"] == "True"


async def test_status_nested_too_deep_is_left_out(world: World) -> None:
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": objects.managed("one", "edge"),
    }
    given(world, widget)
    await world.execution.reconcile(KEY)
    path = "/apis/example.com/v1/namespaces/edge-v-branch-a/widgets/one"
    world.host.change(path, status=nested(MAX_LEVELS + 1))
    world.look()
    await world.execution.reconcile(KEY)
    (entry,) = world.hub.live(WORK)["status"]["manifestStatuses"]
    assert "status" not in entry
    assert entry["health"] == "Healthy"


class Failing:
    """Manifests with a bug that some manifest meets; all else is the real one's."""

    def __init__(self, real: Manifests, *methods: str) -> None:
        self._real = real
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name not in self._methods:
            return real

        async def fail_once(item: WorkManifest, **more: object) -> object:
            if item.manifest["metadata"]["name"] == "odd":
                raise TypeError("unhashable type: 'list' of ../edge-v-branch-a")
            return await real(item, **more)

        return fail_once


def odd() -> Object:
    manifest = objects.config_map()
    manifest["metadata"]["name"] = "odd"
    return manifest


def failing(world: World, *methods: str) -> ControllerSpec[tuple[str, str]]:
    works = world.parts.works
    works.manifests = cast("Manifests", Failing(works.manifests, *methods))
    return world.execution


async def test_fault_of_ours_is_the_failure_of_its_manifest_and_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    given(world, odd(), objects.config_map())
    execution = failing(world, "apply", "cached")
    for _ in range(3):
        with pytest.raises(RetryError):
            await execution.reconcile(KEY)
    assert applied(world)["message"] == (
        "Failed to apply all manifests (1/2): internal error (TypeError): see the log of the agent"
    )
    assert world.host.find(SETTINGS) is not None
    assert len([r for r in caplog.records if r.exc_info]) == 1


async def test_fault_outside_of_the_manifests_takes_applied_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(world, objects.config_map())
    await world.execution.reconcile(KEY)
    assert applied(world)["status"] == "True"
    world.restart()
    monkeypatch.setattr(world.parts.common.metrics, "work_synced", _raise)
    with pytest.raises(KeyError):
        await world.execution.reconcile(KEY)
    assert applied(world)["status"] == "False"
    assert "internal error (KeyError)" in applied(world)["message"]


def _raise(*_: object) -> None:
    raise KeyError("a bug")
