"""ContestedNodes: nodes that an older virtual cluster has are a condition, and told once."""

import logging

import pytest

from karmada_vc_agent.cluster.contested_nodes import ContestedNodes
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.selectors import LabelSelector
from tests.fakes import objects
from tests.fakes.world import World

OLDER = objects.virtual_cluster("branch-a", node_selector=LabelSelector({"site": "one"}))
YOUNGER = objects.virtual_cluster("branch-b", node_selector=LabelSelector({"rack": "two"}))
BOTH = {"site": "one", "rack": "two"}


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[object, ...]]:
    """Return each line: its level, of which virtual cluster, the older one, the nodes."""
    return [
        (r.levelname, *(r.__dict__.get(key) for key in ("virtual_cluster", "older", "nodes")))
        for r in caplog.records
        if r.name == "karmada_vc_agent.cluster.contested_nodes"
    ]


@pytest.fixture
def contested(world: World) -> ContestedNodes:
    for vc in (OLDER, YOUNGER):
        world.virtual_clusters.put(vc)
    return ContestedNodes(world.parts.common.stores.membership)


async def test_nodes_of_an_older_one_are_told_once_for_who_does_not_get_them(
    world: World, contested: ContestedNodes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.host.seed(objects.node("n1", labels=BOTH), objects.node("n2", labels=BOTH))
    world.look()
    for _ in range(3):
        for vc in (OLDER, YOUNGER):
            (found,) = contested.condition(vc, {})
            assert (found["type"], found["status"]) == ("NodeOverlap", "True")
    assert told(caplog) == [("WARNING", "branch-b", "branch-a", "n1, n2")]


async def test_condition_turns_false_and_the_log_says_so_when_nothing_is_shared(
    world: World, contested: ContestedNodes, caplog: pytest.LogCaptureFixture
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


async def test_nothing_is_told_where_nothing_is_shared(
    world: World, contested: ContestedNodes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.host.seed(objects.node("n1", labels={"rack": "two"}))
    world.look()
    assert contested.condition(YOUNGER, {}) == []
    assert told(caplog) == []
