"""ClusterConditions: what is not normal is an event and a metric, too, for as long as it lasts."""

from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from generate.conditions_page import TEXTS, page
from karmada_vc_agent.cluster.rules.conditions import ConditionType, Shown
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.kube.controller import WorkQueue, itself
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner.parts import (
    ClusterConditions,
    ConditionSpec,
    Feature,
    Parts,
    conditions_of_objects,
)
from tests.fakes.world import World, new_world

SERIES = (
    'virtual_cluster_condition_abnormal{condition="CredentialRenewed",member_cluster="branch-a"}'
)


def is_shown(world: World) -> bool:
    return SERIES in generate_latest(world.parts.common.metrics.registry).decode()


@pytest.fixture
def conditions(world: World) -> ClusterConditions:
    world.register()
    world.look()
    return ClusterConditions(world.parts)


async def test_condition_that_is_not_normal_is_a_metric_until_it_is(
    world: World, conditions: ClusterConditions
) -> None:
    world.parts.credential.fail("ReadOnly", "it is")
    conditions.of(world.vc(), {})
    assert is_shown(world)
    world.parts.credential.succeed()
    conditions.of(world.vc(), {})
    assert not is_shown(world)


async def test_metric_ends_with_its_virtual_cluster(
    world: World, conditions: ClusterConditions
) -> None:
    world.parts.credential.fail("ReadOnly", "it is")
    conditions.of(world.vc(), {})
    world.parts.common.scopes.end("branch-a")
    assert not is_shown(world)


async def test_event_is_written_for_each_reason_that_the_cluster_does_not_say_yet() -> None:
    async with new_world() as world:
        world.register()
        world.look()
        conditions = ClusterConditions(world.parts)
        live: Object = {}
        for fails in ("ReadOnly", "ReadOnly", "RequestPending", "", ""):
            world.parts.credential.fail(fails, fails and "it fails")
            live = {"conditions": conditions.of(world.vc(), live)}
        queued = world.parts.works.recorder
        await queued.drain(1.0)
        reasons = [
            request.body["reason"]
            for request in world.hub.requests
            if request.method == "POST" and request.path.endswith("/events")
        ]
        assert reasons == ["ReadOnly", "RequestPending", "Succeeded"]


async def test_declared_condition_is_in_both_statuses_the_metric_the_sources_and_the_page(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = ConditionType("Toy", "It is a toy.", on_object=Shown.ALWAYS, warning="A toy is broken")
    spec = ConditionSpec(
        toy,
        lambda _, vc: toy.false("Broken", vc.name),
        lambda parts: ((parts.common.signals.status_due.subscribe, itself),),
    )
    features = (*FEATURES, Feature("toy", conditions=(spec,)))
    parts = Parts(replace(world.common), features)
    conditions = ClusterConditions(parts)
    queue: WorkQueue[str] = WorkQueue(lambda name: name)
    for source in conditions.sources():
        source.connect(queue)
    parts.common.signals.status_due.emit("branch-a")
    assert await queue.take() == "branch-a"
    broken = [toy.false("Broken", "branch-a")]
    for each in (conditions, conditions_of_objects(parts)):
        assert [c for c in each.of(world.vc(), {}) if c["type"] == "Toy"] == broken
    text = generate_latest(parts.common.metrics.registry).decode()
    assert SERIES.replace("CredentialRenewed", "Toy") in text
    assert caplog.messages.count("A toy is broken") == 1
    texts = {"Broken": {"why": "It fell.", "do": "Mend it."}}
    monkeypatch.setitem(TEXTS["conditions"], "Toy", texts)
    assert "\n### Toy\n\nIt is a toy.\n" in page(features)
    assert "\n| `Broken` | It fell. | Mend it. |\n" in page(features)
