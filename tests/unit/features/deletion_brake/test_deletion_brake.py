"""Deletions that are too many at once wait on the host until they are confirmed, or end."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping

import pytest
from prometheus_client import generate_latest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, AgentState, ClusterRecord
from karmada_vc_agent.features.deletion_brake.feature import (
    CONFIRM_PREFIX,
    KEEP,
    READ_S,
    DeletionBrake,
    DeletionBrakeSettings,
    Record,
    deletions_held,
    setup,
)
from karmada_vc_agent.kube.controller import NotReadyError, Requeue, RetryError
from karmada_vc_agent.model.objects import decode_as
from karmada_vc_agent.model.vocabulary import PRESERVE_ANNOTATION
from tests.fakes import objects
from tests.fakes.world import AGENT, AGENT_NAMESPACE, World, new_world

A = "branch-a"
CLUSTER = f"{CLUSTERS_PATH}/{A}"
WORKS = f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{A}/works"
STATE = f"/api/v1/namespaces/{AGENT_NAMESPACE}/configmaps/{AGENT}-state"
CONFIRM = CONFIRM_PREFIX + A
SOME = range(5)
ALL = range(10)
"""Up to three of them are deleted without a confirmation."""


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with new_world(deletion_brake=DeletionBrakeSettings(share=0.3, at_least=2)) as made:
        yield made


def name(number: int) -> str:
    return f"work-{number:02}"


async def applied(world: World, numbers: Iterable[int] = ALL) -> None:
    """Apply Works with a ConfigMap each."""
    world.register()
    await world.parts.common.state.ensure_namespace()
    await world.parts.common.state.load()
    for number in numbers:
        manifest = objects.config_map(name(number))
        world.hub.seed(objects.work(manifest, name=name(number)))
    world.look()
    for number in numbers:
        await world.execution.reconcile((A, name(number)))


def mark_deleted(world: World, numbers: Iterable[int]) -> None:
    for number in numbers:
        world.hub.mark_deleted(f"{WORKS}/{name(number)}")
    world.look()


async def sync(world: World, numbers: Iterable[int]) -> list[int]:
    """Sync Works; return those whose deletion is held."""
    held = []
    for number in numbers:
        try:
            await world.execution.reconcile((A, name(number)))
        except RetryError as error:
            waits_for_all = isinstance(error, NotReadyError)
            held += [] if waits_for_all else [number]
    return held


async def look(world: World) -> Requeue | None:
    """Run the controller once, after what it read before is too old."""
    await asyncio.sleep(READ_S)
    found = await world.spec(setup).reconcile(A)
    assert found is None or isinstance(found, Requeue)
    return found


async def restart(world: World) -> None:
    world.restart()
    await world.parts.common.state.load()


def left(world: World) -> int:
    """Return how many ConfigMaps of Works are on the host."""
    found = world.host.listed(f"/api/v1/namespaces/edge-v-{A}/configmaps")
    return sum(1 for each in found if each["metadata"]["name"].startswith("work-"))


def recorded(world: World) -> Record | None:
    data = world.host.live(STATE).get("data") or {}
    return decode_as(Record, data.get(f"deletions.{A}", ""))


def status(world: World) -> str:
    return deletions_held(A, world.parts.common.part(DeletionBrake).recorded_of(A))["reason"]


def confirm(world: World, digest: str) -> None:
    live = world.host.live(STATE)
    metadata = {**live["metadata"], "annotations": {CONFIRM: digest}}
    world.host.seed({**live, "metadata": metadata})


async def held(world: World, numbers: Iterable[int] = SOME) -> Record:
    """Have deletions held; return their record."""
    await applied(world)
    mark_deleted(world, numbers)
    assert await sync(world, numbers) == list(numbers)
    assert await look(world) is not None
    record = recorded(world)
    assert record is not None
    return record


async def test_few_deletions_are_not_held(world: World) -> None:
    await applied(world)
    mark_deleted(world, range(3))
    assert await sync(world, range(3)) == []
    assert left(world) == 7
    assert status(world) == "NothingHeld"


async def test_nothing_is_deleted_while_deletions_are_too_many(world: World) -> None:
    record = await held(world)
    assert left(world) == 10
    assert (record.removed, record.objects, record.total) == (0, 5, 10)
    assert record.works[0] == name(0)


async def test_deletions_one_after_the_other_are_held_from_the_limit_on(world: World) -> None:
    await applied(world)
    waiting = []
    for number in SOME:
        mark_deleted(world, [number])
        world.skipped_s -= 59.0  # a look takes a minute
        waiting += await sync(world, [number])
    assert waiting == [3, 4]
    assert left(world) == 7


async def test_deletions_in_different_windows_are_not_held(world: World) -> None:
    await applied(world)
    for numbers in (range(3), range(3, 5)):
        mark_deleted(world, numbers)
        assert await sync(world, numbers) == []
        world.skipped_s += 300.0


async def test_changes_are_applied_while_deletions_are_held(world: World) -> None:
    await held(world)
    world.hub.seed(objects.work(objects.config_map("new"), name="new"))
    world.look()
    await world.execution.reconcile((A, "new"))
    assert world.host.find(f"/api/v1/namespaces/edge-v-{A}/configmaps/new")


async def test_held_deletions_are_reported(world: World) -> None:
    assert status(world) == "NothingHeld"
    await held(world)
    assert status(world) == "TooManyDeletions"
    events = [message for _, reason, message in await world.events() if reason == "DeletionHeld"]
    assert len(events) == 5
    assert "5 of 10 objects" in events[0]
    metrics = generate_latest(world.common.metrics.registry).decode()
    assert f'virtual_cluster_deletions_held{{member_cluster="{A}"}} 5.0' in metrics


async def test_confirmed_deletions_are_carried_out(world: World) -> None:
    record = await held(world)
    confirm(world, record.digest)
    world.enqueued.clear()
    assert await look(world) is None
    assert sorted(world.enqueued) == [(A, name(number)) for number in SOME]
    assert await sync(world, SOME) == []
    assert left(world) == 5
    assert recorded(world) is None
    assert CONFIRM not in (world.host.live(STATE)["metadata"].get("annotations") or {})
    assert status(world) == "NothingHeld"


async def test_kept_objects_outlive_their_works_and_belong_to_those_created_again(
    world: World,
) -> None:
    confirm(world, KEEP + (await held(world)).digest)
    assert await look(world) is not None
    assert await sync(world, [0, 1]) == []
    await restart(world)
    assert await look(world) is not None  # two were deleted; so few would not be held by themselves
    assert await sync(world, SOME) == []
    world.look()
    assert await look(world) is None
    assert world.works.names(A) == [name(number) for number in range(5, 10)]
    assert left(world) == 10
    assert status(world) == "NothingHeld"
    assert recorded(world) is None
    world.forget_requests()
    for number in SOME:
        world.hub.seed(objects.work(objects.config_map(name(number)), name=name(number)))
    world.look()
    assert await sync(world, SOME) == []
    assert [each for each in world.host.requests if each.method == "DELETE"] == []
    assert left(world) == 10


async def test_what_was_confirmed_does_not_count_for_later_deletions(world: World) -> None:
    confirm(world, (await held(world)).digest)
    await look(world)
    await sync(world, SOME)
    mark_deleted(world, [8])
    assert await sync(world, [8]) == []


async def test_list_that_grew_is_confirmed_again(world: World) -> None:
    record = await held(world)
    confirm(world, record.digest)
    mark_deleted(world, [8])
    assert await look(world) is not None
    assert await sync(world, [0, 8]) == [0, 8]
    again = recorded(world)
    assert again is not None
    assert again.digest != record.digest
    assert left(world) == 10


async def test_confirmation_of_a_list_that_was_taken_back_is_not_one_of_it_later(
    world: World,
) -> None:
    record = await held(world)
    for number in SOME:
        live = world.hub.live(f"{WORKS}/{name(number)}")
        metadata = {k: v for k, v in live["metadata"].items() if k != "deletionTimestamp"}
        world.hub.remove(f"{WORKS}/{name(number)}")
        world.hub.seed({**live, "metadata": metadata})  # with the same uid, as from a backup
    world.look()
    assert await look(world) is None
    confirm(world, record.digest)
    mark_deleted(world, SOME)
    assert await sync(world, SOME) == [*SOME]
    for _ in range(3):
        assert await look(world) is not None
    assert recorded(world) == record
    assert await sync(world, SOME) == [*SOME]
    confirm(world, record.digest)
    assert await look(world) is None


async def test_what_was_added_while_a_list_is_confirmed_is_not_permitted(world: World) -> None:
    record = await held(world)

    async def meanwhile(_: Mapping[str, str | None]) -> None:
        mark_deleted(world, [8, 9])
        assert await sync(world, [8, 9]) == [8, 9]

    confirm(world, record.digest)
    world.parts.common.state.annotate = meanwhile  # type: ignore[method-assign, assignment]
    await look(world)
    assert await sync(world, [*SOME, 8, 9]) == [8, 9]
    assert left(world) == 5


async def test_all_that_is_held_shares_what_is_read(world: World) -> None:
    await held(world)
    brake = world.parts.common.part(DeletionBrake)
    world.host.requests.clear()
    for _ in range(1000):
        assert await brake.reconcile(A) is not None
    assert world.host.requests == []
    assert await look(world) is not None
    assert [each.method for each in world.host.requests] == ["GET"]


async def test_what_is_written_for_others_hides_no_confirmation(world: World) -> None:
    record = await held(world)
    assert await look(world) is not None
    confirm(world, record.digest)
    await world.parts.common.state.read_again("branch-b")
    await world.parts.common.state.write("deletions.branch-b", "{}")
    brake = world.parts.common.part(DeletionBrake)
    assert await brake.reconcile(A) is None
    assert recorded(world) is None


async def test_leave_is_noticed_while_deletions_are_held(world: World) -> None:
    await held(world)
    state = world.parts.common.state
    record = ClusterRecord("u1", "s1", has_left=True)
    await AgentState(world.host_client, AGENT_NAMESPACE, AGENT).remember(A, record)
    assert await look(world) is None
    assert state.cluster(A) == record
    assert await sync(world, SOME) == []
    assert left(world) == 5


async def test_held_work_has_one_event(world: World) -> None:
    await held(world)
    mark_deleted(world, [8])
    await look(world)
    await look(world)
    events = [reason for _, reason, _ in await world.events() if reason == "DeletionHeld"]
    assert len(events) == 6


async def test_namespaces_do_not_count(world: World) -> None:
    await applied(world, range(4))
    for number in range(20):
        manifest = objects.namespace_manifest(f"ns-{number}")
        world.hub.seed(objects.work(manifest, name=f"ns-{number}"))
    world.look()
    mark_deleted(world, [0])
    assert await sync(world, [0]) == []
    mark_deleted(world, [1])
    assert await sync(world, [1]) == [1]


async def test_namespaces_that_are_deleted_meanwhile_wait_and_do_not_change_the_list(
    world: World,
) -> None:
    world.hub.seed(objects.work(objects.namespace_manifest("ns"), name="ns"))
    record = await held(world)
    world.hub.mark_deleted(f"{WORKS}/ns")
    world.look()
    with pytest.raises(RetryError, match="confirm-deletions"):
        await world.execution.reconcile((A, "ns"))
    confirm(world, record.digest)
    assert await look(world) is None
    await world.execution.reconcile((A, "ns"))
    assert "ns" not in world.works.names(A)


async def test_hold_survives_a_restart(world: World) -> None:
    record = await held(world)
    await restart(world)
    assert await sync(world, SOME) == list(SOME)
    assert list(world.spec(setup).initial_keys()) == [A]
    confirm(world, record.digest)
    await look(world)
    assert await sync(world, SOME) == []


async def test_what_was_deleted_before_a_restart_counts_while_the_rest_is_held(
    world: World,
) -> None:
    await applied(world)
    mark_deleted(world, range(3))
    assert await sync(world, range(3)) == []
    mark_deleted(world, [3])
    assert await sync(world, [3]) == [3]
    await look(world)
    await restart(world)
    assert await sync(world, [3]) == [3]


async def test_deletions_that_wait_at_a_start_count_together(world: World) -> None:
    await applied(world)
    mark_deleted(world, SOME)
    await restart(world)
    assert await sync(world, SOME) == list(SOME)
    assert left(world) == 10


async def test_hold_ends_when_the_hub_takes_the_deletions_back(world: World) -> None:
    await held(world)
    for number in SOME:
        world.hub.remove(f"{WORKS}/{name(number)}")
        world.hub.seed(objects.work(objects.config_map(name(number)), name=name(number)))
    world.look()
    assert await look(world) is None
    assert status(world) == "NothingHeld"
    assert recorded(world) is None
    assert await sync(world, ALL) == []
    assert left(world) == 10


async def test_deleted_cluster_is_held_whole(world: World) -> None:
    await applied(world)
    world.hub.mark_deleted(CLUSTER)
    world.look()
    assert await sync(world, ALL) == list(ALL)
    await look(world)
    assert left(world) == 10
    assert status(world) == "TooManyDeletions"


async def test_leave_is_never_held(world: World) -> None:
    await applied(world)
    await world.parts.common.state.remember(A, ClusterRecord("uid", "settings", has_left=True))
    world.hub.mark_deleted(CLUSTER)
    world.look()
    await sync(world, ALL)
    assert await look(world) is None
    assert await sync(world, ALL) == []
    assert left(world) == 0
    assert status(world) == "NothingHeld"
    assert recorded(world) is None


async def test_removal_by_the_host_is_never_held(world: World) -> None:
    await applied(world)
    world.finalizer.preserve(A, is_on=False)
    world.hub.mark_deleted(CLUSTER)
    world.look()
    assert await sync(world, ALL) == []
    assert left(world) == 0


async def test_preserved_objects_are_never_held(world: World) -> None:
    await applied(world)
    world.register(annotations={PRESERVE_ANNOTATION: "true"})
    world.hub.mark_deleted(CLUSTER)
    world.look()
    assert await sync(world, ALL) == []
    assert left(world) == 10


async def test_record_ends_with_its_cluster(world: World) -> None:
    await held(world)
    world.hub.remove(CLUSTER)
    world.look()
    world.parts.common.scopes.end(A)
    assert await look(world) is None
    assert recorded(world) is None
    assert world.parts.common.part(DeletionBrake).recorded_of(A) is None


@pytest.mark.parametrize(
    "settings", [DeletionBrakeSettings(share=1.0), DeletionBrakeSettings(share=0.3, at_least=100)]
)
async def test_limits_are_settings(settings: DeletionBrakeSettings, world: World) -> None:
    world.restart(deletion_brake=settings)
    await applied(world)
    mark_deleted(world, ALL)
    assert await sync(world, ALL) == []
    assert left(world) == 0
