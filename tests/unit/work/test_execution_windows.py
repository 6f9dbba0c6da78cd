"""ExecutionController with maintenance windows: new generations wait, what was applied stays."""

from contextlib import suppress

import orjson
import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.features.checkpoint.entries import encoded
from karmada_vc_agent.features.windows.feature import WindowStates
from karmada_vc_agent.kube.controller import Requeue, RetryError
from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.model.vocabulary import APPLIED_ANNOTATION
from tests.fakes import objects
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
SETTINGS = "/api/v1/namespaces/edge-v-branch-a/configmaps/settings"
SECRET = "/api/v1/namespaces/edge-v-branch-a/secrets/key"
WINDOW = "Mon-Fri 22:00-05:00 Europe/Berlin"
OPEN, CLOSED, NEXT = "2026-02-02T23:00:00Z", "2026-02-03T10:00:00Z", "2026-02-03T21:00:00Z"
UNTIL = "2026-02-03 22:00 Europe/Berlin"


@pytest.fixture(autouse=True)
def _windows(world: World) -> None:
    world.virtual_clusters.put(objects.virtual_cluster(window=WINDOW))


def given(world: World, now: str, *manifests: Object) -> None:
    world.now = now
    if world.hub.find(f"{CLUSTERS_PATH}/branch-a") is None:
        world.register()
    work = objects.work(*manifests)
    if world.hub.find(WORK) is None:
        world.hub.seed(work)
    elif manifests:
        world.hub.change(WORK, spec=work["spec"])
    world.look()
    world.forget_requests()


async def sync(world: World, now: str, *manifests: Object) -> None:
    given(world, now, *manifests)
    outcome = await world.execution.reconcile(KEY)
    if isinstance(outcome, Requeue):
        world.execution.queue.rest(KEY, outcome.dependencies)
    world.look()


def condition(world: World, kind: str = "Dispatching") -> Object | None:
    found: list[Object] = world.hub.live(WORK)["status"]["conditions"]
    return next((c for c in found if c["type"] == kind), None)


def says(world: World) -> tuple[str, str]:
    found = condition(world)
    assert found is not None
    return found["status"], found["reason"]


def value(world: World) -> str | None:
    found = world.host.find(SETTINGS)
    return found["data"]["value"] if found else None


def drift(world: World) -> None:
    world.host.seed({**world.host.live(SETTINGS), "data": {"value": "by hand"}})
    world.look()


async def test_what_needs_a_new_namespace_waits_though_nothing_may_be_read_there(
    world: World,
) -> None:
    world.host.fail(403, method="GET", path=SETTINGS, times=9)
    await sync(world, CLOSED, objects.config_map())
    assert says(world) == ("False", "OutsideWindow")
    assert condition(world, "Applied") is None
    assert world.host.writes() == []


async def test_what_could_not_be_read_once_in_a_closed_window_still_waits(world: World) -> None:
    world.host.seed(objects.claimed("branch-a"))
    world.host.fail(403, method="GET", path=SETTINGS, times=1)
    for _ in range(2):
        with suppress(RetryError):
            await sync(world, CLOSED, objects.config_map())
        world.look()
    assert value(world) is None
    assert says(world) == ("False", "OutsideWindow")


async def test_new_generation_waits_and_says_until_when(world: World) -> None:
    await sync(world, OPEN, objects.config_map(value="1"))
    await sync(world, CLOSED, objects.config_map(value="2"))
    assert value(world) == "1"
    found = condition(world)
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "OutsideWindow")
    assert f"waits until {UNTIL}" in found["message"]
    applied = condition(world, "Applied")
    assert applied is not None
    assert applied["status"] == "True"
    (entry,) = world.hub.live(WORK)["status"]["manifestStatuses"]
    assert entry["identifier"]["name"] == "settings"


async def test_all_that_wait_are_enqueued_when_the_window_opens(world: World) -> None:
    await sync(world, CLOSED, objects.config_map(value="2"))
    assert value(world) is None
    assert condition(world, "Applied") is None
    queue = world.execution.queue
    for source in world.execution.sources:
        source.connect(queue)
    world.parts.common.part(WindowStates).check()
    assert len(queue) == 0
    world.now = NEXT
    world.parts.common.part(WindowStates).check()
    assert await queue.take() == KEY
    await sync(world, NEXT)
    assert value(world) == "2"
    assert says(world) == ("True", "Dispatching")
    reasons = [reason for kind, reason, _ in await world.events() if kind == "Work"]
    assert "SyncSucceed" in reasons


async def test_drift_is_corrected_by_what_was_applied(world: World) -> None:
    await sync(world, OPEN, objects.config_map(value="1"))
    await sync(world, CLOSED, objects.config_map(value="2"))
    drift(world)
    await sync(world, CLOSED)
    assert value(world) == "1"
    world.host.remove(SETTINGS)
    await sync(world, CLOSED)
    assert value(world) == "1"
    assert says(world) == ("False", "OutsideWindow")


async def test_drift_of_what_does_not_wait_is_corrected_after_a_restart(world: World) -> None:
    await sync(world, OPEN, objects.config_map(value="1"))
    world.restart()
    world.now = CLOSED
    drift(world)
    await sync(world, CLOSED)
    assert value(world) == "1"
    assert says(world) == ("True", "Dispatching")
    world.restart()
    world.host.remove(SETTINGS)
    await sync(world, CLOSED)
    assert value(world) == "1"


