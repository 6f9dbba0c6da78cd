"""Taints that all nodes of a virtual cluster have in common, and what tolerates them."""

import msgspec
import pytest

from karmada_vc_agent.model.core import Node, Taint
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.placement import common_taints, missing_tolerations
from karmada_vc_agent.translation.restore import assert_placement
from tests.unit.translation.given import context, host_object, translated

BRANCH = Taint("branch", "a", "NoSchedule")
EDGE = Taint("edge", "", "NoExecute")
FOR_BRANCH = {"key": "branch", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
FOR_EDGE = {"key": "edge", "operator": "Exists", "effect": "NoExecute"}
OWN = {"key": "own", "operator": "Exists"}


def node(*taints: Taint) -> Node:
    made = msgspec.convert({"metadata": {"name": "n"}}, Node)
    made.spec.taints.extend(taints)
    return made


def test_only_what_all_nodes_carry_counts() -> None:
    assert common_taints([node(BRANCH, EDGE), node(EDGE)]) == (EDGE,)
    assert common_taints([node(BRANCH, EDGE), node(EDGE, BRANCH)]) == (BRANCH, EDGE)
    assert common_taints([node(BRANCH), node()]) == ()
    assert common_taints([]) == ()


@pytest.mark.parametrize(
    "taint",
    [
        Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
        Taint("node.kubernetes.io/unreachable", "", "NoExecute"),
        Taint("node.cloudprovider.kubernetes.io/shutdown", "", "NoSchedule"),
        Taint("slow", "", "PreferNoSchedule"),
    ],
)
def test_taint_of_a_state_or_preference_does_not_count(taint: Taint) -> None:
    assert common_taints([node(taint)]) == ()


@pytest.mark.parametrize(
    ("toleration", "is_enough"),
    [
        (FOR_BRANCH, True),
        ({"key": "branch", "value": "a"}, True),
        ({"key": "branch", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "branch", "operator": "Equal", "value": "b"}, False),
        ({"key": "branch", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "branch", "operator": "Exists", "tolerationSeconds": 3}, False),
        ({"value": "a"}, False),
        ("nonsense", False),
    ],
)
def test_tolerations_that_are_enough_are_left_alone(toleration: Object, is_enough: bool) -> None:
    missing = missing_tolerations([BRANCH], [toleration])
    assert missing == ([] if is_enough else [FOR_BRANCH])


def job(*tolerations: Object) -> Object:
    spec = {"tolerations": list(tolerations)} if tolerations else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "report", "namespace": "edge"},
        "spec": {"template": {"spec": spec}},
    }


@pytest.mark.parametrize(
    ("wanted", "before", "after"),
    [
        # The taint came after the Job, the taint went: nobody may change the Job's pods.
        ([OWN], [], [{"key": "branch", "value": "a", "effect": "NoSchedule"}]),
        ([OWN], [{"key": "branch", "value": "a", "effect": "NoSchedule"}], []),
        ([], [], [{"key": "branch", "value": "a", "effect": "NoSchedule"}]),
    ],
)
def test_a_job_keeps_its_tolerations_when_taints_come_and_go(
    wanted: list[Object], before: list[dict[str, str]], after: list[dict[str, str]]
) -> None:
    live = host_object(job(*wanted), context(node_taints=before))
    now = context(node_taints=after)
    again = translated(job(*wanted), now)
    result = assert_placement(again.obj, again, live, now)
    assert _tolerations(result) == live["spec"]["template"]["spec"].get("tolerations")


def test_another_toleration_of_its_own_is_not_held_back() -> None:
    # The API server refuses it, and Karmada is told so.
    live = host_object(job(OWN))
    other = {"key": "other", "operator": "Exists"}
    again = translated(job(OWN, other))
    assert _tolerations(assert_placement(again.obj, again, live, context())) == [OWN, other]


def test_a_deployment_follows_the_taints() -> None:
    deployment = job(OWN) | {"apiVersion": "apps/v1", "kind": "Deployment"}
    live = host_object(deployment)
    now = context(node_taints=[{"key": "edge", "effect": "NoExecute"}])
    again = translated(deployment, now)
    assert _tolerations(assert_placement(again.obj, again, live, now)) == [OWN, FOR_EDGE]


def _tolerations(result: object) -> object:
    obj = getattr(result, "obj", None)
    assert obj is not None, result
    return obj["spec"]["template"]["spec"].get("tolerations")
