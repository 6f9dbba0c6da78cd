"""ReachableNodes: what is judged of the nodes of a group, when, and who is told."""

import logging

import pytest

from karmada_vc_agent.cluster.rules.conditions import Condition, Thresholds
from karmada_vc_agent.cluster.status import ReachableNodes
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.virtual_time import Clock
from tests.fakes.world import World


class Setting:
    """Judges branch-a, whose Cluster gets each condition, as the hub would have it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = Clock()
        self.told: list[str] = []
        self.changed: list[str] = []
        self.cluster: Object = {"metadata": {"name": "branch-a"}}
        self.scopes = Scopes()
        self.nodes = ReachableNodes(
            world.membership, Thresholds(30.0, 20.0), self._tell, self.clock, self.scopes
        )
        self.nodes.changed.subscribe(self.changed.append)

    def _tell(self, _: Object, found: Condition) -> None:
        self.told.append(found["reason"])

    def has(self, *states: str) -> None:
        """Let the group have nodes with these values of Ready."""
        for path in [n["metadata"]["name"] for n in self.world.host.listed("/api/v1/nodes")]:
            self.world.host.remove(f"/api/v1/nodes/{path}")
        for number, status in enumerate(states):
            self.world.host.seed(objects.node(f"n{number}", {"branch": "a"}, status))
        self.world.look()

    def judge(self, after_s: float = 0.0) -> str:
        self.clock.advance(after_s)
        judged = self.nodes.judge(self.world.vc(), self.cluster)
        self.cluster["status"] = {"conditions": [judged]}
        return judged["reason"]


@pytest.fixture
def setting(world: World) -> Setting:
    return Setting(world)


def test_first_check_counts_at_once_and_only_problems_are_reported(setting: Setting) -> None:
    setting.has("True")
    assert setting.judge() == "NodesReady"
    assert setting.told == []
    setting.scopes.end("branch-a")
    setting.has()
    assert setting.judge() == "NoNodes"
    assert setting.told == ["NoNodes"]


def test_group_is_out_of_reach_after_its_time_and_back_after_another(setting: Setting) -> None:
    setting.has("True", "True")
    setting.judge()
    setting.has("Unknown", "False")
    assert [setting.judge(), setting.judge(19.0), setting.judge(2.0)] == [
        *("NodesReady", "NodesReady"),
        "NoNodeReady",
    ]
    setting.has("True", "False")
    assert [setting.judge(), setting.judge(29.0), setting.judge(2.0)] == [
        *("NoNodeReady", "NoNodeReady"),
        "NodesReady",
    ]
    assert setting.told == ["NoNodeReady", "NodesReady"]
    assert setting.changed == ["branch-a"] * 3


def test_link_that_flaps_changes_nothing(setting: Setting) -> None:
    setting.has("True")
    setting.judge()
    for _ in range(5):
        setting.has("False")
        assert setting.judge(10.0) == "NodesReady"
        setting.has("True")
        assert setting.judge(10.0) == "NodesReady"
    assert setting.told == []


def test_other_reason_for_the_same_is_reported(setting: Setting) -> None:
    setting.has("False")
    assert setting.judge() == "NoNodeReady"
    setting.has()
    assert setting.judge() == "NoNodes"
    assert setting.told == ["NoNodeReady", "NoNodes"]


def test_restart_reports_nothing_that_the_cluster_says_already(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.has("False")
    setting.judge()
    setting.scopes.end("branch-a")
    setting.judge()
    assert setting.told == ["NoNodeReady"]
    assert caplog.text.count("No node of the group is Ready") == 2


def test_selector_without_a_node_is_logged_once(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    setting.has()
    setting.judge()
    setting.judge(100.0)
    [record] = caplog.records
    assert record.getMessage() == "No node of the group is Ready"
    setting.has("True")
    setting.judge()
    setting.judge(31.0)
    assert caplog.records[-1].getMessage() == "Nodes of the group are Ready again"


def test_what_is_shown_is_judged_but_its_numbers_are_those_of_now(setting: Setting) -> None:
    setting.has("True")
    assert setting.nodes.of("branch-a")["reason"] == "NodesReady"
    setting.judge()
    setting.has("True", "False")
    assert setting.nodes.of("branch-a")["message"] == "1 of 2 nodes are Ready"
    setting.has()
    assert setting.nodes.of("branch-a")["reason"] == "NodesReady"
