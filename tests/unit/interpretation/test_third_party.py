"""Rules for well-known custom kinds, by contract 7.5; the e2e suite asks Karmada itself."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karmada_vc_agent.interpretation import third_party
from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from tests.fakes import built_in_rules

KRUISE, FLUX = "apps.kruise.io/v1alpha1", "source.toolkit.fluxcd.io/v1beta2"
TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"
KINDS = sorted(
    {
        *third_party.RETAIN_RULES,
        *third_party.REFLECT_RULES,
        *third_party.HEALTH_RULES,
    },
    key=lambda kind: (kind.group, kind.kind),
)


def _live(api_version: str, kind: str, status: Any = None, **fields: Any) -> Object:
    metadata = {"name": "x", "generation": 2, "annotations": {TEMPLATE_GENERATION: "1"}}
    live = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
    return live if status is None else live | {"status": status}


def _health(api_version: str, kind: str, status: Any, **fields: Any) -> str:
    return built_in_rules.interpret_health(_live(api_version, kind, status, **fields))


def _condition(kind: str, status: str = "True", reason: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason}


# --- status -----------------------------------------------------------------------------------


def test_both_generations_are_added_where_they_are_recorded() -> None:
    live = _live(KRUISE, "CloneSet", {"replicas": 3, "collisionCount": 1})
    assert built_in_rules.reflect_status(live) == {
        "replicas": 3,
        "generation": 2,
        "resourceTemplateGeneration": 1,
    }


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [("7", 7), (" 7 ", 7), ("0x10", 16), ("1.5", 1.5), ("", None), ("a", None), ("1e3", None)],
)
def test_a_template_generation_that_is_no_number_is_left_out(
    annotation: str, expected: float | None
) -> None:
    live = _live(KRUISE, "DaemonSet", {})
    live["metadata"]["annotations"][TEMPLATE_GENERATION] = annotation
    reflected = built_in_rules.reflect_status(live) or {}
    assert reflected.get("resourceTemplateGeneration") == expected


def test_an_object_without_annotations_shows_its_own_generation() -> None:
    live = _live(FLUX, "Bucket", {"url": "http://bucket"})
    del live["metadata"]["annotations"]
    assert built_in_rules.reflect_status(live) == {"url": "http://bucket", "generation": 2}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in third_party.REFLECT_RULES])
def test_an_object_without_status_has_an_empty_one(kind: GroupVersionKind) -> None:
    assert built_in_rules.reflect_status(_live(f"{kind.group}/{kind.version}", kind.kind)) == {}


def test_a_helm_chart_never_shows_its_observed_generation() -> None:
    status = {"observedGeneration": 2, "observedChartName": "web"}
    reflected = built_in_rules.reflect_status(_live(FLUX, "HelmChart", status)) or {}
    assert reflected["observedChartName"] == "web"
    assert "observedGeneration" not in reflected


def test_a_sidecar_set_shows_zeros_for_what_is_missing() -> None:
    assert built_in_rules.reflect_status(_live(KRUISE, "SidecarSet", {"matchedPods": 2})) == {
        "matchedPods": 2,
        "updatedPods": 0,
        "readyPods": 0,
    }


def test_what_is_empty_inside_a_status_is_left_out_once() -> None:
    status: Object = {
        "state": {"phase": "Running", "detail": {"list": [], "object": {}}},
        "conditions": [],
    }
    assert built_in_rules.reflect_status(_live("batch.volcano.sh/v1alpha1", "Job", status)) == {
        "state": {"phase": "Running", "detail": {}}
    }


def test_an_mpi_job_shows_four_fields_of_each_replica_status() -> None:
    replicas = {"Worker": {"active": 2, "ready": 1}, "Launcher": {"ready": 1}}
    live = _live("kubeflow.org/v2beta1", "MPIJob", {"replicaStatuses": replicas})
    assert built_in_rules.reflect_status(live) == {"replicaStatuses": {"Worker": {"active": 2}}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, {"readyReplicas": 0}),
        ({"conditions": "text"}, {"readyReplicas": 0}),
        (
            {"readyReplicas": 1, "containerState": {"running": {"startedAt": "now"}}},
            {"readyReplicas": 1, "containerState": {"running": {"startedAt": "now"}}},
        ),
    ],
)
def test_a_notebook_shows_zero_replicas_where_it_counts_none(
    status: Object, expected: Object
) -> None:
    assert built_in_rules.reflect_status(_live("kubeflow.org/v1", "Notebook", status)) == expected


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("ray.io/v1", "RayJob"), (KRUISE, "AdvancedCronJob"), ("argoproj.io/v1alpha1", "Workflow")],
)
def test_a_kind_without_a_rule_shows_its_whole_status(api_version: str, kind: str) -> None:
    status: Object = {"active": [], "detail": {}, "any": None}
    assert built_in_rules.reflect_status(_live(api_version, kind, status)) == status


def test_a_status_that_is_no_object_is_an_error_with_the_field_in_it() -> None:
    with pytest.raises(InterpretationError, match=r"cannot read status\.") as failed:
        built_in_rules.reflect_status(_live(KRUISE, "CloneSet", True))
    assert (failed.value.level, failed.value.operation) == ("third-party", "InterpretStatus")


# --- health -----------------------------------------------------------------------------------

ROLLED_OUT = {"observedGeneration": 2, "updatedReplicas": 3, "availableReplicas": 3}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        (KRUISE, "CloneSet"),
        (KRUISE, "UnitedDeployment"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
    ],
)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "Healthy"),
        ({"observedGeneration": 1}, "Unhealthy"),
        ({"updatedReplicas": 2}, "Unhealthy"),
        ({"availableReplicas": 2}, "Unhealthy"),
    ],
)
def test_a_kruise_workload_is_healthy_when_rolled_out(
    api_version: str, kind: str, changes: Object, expected: str
) -> None:
    health = _health(api_version, kind, ROLLED_OUT | changes, spec={"replicas": 3})
    assert health == expected


def test_a_count_that_is_missing_cannot_be_compared() -> None:
    with pytest.raises(InterpretationError, match="not supported between"):
        _health(KRUISE, "CloneSet", {"observedGeneration": 2}, spec={"replicas": 3})


def test_a_united_deployment_without_spec_is_unhealthy() -> None:
    assert _health(KRUISE, "UnitedDeployment", ROLLED_OUT) == "Unhealthy"
    with pytest.raises(InterpretationError, match=r"cannot read spec\.replicas"):
        _health(KRUISE, "CloneSet", ROLLED_OUT)


READY, PROVISIONED = _condition("HeadPodReady"), _condition("RayClusterProvisioned")
POD = {"desired": 1, "failed": 0, "succeeded": 1, "active": 0}


@pytest.mark.parametrize(
    ("api_version", "kind", "status", "expected"),
    [
        (KRUISE, "AdvancedCronJob", {}, "Healthy"),
        (KRUISE, "BroadcastJob", POD, "Healthy"),
        (KRUISE, "BroadcastJob", POD | {"desired": 0}, "Unhealthy"),
        (KRUISE, "BroadcastJob", POD | {"failed": 1}, "Unhealthy"),
        (KRUISE, "BroadcastJob", POD | {"failed": None}, "Unhealthy"),
        (KRUISE, "BroadcastJob", POD | {"succeeded": 0}, "Unhealthy"),
        (KRUISE, "SidecarSet", {}, "Healthy"),
        (KRUISE, "SidecarSet", {"matchedPods": 2, "updatedPods": 2}, "Healthy"),
        (KRUISE, "SidecarSet", {"matchedPods": 2}, "Unhealthy"),
        ("argoproj.io/v1alpha1", "Workflow", {"phase": "Pending"}, "Healthy"),
        ("argoproj.io/v1alpha1", "Workflow", {"phase": "Failed"}, "Unhealthy"),
        ("argoproj.io/v1alpha1", "Workflow", {"phase": ""}, "Unhealthy"),
        ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Aborted"}}, "Healthy"),
        ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Failed"}}, "Unhealthy"),
        ("batch.volcano.sh/v1alpha1", "Job", {}, "Unhealthy"),
        ("kubeflow.org/v1", "Notebook", {"containerState": {"running": {}}}, "Healthy"),
        ("kubeflow.org/v1", "Notebook", {"containerState": {"terminated": {}}}, "Healthy"),
        (
            "kubeflow.org/v1",
            "Notebook",
            {"containerState": {"terminated": {"exitCode": 1}}},
            "Unhealthy",
        ),
        (
            "kubeflow.org/v1",
            "Notebook",
            {"containerState": {"waiting": {"reason": "ContainerCreating"}}},
            "Healthy",
        ),
        ("kubeflow.org/v1", "Notebook", {"containerState": {"waiting": {}}}, "Unhealthy"),
        ("kubeflow.org/v1", "Notebook", {"containerState": {}}, "Unhealthy"),
        ("kubeflow.org/v1", "TFJob", {}, "Unhealthy"),
        ("kubeflow.org/v1", "TFJob", {"conditions": []}, "Healthy"),
        ("kubeflow.org/v1", "PyTorchJob", {"conditions": [_condition("Failed")]}, "Unhealthy"),
        ("kubeflow.org/v2beta1", "MPIJob", {"conditions": []}, "Unhealthy"),
        ("kubeflow.org/v2beta1", "MPIJob", {"conditions": [_condition("Running")]}, "Healthy"),
        ("ray.io/v1", "RayCluster", {"conditions": [READY, PROVISIONED]}, "Healthy"),
        ("ray.io/v1", "RayCluster", {"conditions": [READY]}, "Unhealthy"),
        (
            "ray.io/v1",
            "RayCluster",
            {"conditions": [READY, PROVISIONED, _condition("RayClusterReplicaFailure")]},
            "Unhealthy",
        ),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Running"}, "Healthy"),
        ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Complete"}, "Unhealthy"),
        ("ray.io/v1", "RayService", {"conditions": [_condition("Ready")]}, "Healthy"),
        ("ray.io/v1", "RayService", {"conditions": [_condition("Ready", "False")]}, "Unhealthy"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", {}, "Unhealthy"),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"applicationState": {"state": ""}},
            "Healthy",
        ),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"applicationState": {"state": "FAILED"}},
            "Unhealthy",
        ),
    ],
)
def test_health(api_version: str, kind: str, status: Object, expected: str) -> None:
    assert _health(api_version, kind, status) == expected


@pytest.mark.parametrize(
    ("kind", "reason", "expected"),
    [
        ("HelmRepository", "Succeeded", "Healthy"),
        ("HelmRepository", "ChartPullSucceeded", "Unhealthy"),
        ("HelmChart", "ChartPullSucceeded", "Healthy"),
        ("HelmChart", "ReconciliationSucceeded", "Unhealthy"),
    ],
)
def test_a_flux_source_is_healthy_when_ready_for_the_right_reason(
    kind: str, reason: str, expected: str
) -> None:
    status = {"conditions": [_condition("Ready", reason=reason)]}
    assert _health(FLUX, kind, status) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"jobManagerDeploymentStatus": "READY", "lifecycleState": "STABLE"}, "Healthy"),
        ({"jobManagerDeploymentStatus": "READY"}, "Unhealthy"),
        ({"jobStatus": {"state": "RUNNING"}}, "Healthy"),
        ({"jobStatus": {"state": "RESTARTING"}}, "Healthy"),
        ({"jobStatus": {"state": "CREATED"}}, "Unhealthy"),
        ({"jobStatus": {"state": "CREATED"}, "error": "pod: ErrImagePull"}, "Healthy"),
        ({"jobStatus": {"state": "CREATED"}, "error": "no quota"}, "Unhealthy"),
        ({"jobStatus": {"state": "ELSE"}}, "Unhealthy"),
    ],
)
def test_a_flink_deployment_is_healthy_unless_it_starts_without_end(
    status: Object, expected: str
) -> None:
    assert _health("flink.apache.org/v1beta1", "FlinkDeployment", status) == expected


@pytest.mark.parametrize("kind", ["Policy", "ClusterPolicy"])
def test_a_kyverno_policy_says_itself_whether_it_is_ready(kind: str) -> None:
    conditions = [_condition("Ready", reason="Succeeded")]
    assert _health("kyverno.io/v1", kind, {"conditions": conditions}) == "Healthy"
    assert _health("kyverno.io/v1", kind, {"conditions": conditions, "ready": False}) == "Unhealthy"
    with pytest.raises(InterpretationError, match=r"status\.ready is no boolean"):
        _health("kyverno.io/v1", kind, {"ready": "true"})


# --- retain -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Bucket", "HelmChart", "HelmRepository", "OCIRepository"])
@pytest.mark.parametrize(
    ("wanted", "live", "expected"),
    [
        ({}, {"suspend": True}, {"suspend": True}),
        ({"suspend": True}, {"suspend": False}, {"suspend": False}),
        ({"suspend": True}, {}, {"suspend": True}),
    ],
)
def test_suspension_on_the_host_is_kept(
    kind: str, wanted: Object, live: Object, expected: Object
) -> None:
    desired = _live(FLUX, kind, spec=wanted)
    retained = built_in_rules.retain(desired, _live(FLUX, kind, spec=live | {"url": "x"}))
    assert retained == desired | {"spec": expected}


def test_a_workflow_keeps_its_status() -> None:
    desired = _live("argoproj.io/v1alpha1", "Workflow", spec={"entrypoint": "main"})
    live = _live("argoproj.io/v1alpha1", "Workflow", {"nodes": {}, "steps": []}, spec={})
    assert built_in_rules.retain(desired, live) == desired | {"status": {"nodes": {}, "steps": []}}


def test_a_broadcast_job_keeps_the_labels_of_its_pods() -> None:
    desired = _live(KRUISE, "BroadcastJob", spec={"template": {"metadata": {"labels": {"a": "b"}}}})
    labelled = {"template": {"metadata": {"labels": {"controller-uid": "u"}}}}
    live = _live(KRUISE, "BroadcastJob", spec=labelled)
    assert built_in_rules.retain(desired, live) == desired | {"spec": labelled}


def test_labels_have_no_place_in_a_template_without_metadata() -> None:
    desired = _live(KRUISE, "BroadcastJob", spec={"template": {}})
    live = _live(KRUISE, "BroadcastJob", spec={"template": {"metadata": {"labels": {"a": "b"}}}})
    with pytest.raises(InterpretationError, match="item assignment"):
        built_in_rules.retain(desired, live)


def test_a_sidecar_set_loses_its_nulls_and_keeps_what_is_empty() -> None:
    spec: Object = {
        "selector": {},
        "containers": [],
        "strategy": None,
        "only": {"nulls": None},
        "n": 1.0,
    }
    desired = _live(KRUISE, "SidecarSet", spec=spec)
    retained = built_in_rules.retain(desired, _live(KRUISE, "SidecarSet"))
    assert retained["spec"] == {"selector": {}, "containers": [], "n": 1}
    assert isinstance(retained["spec"]["n"], int)


# --- any shape --------------------------------------------------------------------------------

FIELDS = (
    *("conditions", "type", "status", "reason", "suspend", "replicas", "template", "metadata"),
    *("labels", "state", "phase", "jobStatus", "containerState", "waiting", "replicaStatuses"),
    *("observedGeneration", "updatedReplicas", "availableReplicas", "taskStatusCount", "ready"),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "Ready", "True", "Succeeded", "CREATED", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=15,
)


@st.composite
def objects(draw: st.DrawFn, kind: GroupVersionKind) -> Object:
    obj: Object = {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind}
    for field in ("metadata", "spec", "status"):
        if draw(st.booleans()):
            obj[field] = draw(values)
    return obj


pairs = st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(objects(kind), objects(kind)))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs)
def test_odd_shapes_raise_no_other_error_and_change_nothing(pair: tuple[Object, Object]) -> None:
    desired, live = pair
    before = copy.deepcopy(pair)
    for ask in (
        lambda: built_in_rules.retain(desired, live),
        lambda: built_in_rules.reflect_status(live),
        lambda: built_in_rules.interpret_health(live),
    ):
        with contextlib.suppress(InterpretationError):
            ask()
    assert pair == before
