"""NodeOverlap: nodes that several virtual clusters select are reported, and logged once."""

import logging

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import LabelSelector
from tests.fakes import objects
from tests.fakes.reported import Reported
from tests.fakes.world import World

OLDER = objects.virtual_cluster("branch-a", node_selector=LabelSelector({"site": "one"}))
YOUNGER = objects.virtual_cluster("branch-b", node_selector=LabelSelector({"rack": "two"}))
BOTH = {"site": "one", "rack": "two"}


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[object, ...]]:
    """Return each line: its level, of which virtual cluster, and the text."""
    return [
        (record.levelname, record.__dict__["virtual_cluster"], record.__dict__["text"])
        for record in caplog.records
        if record.__dict__.get("condition") == "NodeOverlap"
    ]


@pytest.fixture
def contested(world: World) -> Reported:
    for vc in (OLDER, YOUNGER):
        world.virtual_clusters.put(vc)
    return Reported(world, "NodeOverlap")


async def test_shared_nodes_are_logged_once_for_each_of_those_that_select_them(
    world: World, contested: Reported, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.host.seed(objects.node("n1", labels=BOTH), objects.node("n2", labels=BOTH))
    world.look()
    for _ in range(3):
        for vc in (OLDER, YOUNGER):
            (found,) = contested.condition(vc, {})
            assert (found["type"], found["status"]) == ("NodeOverlap", "True")
    text = 'node "n1" (and 1 more) is also selected by virtual cluster "{}"'
    assert told(caplog) == [
        ("WARNING", "branch-a", text.format("branch-b")),
        ("WARNING", "branch-b", text.format("branch-a")),
    ]


async def test_condition_becomes_false_and_is_logged_when_nothing_is_shared(
    world: World, contested: Reported, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.host.seed(objects.node("n1", labels=BOTH))
    world.look()
    live: Object = {"conditions": contested.condition(YOUNGER, {})}
    world.host.change("/api/v1/nodes/n1", metadata={"name": "n1", "labels": {"rack": "two"}})
    world.look()
    for _ in range(2):
        (found,) = contested.condition(YOUNGER, live)
        assert found["status"] == "False"
    assert [line[0] for line in told(caplog)] == ["WARNING", "INFO"]


async def test_nothing_is_reported_where_nothing_is_shared(
    world: World, contested: Reported, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.host.seed(objects.node("n1", labels={"rack": "two"}))
    world.look()
    assert contested.condition(YOUNGER, {}) == []
    assert told(caplog) == []
