"""Every row of rewriting-rules 3.2, written out once more and independent of the table."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object, copy_object, parse_api_version
from karmada_vc_agent.translation.kind_policy import Code, PodTemplates, Refusal, pod_specs
from tests.unit.translation import given

TEMPLATE = ["spec", "template", "spec"]

# steps: a string is a key, 0 the only element of a list
WHOLE: list[tuple[str, str, list[Any]]] = [
    ("v1", "Pod", ["spec"]),
    ("v1", "PodTemplate", ["template", "spec"]),
    ("v1", "ReplicationController", TEMPLATE),
    ("apps/v1", "Deployment", TEMPLATE),
    ("apps/v1", "StatefulSet", TEMPLATE),
    ("apps/v1", "DaemonSet", TEMPLATE),
    ("apps/v1", "ReplicaSet", TEMPLATE),
    ("batch/v1", "Job", TEMPLATE),
    ("batch/v1", "CronJob", ["spec", "jobTemplate", *TEMPLATE]),
    ("apps.kruise.io/v1alpha1", "CloneSet", TEMPLATE),
    ("apps.kruise.io/v1beta1", "StatefulSet", TEMPLATE),
    ("apps.kruise.io/v1alpha1", "DaemonSet", TEMPLATE),
    ("argoproj.io/v1alpha1", "Rollout", TEMPLATE),
    ("apps.openshift.io/v1", "DeploymentConfig", TEMPLATE),
    ("serving.knative.dev/v1", "Service", TEMPLATE),
    ("serving.knative.dev/v1", "Configuration", TEMPLATE),
    ("batch.volcano.sh/v1alpha1", "Job", ["spec", "tasks", 0, "template", "spec"]),
    (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        ["spec", "replicatedJobs", 0, "template", "spec", "template", "spec"],
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        ["spec", "leaderWorkerTemplate", "leaderTemplate", "spec"],
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        ["spec", "leaderWorkerTemplate", "workerTemplate", "spec"],
    ),
    *(
        ("kubeflow.org/v1", kind, ["spec", field, "Worker", "template", "spec"])
        for kind, field in (
            ("PyTorchJob", "pytorchReplicaSpecs"),
            ("TFJob", "tfReplicaSpecs"),
            ("MPIJob", "mpiReplicaSpecs"),
            ("XGBoostJob", "xgboostReplicaSpecs"),
            ("PaddleJob", "paddleReplicaSpecs"),
            ("JAXJob", "jaxReplicaSpecs"),
        )
    ),
    *(
        ("ray.io/v1", kind, [*cluster, *group, "template", "spec"])
        for kind, cluster in (
            ("RayCluster", ["spec"]),
            ("RayJob", ["spec", "rayClusterSpec"]),
            ("RayService", ["spec", "rayClusterConfig"]),
        )
        for group in (["headGroupSpec"], ["workerGroupSpecs", 0])
    ),
    ("keda.sh/v1alpha1", "ScaledJob", ["spec", "jobTargetRef", "template", "spec"]),
]
SELECTOR_ONLY: list[tuple[str, str, list[Any]]] = [
    ("argoproj.io/v1alpha1", "Workflow", ["spec"]),
    ("argoproj.io/v1alpha1", "Workflow", ["spec", "templates", 0]),
    ("argoproj.io/v1alpha1", "WorkflowTemplate", ["spec"]),
    ("argoproj.io/v1alpha1", "WorkflowTemplate", ["spec", "templates", 0]),
    ("argoproj.io/v1alpha1", "CronWorkflow", ["spec", "workflowSpec"]),
    ("argoproj.io/v1alpha1", "CronWorkflow", ["spec", "workflowSpec", "templates", 0]),
    ("monitoring.coreos.com/v1", "Prometheus", ["spec"]),
    ("monitoring.coreos.com/v1alpha1", "PrometheusAgent", ["spec"]),
    ("monitoring.coreos.com/v1", "Alertmanager", ["spec"]),
    ("monitoring.coreos.com/v1", "ThanosRuler", ["spec"]),
    ("tekton.dev/v1", "TaskRun", ["spec", "podTemplate"]),
    ("tekton.dev/v1beta1", "TaskRun", ["spec", "podTemplate"]),
    ("tekton.dev/v1", "PipelineRun", ["spec", "taskRunTemplate", "podTemplate"]),
    ("tekton.dev/v1beta1", "PipelineRun", ["spec", "podTemplate"]),
    ("kubevirt.io/v1", "VirtualMachine", TEMPLATE),
    ("kubevirt.io/v1", "VirtualMachineInstance", ["spec"]),
    (
        "cert-manager.io/v1",
        "Issuer",
        ["spec", "acme", "solvers", 0, "http01", "ingress", "podTemplate", "spec"],
    ),
]
ROWS = [(*row, False) for row in WHOLE] + [(*row, True) for row in SELECTOR_ONLY]
IDS = [f"{api.split('/')[0]}-{kind}-{path[-1]}-{i}" for i, (api, kind, path, _) in enumerate(ROWS)]


def object_with(api_version: str, kind: str, path: list[Any], spec: Object) -> Object:
    value: Any = spec
    for step in reversed(path):
        value = [value] if step == 0 else {step: value}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "edge"},
        **value,
    }


def spec_in(obj: Object, path: list[Any]) -> Any:
    value: Any = obj
    for step in path:
        value = value[step]
    return value


def written(path: list[Any]) -> str:
    """Return a path as refusals write it; the one map of a table has the key Worker."""
    text = ""
    for step in path:
        text += f"[{step}]" if step == 0 else '["Worker"]' if step == "Worker" else f".{step}"
    return text.removeprefix(".")


every_row = pytest.mark.parametrize(("api_version", "kind", "path", "selector_only"), ROWS, ids=IDS)
Path = list[Any]


@every_row
def test_selector_is_set(api_version: str, kind: str, path: Path, selector_only: bool) -> None:
    host = given.host_object(object_with(api_version, kind, path, {"keep": 1}))
    assert spec_in(host, path)["nodeSelector"] == {"branch": "a"}
    assert spec_in(host, path)["keep"] == 1


@every_row
def test_selector_is_merged(api_version: str, kind: str, path: Path, selector_only: bool) -> None:
    obj = object_with(api_version, kind, path, {"nodeSelector": {"disk": "ssd"}})
    selector = spec_in(given.host_object(obj), path)["nodeSelector"]
    assert selector == {"branch": "a", "disk": "ssd"}


@every_row
def test_other_value_is_refused_with_its_path(
    api_version: str, kind: str, path: Path, selector_only: bool
) -> None:
    obj = object_with(api_version, kind, path, {"nodeSelector": {"branch": "b"}})
    where = f'{written(path)}.nodeSelector["branch"]'
    detail = f'{where} is "b", required "a"'
    assert given.refusal(obj) == Refusal(Code.NODE_SELECTOR_CONFLICT, where, detail)


@every_row
def test_node_name_is_understood_unless_selector_only(
    api_version: str, kind: str, path: Path, selector_only: bool
) -> None:
    obj = object_with(api_version, kind, path, {"nodeName": "node-9"})
    if selector_only:
        assert spec_in(given.host_object(obj), path)["nodeName"] == "node-9"
    else:
        assert given.refusal(obj).code is Code.NODE_NAME_FORBIDDEN


@every_row
def test_tolerations_are_added(
    api_version: str, kind: str, path: Path, selector_only: bool
) -> None:
    toleration = {"key": "edge", "operator": "Exists"}
    context = given.context(vc={"tolerations": [toleration]})
    host = given.host_object(object_with(api_version, kind, path, {}), context)
    assert spec_in(host, path)["tolerations"] == [toleration]


def test_all_elements_are_discovered() -> None:
    tasks = [{"template": {"spec": {}}}, {"template": {"spec": {}}}, {"name": "without"}]
    obj = {"spec": {"tasks": tasks}}
    gvk = parse_api_version("batch.volcano.sh/v1alpha1", "Job")
    assert [spec.path for spec in pod_specs(obj, gvk)] == [
        "spec.tasks[0].template.spec",
        "spec.tasks[1].template.spec",
    ]


def test_template_is_not_made_up_where_there_is_none() -> None:
    obj = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "x", "namespace": "edge"},
        "spec": {"workloadRef": {"name": "web"}},
    }
    assert given.host_object(obj)["spec"] == obj["spec"]


def test_tekton_version_decides_where_the_template_is_made() -> None:
    obj = {
        "apiVersion": "tekton.dev/v1beta1",
        "kind": "PipelineRun",
        "metadata": {"name": "x", "namespace": "edge"},
        "spec": {},
    }
    spec = given.host_object(obj)["spec"]
    assert spec == {"podTemplate": {"nodeSelector": {"branch": "a"}}}


def test_configured_row_for_a_built_in_path_is_not_counted_twice() -> None:
    extra = PodTemplates("apps", "Deployment", ("spec.template.spec",), selector_only=True)
    obj: Object = {"spec": {"template": {"spec": {}}}}
    found = pod_specs(obj, parse_api_version("apps/v1", "Deployment"), [extra])
    assert [(spec.path, spec.selector_only) for spec in found] == [("spec.template.spec", False)]


def test_configured_row_adds_to_the_table() -> None:
    extra = PodTemplates("apps", "Deployment", ("spec.debug",))
    obj: Object = {"spec": {"template": {"spec": {}}, "debug": {}}}
    before = copy_object(obj)
    found = pod_specs(obj, parse_api_version("apps/v1", "Deployment"), [extra])
    assert [spec.path for spec in found] == ["spec.template.spec", "spec.debug"]
    assert obj == before
