"""The brake in a whole agent, with servers that only remember: what it holds, and how that ends."""

from collections.abc import AsyncIterator

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.rules.conditions import find_condition
from karmada_vc_agent.features.deletion_brake.feature import (
    CONFIRM_PREFIX,
    DELETIONS_HELD,
    KEEP,
    RECORD_PREFIX,
    DeletionBrakeSettings,
    Record,
)
from karmada_vc_agent.model.objects import decode_as, dig
from tests.fakes import objects
from tests.fuzz.served_ways import TENANT, Field, field

CLUSTER = f"{CLUSTERS_PATH}/{TENANT}"
WORKS = f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{TENANT}/works"
MAPS = f"/api/v1/namespaces/edge-v-{TENANT}/configmaps"
STATE = "/api/v1/namespaces/agents/configmaps/karmada-vc-agent-state"
NAMES = [f"map-{number}" for number in range(20)]
DELETED_AT_MOST = 9


@pytest.fixture
async def running() -> AsyncIterator[Field]:
    """An agent that serves 20 ConfigMaps, a Work each."""
    async with field(deletion_brake=DeletionBrakeSettings(share=0.3)) as made:
        for name in NAMES:
            made.hub.seed(objects.work(objects.config_map(name), vc=TENANT, name=name))
        await made.until(lambda: len(left(made)) == len(NAMES), "not applied")
        yield made


def left(running: Field) -> list[str]:
    return [name for name in NAMES if running.host.find(f"{MAPS}/{name}") is not None]


def delete_works(running: Field) -> None:
    for name in NAMES:
        running.hub.mark_deleted(f"{WORKS}/{name}")


def shown(running: Field) -> str:
    conditions = dig(running.hub.live(CLUSTER), "status", "conditions")
    found = find_condition(conditions, DELETIONS_HELD.name)
    return found["reason"] if found is not None else ""


def digest(running: Field) -> str:
    data = running.host.live(STATE).get("data") or {}
    record = decode_as(Record, data.get(RECORD_PREFIX + TENANT, ""))
    return record.digest if record is not None else ""


async def held(running: Field) -> list[str]:
    """Wait until deletions are held; return what they leave on the host."""
    await running.until(lambda: shown(running) == "TooManyDeletions", "not held")
    await running.neighbour_lives()
    return left(running)


def confirm(running: Field, value: str) -> None:
    live = running.host.live(STATE)
    annotations = {CONFIRM_PREFIX + TENANT: value}
    running.host.seed({**live, "metadata": {**live["metadata"], "annotations": annotations}})


async def test_deletions_are_held_and_confirmed(running: Field) -> None:
    delete_works(running)
    before = await held(running)
    assert len(before) >= len(NAMES) - DELETED_AT_MOST
    confirm(running, digest(running))
    await running.until(lambda: not left(running), "not deleted")
    await running.until(lambda: shown(running) == "NothingHeld", "still held")
    assert [name for name in NAMES if running.hub.find(f"{WORKS}/{name}")] == []
    assert digest(running) == ""


async def test_kept_objects_stay_when_their_works_end(running: Field) -> None:
    delete_works(running)
    before = await held(running)
    confirm(running, KEEP + digest(running))
    await running.until(
        lambda: not any(running.hub.find(f"{WORKS}/{name}") for name in NAMES), "Works stay"
    )
    await running.until(lambda: shown(running) == "NothingHeld", "still held")
    assert left(running) == before
    for name in NAMES:
        running.hub.seed(objects.work(objects.config_map(name), vc=TENANT, name=name))
    await running.until(lambda: left(running) == NAMES, "not applied again")


async def test_deleted_cluster_keeps_its_objects_until_it_is_confirmed(running: Field) -> None:
    running.hub.mark_deleted(CLUSTER)
    assert await held(running) == NAMES
    confirm(running, digest(running))
    await running.until(lambda: not left(running), "not deleted")