async def test_object_whose_manifest_is_unknown_is_left_alone_after_a_restart(
    world: World,
) -> None:
    await sync(world, OPEN, objects.config_map(value="1"))
    world.restart()
    await sync(world, CLOSED, objects.config_map(value="2"))
    drift(world)
    await sync(world, CLOSED)
    assert value(world) == "by hand"
    world.host.remove(SETTINGS)
    await sync(world, CLOSED)
    assert value(world) is None
    await sync(world, NEXT)
    assert value(world) == "2"


async def test_what_returns_to_what_was_applied_waits_no_more(world: World) -> None:
    await sync(world, OPEN, objects.config_map(value="1"))
    await sync(world, CLOSED, objects.config_map(value="2"))
    await sync(world, CLOSED, objects.config_map(value="1"))
    assert says(world) == ("True", "Dispatching")


async def test_secrets_and_what_settings_list_pass(world: World) -> None:
    secret = objects.secret("key")
    await sync(world, CLOSED, secret, objects.config_map(value="1"))
    assert world.host.find(SECRET) is not None
    assert value(world) is None
    passes = ("Secret", "ConfigMap")
    world.virtual_clusters.put(objects.virtual_cluster(window=WINDOW, window_passes=passes))
    await sync(world, CLOSED)
    assert value(world) == "1"


async def test_objects_from_before_windows_are_recognised_by_their_content(
    world: World,
) -> None:
    world.virtual_clusters.put(objects.virtual_cluster())
    await sync(world, CLOSED, objects.config_map(value="1"))
    assert APPLIED_ANNOTATION not in annotations_of(world.host.live(SETTINGS))
    world.virtual_clusters.put(objects.virtual_cluster(window=WINDOW))
    world.restart()
    await sync(world, CLOSED)
    assert says(world) == ("True", "Dispatching")
    assert APPLIED_ANNOTATION in annotations_of(world.host.live(SETTINGS))
    # A change that came with the window, however, waits.
    await sync(world, CLOSED, objects.config_map(value="2"))
    assert (value(world), says(world)) == ("1", ("False", "OutsideWindow"))


async def test_mark_is_removed_with_the_windows_once_the_object_is_written(world: World) -> None:
    await sync(world, OPEN, objects.config_map(value="1"))
    world.virtual_clusters.put(objects.virtual_cluster())
    await sync(world, OPEN, objects.config_map(value="2"))
    assert APPLIED_ANNOTATION not in annotations_of(world.host.live(SETTINGS))
    found = condition(world)
    assert found is not None
    assert "observedGeneration" not in found


async def test_applied_object_returns_from_a_checkpoint_outside_of_windows(
    world: World,
) -> None:
    """The agent restarts while the hub is away, its window is closed, and the object is gone."""
    await sync(world, OPEN, objects.config_map(value="1"))
    saved = encoded(world.hub.live(WORK))
    assert saved is not None
    world.host.remove(SETTINGS)
    world.restart()
    store = world.works.store("branch-a")
    assert store is not None
    store.replace_all([])
    store.is_synced = False
    store.seed([orjson.loads(saved)])
    world.now = CLOSED
    await world.execution.reconcile(KEY)
    assert value(world) == "1"


async def test_works_are_deleted_outside_of_windows_too(world: World) -> None:
    await sync(world, OPEN, objects.config_map(value="1"))
    world.now = CLOSED
    world.hub.mark_deleted(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    assert value(world) is None


async def test_work_under_the_name_of_a_deleted_one_waits(world: World) -> None:
    """It may arrive before the first one is seen to be away."""
    await sync(world, OPEN, objects.config_map(value="1"))
    world.hub.mark_deleted(WORK)
    await sync(world, CLOSED)
    assert value(world) is None
    await sync(world, CLOSED, objects.config_map(value="2"))
    assert says(world) == ("False", "OutsideWindow")
    assert value(world) is None


FAILING = objects.deployment(nodeName="elsewhere")
"""It is refused for good."""
WEB = "/apis/apps/v1/namespaces/edge-v-branch-a/deployments/web"


async def test_what_was_applied_returns_after_a_restart_though_the_rest_of_its_work_failed(
    world: World,
) -> None:
    await sync(world, OPEN, objects.config_map(value="1"), FAILING)
    world.restart()
    drift(world)
    await sync(world, CLOSED)
    assert value(world) == "1"
    applied = condition(world, "Applied")
    assert applied is not None
    assert applied["status"] == "False"
    world.restart()
    world.host.remove(SETTINGS)
    await sync(world, CLOSED)
    assert value(world) == "1"


async def test_what_failed_in_an_open_window_waits_once_it_is_closed(world: World) -> None:
    world.host.fail(422, method="POST", path=WEB.rpartition("/")[0], times=1)
    with suppress(RetryError):
        await sync(world, OPEN, objects.config_map(value="1"), objects.deployment())
    world.look()
    world.restart()
    await sync(world, CLOSED)
    assert world.host.find(WEB) is None
    assert (value(world), says(world)) == ("1", ("False", "OutsideWindow"))


async def test_what_changed_and_could_not_be_read_once_in_a_closed_window_waits(
    world: World,
) -> None:
    await sync(world, OPEN, objects.config_map(value="1"))
    world.restart()
    world.host.remove(SETTINGS)
    world.host.fail(403, method="GET", path=SETTINGS, times=1)
    for _ in range(2):
        with suppress(RetryError):
            await sync(world, CLOSED, objects.config_map(value="2"))
        world.look()
    assert (value(world), says(world)) == (None, ("False", "OutsideWindow"))
