"""What tells the next process that an object is as the agent left it (ADR 49)."""

import copy
from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, WRITTEN_ANNOTATION
from karmada_vc_agent.work.rules import apply_plan
from karmada_vc_agent.work.rules.apply_plan import has_value

DIGEST = "d1"


def wanted(**spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "web",
            "namespace": "hns",
            "labels": {"karmada.io/managed": "true", CLUSTER_LABEL: "branch-a"},
            "annotations": {"virtualcluster.kubeedge.io/work": "es/web"},
        },
        "spec": {"replicas": 2, "template": {"cpu": "1000m"}, **spec},
    }


def completed(obj: Object, generation: int = 1) -> Object:
    """Return an object as a server stores it: with defaults, and amounts in its own way."""
    live = copy.deepcopy(obj)
    live["metadata"] |= {"generation": generation, "resourceVersion": "7", "uid": "u"}
    live["spec"] = {"revisionHistoryLimit": 10, **live["spec"]}
    live["spec"]["template"] = {"cpu": "1", "schedulerName": "default"}
    return live


def decide(obj: Object, live: Object | None, digest: str = DIGEST, *, trusts: bool = True) -> Any:
    return apply_plan.decide(obj, live, digest, trusts_mark=trusts)


def written(obj: Object, live: Object | None = None, digest: str = DIGEST) -> Object:
    plan = decide(obj, live, digest, trusts=False)
    assert isinstance(plan, dict)
    return plan


def mark_of(obj: Object) -> str | None:
    return annotations_of(obj).get(WRITTEN_ANNOTATION)


def test_what_was_created_and_completed_by_the_server_is_kept_by_the_next_process() -> None:
    assert decide(wanted(), completed(written(wanted()))) is None


def test_process_that_knows_what_it_wrote_trusts_that_alone() -> None:
    assert decide(wanted(), completed(written(wanted())), trusts=False) is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda live: live["metadata"].update(generation=2),
        lambda live: live["metadata"]["labels"].pop("karmada.io/managed"),
        lambda live: live["metadata"]["annotations"].pop("virtualcluster.kubeedge.io/work"),
        lambda live: live["spec"].update(replicas=3),
        lambda live: live["spec"].pop("replicas"),
        lambda live: live["metadata"]["annotations"].pop(WRITTEN_ANNOTATION),
        lambda live: live["metadata"]["annotations"].update({WRITTEN_ANNOTATION: "d0/1"}),
        lambda live: live["metadata"].pop("generation"),
    ],
    ids=["generation", "label", "annotation", "field", "no field", "no mark", "other", "uncounted"],
)
def test_what_changed_meanwhile_is_written(change: Any) -> None:
    live = completed(written(wanted()))
    change(live)
    assert decide(wanted(), live) is not None


def test_another_template_is_written_though_the_object_has_all_of_it() -> None:
    live = completed(written(wanted(paused=False)))
    assert decide(wanted(), live, "d2") is not None


def test_a_change_of_content_makes_the_next_generation() -> None:
    live = completed(written(wanted()))
    changed = written(wanted(replicas=5), live, "d2")
    assert mark_of(changed) == "d2/2"
    assert decide(wanted(replicas=5), completed(changed, 2), "d2") is None


def test_a_change_of_labels_alone_makes_none() -> None:
    live = completed(written(wanted()))
    labelled = wanted()
    labelled["metadata"]["labels"]["more"] = "1"
    again = written(labelled, live, "d2")
    assert mark_of(again) == "d2/1"
    assert decide(labelled, completed(again), "d2") is None


def test_mark_of_a_deployment_is_a_change_that_servers_count() -> None:
    live = completed(written(wanted() | {"kind": "Deployment"}))
    scaled = copy.deepcopy(live)
    scaled["spec"]["replicas"], scaled["metadata"]["generation"] = 5, 2
    retained = wanted(replicas=5) | {"kind": "Deployment"}
    again = written(retained, scaled)
    assert mark_of(again) == "d1/3"
    assert decide(retained, completed(again, 3)) is None
    assert decide(retained, completed(again, 4)) is not None


def test_null_time_of_a_pod_template_is_no_difference() -> None:
    """Servers before 1.34 add it: each scaling by the host would cost a write."""
    desired = wanted(template={"metadata": {"labels": {"app": "web"}}, "spec": {}})
    live = copy.deepcopy(desired)
    live["metadata"] |= {"generation": 2, "resourceVersion": "7", "uid": "u"}
    live["spec"]["template"]["metadata"]["creationTimestamp"] = None
    assert decide(desired, live, trusts=False) is None
    live["spec"]["template"]["metadata"]["creationTimestamp"] = "2030-01-01T00:00:00Z"
    assert decide(desired, live, trusts=False) is not None


def test_a_mark_promises_nothing_where_a_write_may_have_removed_something() -> None:
    """Whether the PUT made a generation is not known before it: the mark says that it did not."""
    live = completed(written(wanted()), 2)
    live["spec"]["paused"] = True
    again = written(wanted(), live)
    assert mark_of(again) == "d1/2"
    assert decide(wanted(), completed(again, 3)) is not None
    assert decide(wanted(), completed(written(wanted(), completed(again, 3)), 3)) is None


def test_a_field_that_the_server_writes_its_own_way_never_hides_a_later_change() -> None:
    """The write was to make a generation and made none; then somebody makes it."""
    live = completed(wanted())
    live["spec"]["template"]["cpu"] = "webhook"
    again = completed(written(wanted(), live), 2)
    again["spec"] |= {"paused": True, "template": {"cpu": "webhook"}}
    assert mark_of(again) == "d1/2"
    assert decide(wanted(), again) is not None


def test_mark_of_another_writer_is_not_taken_over() -> None:
    live = completed(written(wanted()))
    live["metadata"]["annotations"][WRITTEN_ANNOTATION] = "forged"
    merged = apply_plan.merge(wanted(), live)
    assert isinstance(merged, dict)
    assert mark_of(merged) is None


def test_a_released_object_has_no_mark() -> None:
    live = completed(written(wanted()))
    merged = apply_plan.merge_released(wanted(), live)
    assert isinstance(merged, dict)
    plan = apply_plan.decide_released(merged, live)
    assert plan is not None
    assert mark_of(plan) is None


def test_a_kind_whose_changes_no_server_counts_has_no_mark() -> None:
    settings = {**wanted(), "apiVersion": "v1", "kind": "ConfigMap"}
    assert mark_of(written(settings)) is None


@pytest.mark.parametrize(
    ("live", "named", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": 1}, False),
        ({}, {"a": None, "b": {}, "c": [], "d": ""}, True),
        ({"a": 0}, {"a": False}, True),
        ({}, {"a": 0, "b": False}, True),
        ({"a": 1, "b": True}, {"a": 0}, False),
        ([{"a": 1, "b": 2}], [{"a": 1}], True),
        ([1, 2], [1], False),
        ([1], [], False),
        ("1", "1000m", True),
        ("512Mi", "0.5Gi", True),
        ("1", 1, True),
        ("2", "1000m", False),
        ("web", "wep", False),
        ({"a": 1}, "text", False),
        ("text", {"a": 1}, False),
    ],
)
def test_what_an_object_has_of_what_is_named(live: Any, named: Any, expected: bool) -> None:
    assert has_value(live, named) is expected
