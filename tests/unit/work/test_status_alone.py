"""A Work of whose object on the host the status alone changed: reflected, and not applied again."""

from collections.abc import Callable
from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.translate import translate
from karmada_vc_agent.work import manifests
from tests.fakes import objects
from tests.fakes.world import World
from tests.unit.kube.queue_steps import work_off
from tests.unit.work.test_execution import DEPLOYMENT, KEY, WORK, given

READY = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}


class Translated:
    """Counts translations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0

        def counted(*given: Any) -> Any:
            self.count += 1
            return translate(*given)

        monkeypatch.setattr(manifests, "translate", counted)


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> Translated:
    return Translated(monkeypatch)


@pytest.fixture
async def applied(world: World, translated: Translated) -> World:
    """A world with a Deployment that is applied, and execution connected to what it follows."""
    given(world, objects.deployment(replicas=2))
    spec = world.execution
    await spec.reconcile(KEY)
    world.look()
    for source in spec.sources:
        source.connect(spec.queue)
    await work_off(spec.queue)
    await spec.reconcile(KEY)  # the namespace that the first sync made may concern others
    world.look()
    await work_off(spec.queue)
    translated.count = 0
    world.forget_requests()
    return world


def become_ready(world: World) -> None:
    live = world.host.live(DEPLOYMENT)
    observed = {"observedGeneration": live["metadata"]["generation"]}
    world.host.seed({**live, "status": observed | READY})


async def sync(world: World) -> None:
    """Process what is due."""
    world.look()
    key = await world.execution.queue.take()
    assert key == KEY
    await world.execution.reconcile(key)
    world.execution.queue.done(key)


def is_reflected(world: World) -> bool:
    (entry,) = world.hub.live(WORK)["status"]["manifestStatuses"]
    return bool(entry["health"] == "Healthy" and entry["status"]["readyReplicas"] == 2)


async def test_status_is_reflected_without_a_translation(
    applied: World, translated: Translated
) -> None:
    before = applied.hub.live(WORK)["status"]["conditions"]
    become_ready(applied)
    await sync(applied)
    assert is_reflected(applied)
    assert applied.hub.live(WORK)["status"]["conditions"] == before
    assert [each.method for each in applied.hub.writes()] == ["PUT"]
    assert (applied.host.writes(), translated.count) == ([], 0)


async def test_the_last_of_several_statuses_is_reflected(
    applied: World, translated: Translated
) -> None:
    live = applied.host.live(DEPLOYMENT)
    applied.host.seed({**live, "status": {"replicas": 1}})
    applied.look()
    become_ready(applied)
    await sync(applied)
    assert (is_reflected(applied), translated.count) == (True, 0)


def drift(world: World) -> None:
    spec = world.host.live(DEPLOYMENT)["spec"]
    world.host.change(DEPLOYMENT, spec={**spec, "replicas": 7})


def relabel(world: World) -> None:
    metadata = world.host.live(DEPLOYMENT)["metadata"]
    labels = {**metadata["labels"], "work.karmada.io/permanent-id": "x"}
    world.host.change(DEPLOYMENT, metadata={**metadata, "labels": labels})


def change_work(world: World) -> None:
    given(world, objects.deployment(replicas=3))


@pytest.mark.parametrize("other", [drift, relabel, change_work])
@pytest.mark.parametrize("is_first", [False, True])
async def test_all_is_synced_if_anything_else_changed(
    applied: World, translated: Translated, other: Callable[[World], None], *, is_first: bool
) -> None:
    for change in (other, become_ready) if is_first else (become_ready, other):
        change(applied)
        applied.look()
    await sync(applied)
    assert translated.count > 0
    assert applied.host.live(DEPLOYMENT)["spec"]["replicas"] == (3 if other is change_work else 2)


async def test_a_change_together_with_the_status_is_put_right(
    applied: World, translated: Translated
) -> None:
    drift(applied)
    become_ready(applied)
    await sync(applied)
    assert translated.count > 0
    assert applied.host.live(DEPLOYMENT)["spec"]["replicas"] == 2


def suspend(world: World) -> None:
    world.virtual_clusters.put(objects.virtual_cluster(paused=True))


def fail(world: World) -> None:
    status = world.hub.live(WORK)["status"]
    conditions = [{**each, "status": "False"} for each in status["conditions"]]
    world.hub.seed({**world.hub.live(WORK), "status": {**status, "conditions": conditions}})


def be_not_ready(world: World) -> None:
    world.register(ready="Unknown")


@pytest.mark.parametrize("state", [suspend, fail])
async def test_a_work_that_is_not_as_applied_is_synced(
    applied: World, translated: Translated, state: Callable[[World], None]
) -> None:
    state(applied)
    applied.look()
    live = applied.host.live(DEPLOYMENT)
    applied.execution.queue.reasons[KEY] = {**live, "status": READY}
    await applied.execution.reconcile(KEY)
    assert translated.count > 0


async def test_objects_elsewhere_are_not_those_of_the_manifest(
    applied: World, translated: Translated
) -> None:
    live = applied.host.live(DEPLOYMENT)
    for changed in ({"namespace": "other-v-branch-a"}, {"name": "other"}):
        other: Object = {**live, "metadata": {**live["metadata"], **changed}, "status": READY}
        applied.execution.queue.reasons[KEY] = other
        await applied.execution.reconcile(KEY)
        assert translated.count > 0
        translated.count = 0
        assert not is_reflected(applied)


async def test_a_work_of_several_manifests_is_synced(world: World, translated: Translated) -> None:
    given(world, objects.deployment(replicas=2), objects.config_map())
    await world.execution.reconcile(KEY)
    world.look()
    translated.count = 0
    live = world.host.live(DEPLOYMENT)
    world.execution.queue.reasons[KEY] = {**live, "status": READY}
    await world.execution.reconcile(KEY)
    assert translated.count == 2
    assert not world.execution.queue.reasons


async def test_nothing_is_kept_of_a_deleted_work(applied: World) -> None:
    become_ready(applied)
    await sync(applied)
    current = applied.common.held_changes.current
    assert KEY in current
    applied.hub.remove(WORK)
    applied.look()
    await work_off(applied.execution.queue)
    await applied.execution.reconcile(KEY)
    assert not current
