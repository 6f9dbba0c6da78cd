"""Rules never change their input, whatever the objects look like."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules import apply_plan
from karmada_vc_agent.work.rules.server_changes import prune
from tests.fakes import built_in_rules
from tests.fakes.planned import plan_apply, plan_release

FIELDS = [
    "replicas",
    "selector",
    "matchLabels",
    "template",
    "metadata",
    "labels",
    "clusterIP",
    "healthCheckNodePort",
    "volumeName",
    "claimRef",
    "containers",
    "volumeMounts",
    "volumes",
    "name",
    "controller-uid",
    "loadBalancer",
    "ingress",
    "observedGeneration",
]
KINDS = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("batch/v1", "Job"),
    ("v1", "Secret"),
    ("networking.k8s.io/v1", "Ingress"),
    ("example.io/v1", "Widget"),
]
parts = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["", "a", "None"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)
    ),
    max_leaves=12,
)
string_maps = st.dictionaries(
    st.sampled_from(
        [
            "a",
            "karmada.io/managed",
            "virtualcluster.kubeedge.io/cluster",
            "resourcetemplate.karmada.io/generation",
            "resourcetemplate.karmada.io/managed-labels",
            "resourcetemplate.karmada.io/retain-replicas",
            "deployment.kubernetes.io/revision",
        ]
    ),
    st.sampled_from(["true", "vc1", "1", "a"]),
)


@st.composite
def objects(draw: st.DrawFn, kind: tuple[str, str]) -> Object:
    metadata: dict[str, Any] = {"name": "x", "namespace": "edge"}
    for field in ("labels", "annotations"):
        metadata[field] = draw(string_maps)
    metadata["generation"] = draw(st.integers(0, 2))
    metadata["resourceVersion"] = "1"
    obj: Object = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata}
    for field in ("spec", "status", "data", "secrets"):
        if draw(st.booleans()):
            obj[field] = draw(parts)
    if draw(st.booleans()):
        obj["type"] = "kubernetes.io/service-account-token"
    return obj


pairs = st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(objects(kind), objects(kind)))


@given(pairs)
def test_no_rule_changes_its_input(pair: tuple[Object, Object]) -> None:
    desired, live = pair
    before = copy.deepcopy(pair)
    for rule in (
        lambda: prune(live),
        lambda: plan_apply(desired, live, built_in_rules.retain),
        lambda: plan_release(desired, live, built_in_rules.retain),
        lambda: apply_plan.needs_update(desired, live, "gen:1"),
        lambda: built_in_rules.reflect_status(live),
        lambda: built_in_rules.interpret_health(live),
    ):
        # The only errors that odd shapes may cause.
        with contextlib.suppress(InterpretationError, apply_plan.ForeignError):
            rule()
    assert pair == before


@given(pairs)
def test_what_was_put_is_kept_the_next_time(pair: tuple[Object, Object]) -> None:
    desired, live = pair
    labels = {**desired["metadata"]["labels"], "karmada.io/managed": "true"}
    desired["metadata"]["labels"] = labels
    managed = {"resourcetemplate.karmada.io/managed-labels": ",".join(sorted(labels))}
    desired["metadata"]["annotations"] |= managed  # as Karmada keeps it: no more than its own
    try:
        plan = plan_apply(desired, live, built_in_rules.retain)
    except (InterpretationError, apply_plan.ForeignError):
        return
    if plan is not None:
        assert plan_apply(desired, plan, built_in_rules.retain) is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_kept_as_it_is(kind: tuple[str, str]) -> None:
    obj: Object = {
        "apiVersion": kind[0],
        "kind": kind[1],
        "metadata": {"name": "x", "labels": {"karmada.io/managed": "true"}},
        "spec": {"replicas": 1},
    }
    assert plan_apply(obj, obj, built_in_rules.retain) is None
