"""Which placement an adopted workload may keep."""

from typing import Any

import pytest

from karmada_vc_agent.features.adoption import feature
from karmada_vc_agent.model.objects import Object, annotations_of, dig
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, KEPT_PLACEMENT_ANNOTATION
from tests.fakes import objects

SPEC = ("spec", "template", "spec")


def pod(name: str, node: str = "n1", **status: Any) -> Object:
    found = objects.pod(name, "edge", node, **status)
    found["metadata"]["labels"] = {"app": "web"}
    return found


def owns(node: str) -> bool:
    return node in ("n1", "n2")


def test_new_and_marked_objects_may_keep_theirs_and_no_others() -> None:
    live = objects.deployment()
    assert feature.may_keep(live)
    live["metadata"]["labels"][CLUSTER_LABEL] = "branch-a"
    assert not feature.may_keep(live), "somebody took the selector off"
    live["metadata"]["annotations"][KEPT_PLACEMENT_ANNOTATION] = "true"
    assert feature.may_keep(live)
    assert not feature.may_keep(objects.config_map())


def test_placement_is_the_live_one_and_the_rest_as_desired() -> None:
    live = objects.deployment(nodeSelector={"disk": "ssd"})
    wanted = objects.deployment(
        replicas=3, nodeSelector={"disk": "ssd", "branch": "a"}, tolerations=[{"key": "edge"}]
    )
    kept = feature.with_placement_of(live, wanted)
    assert kept is not None
    assert dig(kept, *SPEC, "nodeSelector") == {"disk": "ssd"}
    assert dig(kept, *SPEC, "tolerations") is None
    assert dig(kept, "spec", "replicas") == 3
    assert annotations_of(kept)[KEPT_PLACEMENT_ANNOTATION] == "true"
    assert KEPT_PLACEMENT_ANNOTATION not in annotations_of(feature.without_mark(kept))
    assert dig(wanted, *SPEC, "nodeSelector") == {"disk": "ssd", "branch": "a"}, "not modified"


def test_nothing_is_kept_where_nothing_differs() -> None:
    assert feature.with_placement_of(objects.deployment(), objects.deployment()) is None


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a"), pod("b", "n2")], True),
        ([pod("a"), pod("b", "n2"), pod("c", phase="Succeeded", node="elsewhere")], True),
        ([pod("a")], False),
        ([pod("a"), pod("b", "elsewhere")], False),
        ([pod("a"), pod("b", "")], False),
    ],
    ids=["all there", "and a finished one", "one lost", "one elsewhere", "one waiting"],
)
def test_pods_run_in_place_when_all_that_are_to_be_run_on_own_nodes(
    pods: list[Object], expected: bool
) -> None:
    live = objects.deployment()
    found = feature.pods_of(live, [*pods, objects.pod("other", "edge", "elsewhere")])
    assert feature.run_in_place(live, live, found, owns) is expected


def test_a_pod_is_its_own() -> None:
    live = pod("alone", "elsewhere")
    assert not feature.run_in_place(live, live, feature.pods_of(live, ()), owns)
    live = pod("alone")
    assert feature.run_in_place(live, live, feature.pods_of(live, ()), owns)


def test_a_workload_without_a_selector_of_ours_has_no_pods_to_keep() -> None:
    live = objects.deployment()
    live["spec"]["selector"] = "web"
    assert feature.pods_of(live, [pod("a")]) == []
    live["spec"]["selector"] = {}
    assert feature.pods_of(live, [pod("a")]) == []
