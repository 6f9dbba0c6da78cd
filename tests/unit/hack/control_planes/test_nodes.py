"""Nodes of the control planes for tests."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from control_planes import nodes
from control_planes.api import ApiServer
from control_planes.errors import ControlPlanesError


def test_labels_are_spread_over_nodes_round_robin() -> None:
    spread = nodes.spread_labels(6, ["branch=a,b,c", "tier=edge"])

    assert [labels["branch"] for labels in spread] == ["a", "b", "c", "a", "b", "c"]
    assert {labels["tier"] for labels in spread} == {"edge"}


def test_label_may_have_an_empty_value() -> None:
    assert nodes.spread_labels(1, ["example.com/vc="]) == [{"example.com/vc": ""}]


@pytest.mark.parametrize("label", ["branch", "=a", "branch=a b"])
def test_label_of_another_form_is_refused(label: str) -> None:
    with pytest.raises(ControlPlanesError, match="KEY=VALUE"):
        nodes.parse_label(label)


@pytest.mark.parametrize(
    ("batch", "option"),
    [
        (nodes.NodeBatch(1, size=nodes.NodeSize(cpu="four")), "--cpu"),
        (nodes.NodeBatch(1, size=nodes.NodeSize(memory="8 GB")), "--memory"),
        (nodes.NodeBatch(1, prefix="Node_"), "--prefix"),
        (nodes.NodeBatch(1, labels=("branch=a,b!",)), "--label"),
    ],
)
def test_mistake_is_refused_by_the_name_of_its_option(batch: nodes.NodeBatch, option: str) -> None:
    with pytest.raises(ControlPlanesError, match=option):
        nodes.check(batch)


def test_names_go_on_from_the_highest_number() -> None:
    taken = ["node-2", "node-11", "other-40", "node-x"]

    assert nodes.choose_names(2, "node", taken) == ["node-12", "node-13"]
    assert nodes.choose_names(1, "edge", taken) == ["edge-1"]


def test_node_is_an_edge_node_that_kwok_plays() -> None:
    node = nodes.describe_node("node-1", {"branch": "a"}, nodes.NodeSize(cpu="2", pods=5))

    labels = node["metadata"]["labels"]
    assert labels["branch"] == "a"
    assert labels["kubernetes.io/hostname"] == "node-1"
    assert labels["node-role.kubernetes.io/edge"] == ""
    assert node["metadata"]["annotations"][nodes.KWOK_ANNOTATION] == "fake"
    assert node["status"]["allocatable"]["cpu"] == "2"
    assert node["status"]["capacity"]["pods"] == "5"


@pytest.mark.parametrize(
    ("ready", "taints", "usable"),
    [("True", None, True), ("False", None, False), ("True", [{"key": "not-ready"}], False)],
)
def test_node_is_usable_when_it_is_ready_and_has_no_taint(
    ready: str, taints: list[dict[str, str]] | None, usable: bool
) -> None:
    node = {
        "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }

    assert nodes.is_usable(node) is usable


class FakeServer:
    """Takes nodes, and has all of them Ready but the last ones."""

    def __init__(self, unready: int) -> None:
        self.names: list[str] = []
        self._unready = unready

    def create(self, node: dict[str, Any]) -> None:
        self.names.append(node["metadata"]["name"])

    def get(self, _: str) -> dict[str, Any]:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        usable = len(self.names) - self._unready
        return {
            "items": [
                {"metadata": {"name": name}, "status": ready if number < usable else {}}
                for number, name in enumerate(self.names)
            ]
        }


async def test_each_node_is_made_once() -> None:
    server = FakeServer(0)
    names = await nodes.add_nodes(cast("ApiServer", server), nodes.NodeBatch(20))
    assert sorted(server.names) == sorted(names)
    assert len(names) == 20


async def test_waits_in_proportion_and_names_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[tuple[str, float]] = []

    async def wait_for(
        _: str, find_problem: Callable[[], str], *, timeout_s: float, poll_s: float
    ) -> None:
        assert poll_s < timeout_s
        waited.append((find_problem(), timeout_s))

    monkeypatch.setattr(nodes, "wait_for", wait_for)
    for count in (100, 1000):
        await nodes.add_nodes(cast("ApiServer", FakeServer(8)), nodes.NodeBatch(count))
    (problem, short_s), (_, long_s) = waited
    assert problem.count("node-") == nodes.SHOWN
    assert problem.endswith(" and 3 more")
    assert 60 < short_s < 300 < long_s
