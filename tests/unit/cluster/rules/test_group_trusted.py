"""GroupTrusted: who could write what a group rests on."""

from typing import Any

import pytest

from karmada_vc_agent.cluster.rules.conditions import group_trusted
from karmada_vc_agent.model.virtual_cluster import NO_NODES, LabelSelector, Requirement
from tests.fakes import objects

RESTRICTED = "node-restriction.kubernetes.io/branch"
BELOW = "edge.node-restriction.kubernetes.io/branch"
LOOKS_LIKE_IT = "not-node-restriction.kubernetes.io/branch"
NAMES = {"node_selector": LabelSelector(), "node_names": ("n1",)}


def by(*keys: str) -> dict[str, LabelSelector]:
    return {"node_selector": LabelSelector(dict.fromkeys(keys, "a"))}


EXPRESSED = {
    "node_selector": LabelSelector(
        {RESTRICTED: "a"}, (Requirement("zone", "In", frozenset(("x",))),)
    )
}


@pytest.mark.parametrize("node_restriction", [True, False, None])
def test_names_can_be_trusted_without_kubeedge(node_restriction: bool | None) -> None:
    vc = objects.virtual_cluster("branch-a", **NAMES)
    result = group_trusted(vc, has_kubeedge=False, node_restriction=node_restriction)
    assert (result["status"], result["reason"]) == ("True", "NodeNames")


@pytest.mark.parametrize("node_restriction", [True, False, None])
def test_names_are_unknown_with_kubeedge_whose_cloudhub_may_not_compare_them(
    node_restriction: bool | None,
) -> None:
    vc = objects.virtual_cluster("branch-a", **NAMES)
    result = group_trusted(vc, has_kubeedge=True, node_restriction=node_restriction)
    assert (result["status"], result["reason"]) == ("Unknown", "KubeEdge")
    assert (
        "enable cloudHub.authorization of CloudCore (enable: true, debug: false)"
        in (result["message"])
    )


@pytest.mark.parametrize(
    ("settings", "has_kubeedge", "node_restriction", "expected"),
    [
        (by(RESTRICTED), False, True, ("True", "NodeRestriction")),
        (by(RESTRICTED, BELOW), False, True, ("True", "NodeRestriction")),
        (by(RESTRICTED), False, False, ("False", "NodeRestrictionOff")),
        (by(RESTRICTED), False, None, ("Unknown", "NodeRestrictionNotKnown")),
        (by(RESTRICTED), True, True, ("False", "KubeEdge")),
        (by("branch"), False, True, ("False", "NodesLabelThemselves")),
        (by("branch"), True, True, ("False", "KubeEdge")),
        (by(LOOKS_LIKE_IT), False, True, ("False", "NodesLabelThemselves")),
        (by(RESTRICTED, "branch"), False, True, ("False", "NodesLabelThemselves")),
        (EXPRESSED, False, True, ("False", "NodesLabelThemselves")),
        (by("branch") | {"node_names": ("n1",)}, False, True, ("False", "NodesLabelThemselves")),
    ],
)
def test_labels_are_as_good_as_what_keeps_nodes_from_them(
    settings: dict[str, LabelSelector],
    has_kubeedge: bool,
    node_restriction: bool | None,
    expected: tuple[str, str],
) -> None:
    vc = objects.virtual_cluster("branch-a", **settings)
    found = group_trusted(vc, has_kubeedge=has_kubeedge, node_restriction=node_restriction)
    assert (found["status"], found["reason"]) == expected


def test_message_says_which_labels_and_what_helps() -> None:
    vc = objects.virtual_cluster("branch-a", **by(RESTRICTED, "zone", "branch"))
    found = group_trusted(vc, has_kubeedge=False, node_restriction=True)
    assert found["message"] == (
        f"the group is selected by labels branch, {RESTRICTED}, zone, and nodes can set labels "
        "branch, zone on themselves; select nodes by nodeNames or "
        "node-restriction.kubernetes.io/ labels"
    )


def test_discovered_group_says_by_what() -> None:
    def message(by_label: bool, **fields: Any) -> str:
        vc = objects.virtual_cluster(**fields)
        found = group_trusted(
            vc,
            has_kubeedge=False,
            node_restriction=True,
            origin="NodeGroup a",
            by_label=by_label,
        )
        return f"{found['status']} {found['reason']}: {found['message']}"

    assert message(False, **NAMES) == (
        "True NodeNames: the group is a list of node names, as NodeGroup a says"
    )
    assert "label zone, as NodeGroup a says, and nodes can set" in message(False, **by("zone"))
    text = message(True, **by("zone"))
    assert text.startswith("False NodesLabelThemselves")
    assert "each value that a node sets makes a virtual cluster" in text
    nothing = message(False, node_selector=NO_NODES)
    assert nothing == "True NoNodes: the group has no nodes, as NodeGroup a says"
