"""Shared objects: who joins, who waits, who may change them, when they go."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import Object, annotations_of, copy_object, put
from karmada_vc_agent.model.vocabulary import OWNERS_ANNOTATION, SHARED_LABEL
from karmada_vc_agent.work.rules import apply_plan
from karmada_vc_agent.work.rules.apply_plan import (
    SharePlan,
    owners_of,
    plan_leave,
)
from tests.fakes.planned import plan_share

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def desired(value: int = 10, **labels: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high", "labels": {SHARED_LABEL: "true", **labels}},
        "value": value,
    }


def live(value: int = 10, **owners: str) -> Object:
    plan = plan_share(desired(value), None, "nobody")
    assert plan.obj is not None
    obj = put(plan.obj, "7", "metadata", "resourceVersion")
    obj["preemptionPolicy"] = "PreemptLowerPriority"  # filled in by the host
    return apply_plan.with_owners(obj, owners)


def wish(value: int = 10, **labels: str) -> str:
    return apply_plan.content_hash(desired(value, **labels))


def test_first_one_creates_it() -> None:
    plan = plan_share(desired(), None, "a")
    assert plan.obj is not None
    assert owners_of(plan.obj) == {"a": wish()}


def test_equal_one_joins() -> None:
    plan = plan_share(desired(), live(a=wish()), "b")
    assert plan.obj is not None
    assert owners_of(plan.obj) == {"a": wish(), "b": wish()}
    assert plan.obj["metadata"]["resourceVersion"] == "7"


def test_owner_of_what_is_right_writes_nothing() -> None:
    assert plan_share(desired(), live(a=wish(), b="other"), "a") == SharePlan()


def test_different_newcomer_is_refused_and_not_noted() -> None:
    assert plan_share(desired(20), live(a=wish()), "b") == SharePlan(differs_at="value")


def test_only_owner_changes_it() -> None:
    plan = plan_share(desired(20), live(a=wish()), "a")
    assert plan.obj is not None
    assert plan.obj["value"] == 20
    assert owners_of(plan.obj) == {"a": wish(20)}


def test_only_owner_removes_a_label() -> None:
    before = live(a=wish(team="x"))
    before["metadata"]["labels"]["team"] = "x"
    annotations = before["metadata"]["annotations"]
    annotations["resourcetemplate.karmada.io/managed-labels"] = "team"
    plan = plan_share(desired(), before, "a")
    assert plan.obj is not None
    assert "team" not in plan.obj["metadata"]["labels"]


def test_one_of_several_owners_waits_and_is_noted_once() -> None:
    plan = plan_share(desired(20), live(a=wish(), b=wish()), "a")
    assert plan.differs_at == "value"
    assert plan.obj is not None
    assert plan.obj["value"] == 10
    assert owners_of(plan.obj) == {"a": wish(20), "b": wish()}
    assert plan_share(desired(20), plan.obj, "a") == SharePlan(differs_at="value")


def test_last_owner_to_agree_changes_it() -> None:
    plan = plan_share(desired(20), live(a=wish(20), b=wish()), "b")
    assert plan.obj is not None
    assert plan.obj["value"] == 20
    assert owners_of(plan.obj) == {"a": wish(20), "b": wish(20)}


def test_drift_of_the_agreed_value_is_repaired() -> None:
    plan = plan_share(desired(), live(99, a=wish(), b=wish()), "b")
    assert plan.obj is not None
    assert plan.obj["value"] == 10


def test_object_of_the_host_is_right_or_differs_and_is_never_written() -> None:
    foreign = live()
    foreign["metadata"] = {"name": "high", "resourceVersion": "7"}
    assert plan_share(desired(), foreign, "a") == SharePlan()
    assert plan_share(desired(20), foreign, "a") == SharePlan(differs_at="value")
    assert plan_leave(foreign, "a") is None


def test_owner_leaves() -> None:
    left = plan_leave(live(a=wish(), b=wish()), "a")
    assert left is not None
    assert owners_of(left) == {"b": wish()}


def test_last_owner_removes_it_or_leaves_it_to_no_one() -> None:
    left = plan_leave(live(a=wish()), "a")
    assert left is not None
    assert owners_of(left) == {}
    assert plan_leave(left, "a") is None


def test_object_left_to_no_one_is_changed_by_the_next_owner() -> None:
    plan = plan_share(desired(20), live(), "b")
    assert plan.obj is not None
    assert plan.obj["value"] == 20


def test_odd_owners_count_as_none() -> None:
    for odd in ("", "[]", '{"a": 1}', "{"):
        obj = put(live(), odd, "metadata", "annotations", OWNERS_ANNOTATION)
        assert owners_of(obj) == {}


def test_what_names_one_work_makes_no_difference() -> None:
    other = desired()
    other["metadata"]["labels"]["work.karmada.io/permanent-id"] = "1"
    assert apply_plan.content_hash(other) == wish()
    assert plan_share(other, live(a=wish()), "a") == SharePlan()


def test_label_makes_a_difference() -> None:
    assert plan_share(desired(team="x"), live(a=wish()), "b") == SharePlan(
        differs_at="metadata.labels"
    )


def test_first_difference_is_named_by_its_path() -> None:
    wanted = {"spec": {"versions": [{"name": "v1"}, {"name": "v2", "served": True}]}}
    found = {"spec": {"versions": [{"name": "v1"}, {"name": "v2", "served": False}]}}
    assert apply_plan.difference(wanted, found) == "spec.versions[1].served"
    found["spec"]["versions"].pop()
    assert apply_plan.difference(wanted, found) == "spec.versions"


@given(JSON)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert apply_plan.difference(value, copy_object(value)) is None


def test_input_is_kept() -> None:
    wanted, found = desired(20), live(a=wish())
    before = copy_object((wanted, found))
    plan_share(wanted, found, "a")
    plan_leave(found, "a")
    assert before == (wanted, found)
    assert annotations_of(found)
