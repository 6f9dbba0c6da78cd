"""The controller of statuses: what execution told is written beside it, the newest once."""

import asyncio

import pytest

from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner import controllers
from tests.fakes import objects
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
STATUS = f"{WORK}/status"
SETTINGS = "/api/v1/namespaces/edge-v-branch-a/configmaps/settings"


@pytest.fixture
def given(world: World) -> World:
    """A Work that is on the host and told of, but not written yet."""
    world.register()
    world.hub.seed(objects.work(objects.config_map()))
    world.look()
    world.forget_requests()
    world.enqueued.clear()
    return world


async def sync(world: World) -> None:
    await world.spec(controllers.execution).reconcile(KEY)


async def write(world: World) -> None:
    await world.spec(controllers.work_status).reconcile(KEY)


def recreated(world: World) -> None:
    """Somebody deletes the object."""
    world.host.remove(SETTINGS)
    world.look()


def newer_work(world: World, **metadata: object) -> tuple[Object, Object]:
    """Return the Work as it is known, and as the hub has it by now."""
    work = world.works.get(*KEY)
    assert work is not None
    return work, {**work, "metadata": {**work["metadata"], "resourceVersion": "999", **metadata}}


def puts(world: World) -> int:
    return len(world.hub.asked("PUT", STATUS))


def reason(world: World) -> str:
    found = world.hub.live(WORK)["status"]["conditions"]
    return str(next(c["reason"] for c in found if c["type"] == "Applied"))


async def test_sync_reports_and_writes_nothing_to_the_hub(given: World) -> None:
    await sync(given)
    assert given.hub.writes() == []
    assert len(given.parts.works.status_queue) == 1
    await write(given)
    assert puts(given) == 1
    assert given.enqueued == []


async def test_repair_does_not_wait_for_a_status_under_way(given: World) -> None:
    await sync(given)
    released = given.hub.hold("PUT", STATUS)
    writing = asyncio.ensure_future(write(given))
    await asyncio.sleep(1.0)
    for _ in range(3):
        recreated(given)
        await sync(given)
        assert given.host.find(SETTINGS) is not None
    released.set()
    await writing
    await write(given)
    assert reason(given) == "ReCreateSuccessful"
    assert puts(given) == 2


async def test_newest_is_written_once_when_the_hub_is_back(given: World) -> None:
    await sync(given)
    with given.hub.down():
        for _ in range(3):
            with pytest.raises(UnreachableError):
                await write(given)
            recreated(given)
            await sync(given)
    given.forget_requests()
    await write(given)
    await write(given)
    assert puts(given) == 1
    assert reason(given) == "ReCreateSuccessful"


async def test_reported_status_is_not_reported_again_before_it_is_written(given: World) -> None:
    await sync(given)
    told = await given.events()
    await sync(given)
    assert await given.events() == told
    await write(given)
    assert puts(given) == 1


async def test_report_of_a_deleted_work_is_dropped(given: World) -> None:
    await sync(given)
    given.hub.remove(WORK)
    given.look()
    given.forget_requests()
    await write(given)
    assert given.hub.requests == []
    live = objects.work(objects.config_map())
    assert given.parts.works.statuses.with_reported_status(live) == live


async def test_report_is_not_written_to_another_work_of_that_name(given: World) -> None:
    await sync(given)
    given.hub.remove(WORK)
    given.hub.seed(objects.work(objects.config_map()))
    given.look()
    given.forget_requests()
    await write(given)
    assert given.hub.writes() == []


async def test_watch_that_is_faster_than_the_answer_enqueues_nothing(given: World) -> None:
    await sync(given)
    work, newer = newer_work(given)
    newer["status"] = given.held_changes.writing[KEY] = {"conditions": []}
    given.held_changes.work_changed("branch-a", work, newer)
    assert given.enqueued == []


async def test_status_of_another_writer_enqueues_the_work(given: World) -> None:
    await sync(given)
    work, newer = newer_work(given)
    given.held_changes.writing[KEY] = {"conditions": []}
    given.held_changes.work_changed("branch-a", work, newer)
    assert given.enqueued == [KEY]


async def test_change_of_the_template_does_not_wait_for_a_status(given: World) -> None:
    work, newer = newer_work(given, generation=9)
    newer["status"] = given.held_changes.writing[KEY] = {"conditions": []}
    given.held_changes.work_changed("branch-a", work, newer)
    assert given.enqueued == [KEY]


async def test_work_that_changed_before_the_answer_to_its_status_is_synced_again(
    given: World,
) -> None:
    """The sync of the change took the status for written, but the change may have removed it."""
    await sync(given)
    work = given.parts.works.watches.works.get(*KEY)
    assert work is not None
    answer = {**work, "metadata": {**work["metadata"], "resourceVersion": "1"}}
    given.enqueued.clear()
    given.parts.works.statuses._wrote(answer)
    assert given.enqueued == [KEY]
