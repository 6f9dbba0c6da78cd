"""NodesMissing: names of the settings that no node has are told, until a node has them."""

import logging

import pytest

from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.reported import Reported
from tests.fakes.world import World

NAMES = ("edge-1", "edge-2", "edge-3")
VC = objects.virtual_cluster("branch-a", node_names=NAMES)


def put(world: World, *names: str) -> None:
    world.host.seed(*(objects.node(name) for name in names))
    world.look()


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, object, object]]:
    """Return each line: its level, of which virtual cluster, and the text."""
    return [
        (record.levelname, record.__dict__["virtual_cluster"], record.__dict__["text"])
        for record in caplog.records
        if record.__dict__.get("condition") == "NodesMissing"
    ]


def missing(names: str) -> str:
    return f"no node is named {names}; correct nodeNames, or add the node"


async def test_names_that_no_node_has_are_a_condition_and_a_line_in_the_log_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    put(world, "edge-2")
    named = Reported(world, "NodesMissing")
    for _ in range(3):
        (found,) = named.condition(VC, {})
        assert (found["type"], found["status"]) == ("NodesMissing", "True")
        assert found["reason"] == "NodeNamesNotFound"
        assert found["message"].startswith("no node is named edge-1, edge-3; correct nodeNames")
    assert told(caplog) == [("WARNING", "branch-a", missing("edge-1, edge-3"))]


async def test_condition_becomes_false_and_is_logged_when_the_nodes_are_there(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    put(world, "edge-1")
    named = Reported(world, "NodesMissing")
    named.condition(VC, {})
    put(world, "edge-2")
    (left,) = named.condition(VC, {})
    assert "edge-3" in left["message"]
    assert "edge-2" not in left["message"]
    put(world, "edge-3")
    live: Object = {"conditions": [left]}
    for _ in range(2):
        (found,) = named.condition(VC, live)
        assert (found["status"], found["reason"]) == ("False", "NodeNamesFound")
    assert told(caplog) == [
        ("WARNING", "branch-a", missing("edge-2, edge-3")),
        ("INFO", "branch-a", "all nodes of nodeNames exist"),
    ]
    world.host.remove("/api/v1/nodes/edge-1")
    world.look()
    named.condition(VC, {})
    assert told(caplog)[2:] == [("WARNING", "branch-a", missing("edge-1"))]


async def test_nothing_is_reported_where_all_names_are_those_of_nodes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    put(world, *NAMES)
    named = Reported(world, "NodesMissing")
    assert named.condition(VC, {}) == []
    assert named.condition(objects.virtual_cluster("branch-b"), {}) == []
    assert told(caplog) == []


async def test_many_names_are_counted(world: World) -> None:
    vc = objects.virtual_cluster("branch-a", node_names=tuple(f"n{i:02}" for i in range(30)))
    (found,) = Reported(world, "NodesMissing").condition(vc, {})
    assert "n00, n01, " in found["message"]
    assert "n09 and 20 more" in found["message"]
    assert "n10" not in found["message"]
