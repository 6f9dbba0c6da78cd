"""The condition PlacementEnforced: when it is True, and what it says."""

import pytest

from karmada_vc_agent.access.admission import MUTATING, VALIDATING
from karmada_vc_agent.features.policies.feature import (
    POD_NODE_SELECTOR,
    PolicyProblem,
    placement_enforced,
    with_kept,
)

PROBLEM = PolicyProblem("ForeignPolicy", "remove it")


@pytest.mark.parametrize(
    ("layers", "status"),
    [
        ((), "False"),
        ((MUTATING,), "False"),
        ((POD_NODE_SELECTOR,), "True"),
        ((VALIDATING,), "True"),
        ((POD_NODE_SELECTOR, MUTATING, VALIDATING), "True"),
    ],
)
def test_it_is_true_when_a_layer_holds_that_lets_no_other_selector_pass(
    layers: tuple[str, ...], status: str
) -> None:
    assert placement_enforced(frozenset(layers))["status"] == status


def test_layers_are_named_in_the_order_of_evaluation() -> None:
    found = placement_enforced(frozenset((VALIDATING, MUTATING, POD_NODE_SELECTOR)))
    assert found["message"] == (
        "enforced by PodNodeSelector, MutatingAdmissionPolicy, ValidatingAdmissionPolicy"
    )
    assert found["reason"] == "PodsKept"


def test_problem_of_one_layer_is_reported_beside_those_that_hold() -> None:
    found = placement_enforced(frozenset((VALIDATING,)), (PROBLEM,))
    assert found["message"] == "enforced by ValidatingAdmissionPolicy; remove it"


def test_advice_is_reported_when_nothing_holds() -> None:
    found = placement_enforced(frozenset(), (PROBLEM,))
    assert found["reason"] == "ForeignPolicy"
    assert found["message"] == (
        "pods created by operators or tenants may run on any node; remove it"
    )


def test_adopted_workloads_that_are_not_placed_are_named_and_counted() -> None:
    holds = placement_enforced(frozenset((VALIDATING,)))
    assert with_kept(holds, ()) == holds
    assert with_kept(None, ()) is None
    found = with_kept(holds, [f"Deployment edge/{number:02}" for number in range(12)])
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "AdoptedNotPlaced")
    assert "Deployment edge/00, Deployment edge/01" in found["message"]
    assert "Deployment edge/09 and 2 more; the agent adds it" in found["message"]
    assert found["message"].endswith(holds["message"])
    broken = placement_enforced(frozenset(), (PROBLEM,))
    found = with_kept(broken, ["Pod edge/a"])
    assert found is not None
    assert found["reason"] == "ForeignPolicy"
