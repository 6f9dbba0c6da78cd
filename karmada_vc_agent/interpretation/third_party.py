"""Karmada's scripts for well-known custom kinds, as a table of fields and rules.

Rules work on tables (`lua_values`); they fail where the script fails on what is served. Two
results look odd and are Karmada's: a SidecarSet retains nothing and yet is converted to JSON and
back, a BroadcastJob that does not count failed pods is unhealthy.
Source: contract 7.5; karmada pkg/resourceinterpreter/default/thirdparty.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from karmada_vc_agent.interpretation.lua_values import empties, read, settle, to_number, to_table
from karmada_vc_agent.model import user_text, vocabulary
from karmada_vc_agent.model.objects import GroupVersionKind, Object, list_at, parse_api_version

_Retain = Callable[[Object, Object], Object]
"""Changes the manifest (first) according to the live object, and returns it."""
_Reflect = Callable[[Object], Object]
"""Absent values are omitted from the result."""
_Health = Callable[[Object], bool]


def _dig(value: Any, *path: str) -> Any:
    for key in path:
        value = None if value is None else read(value, key)
    return value


def _keep(*paths: str) -> _Retain:
    """Make a rule that keeps the live values of these fields."""

    def retain(desired: Object, live: Object) -> Object:
        for path in paths:
            *parents, last = path.split(".")
            if (value := read(live, *parents, last)) is not None:
                read(desired, *parents)[last] = value
        return desired

    kept = " and ".join(f"the live `{path}`" for path in paths)
    retain.__doc__ = f"Keep {kept or 'nothing: the script of Karmada for this kind does nothing'}."
    return retain


def _keep_template_labels(desired: Object, live: Object) -> Object:
    """Keep the live labels of the template."""
    has_metadata = read(live, "spec", "template", "metadata") is not None
    return _keep("spec.template.metadata.labels")(desired, live) if has_metadata else desired


def _show(names: str) -> _Reflect:
    """Make a rule that shows these fields of the status.

    names: with a mark for `x=0`, zero if absent; `x[]`, omitted unless it is a list; `x{}`, an
    error unless it is a table; and `+`, both generations.
    """
    fields = re.findall(r"(\w+)(=0|\[\]|\{\}|)(?: |$)", names)

    def reflect(live: Object) -> Object:
        if "status" not in live:
            return {}
        shown = {name: _field(live, name, mark) for name, mark in fields}
        if "+" in names:
            text = _dig(live, "metadata", "annotations", vocabulary.TEMPLATE_GENERATION_ANNOTATION)
            shown["generation"] = _dig(live, "metadata", "generation")
            shown["resourceTemplateGeneration"] = to_number(text)
        return shown

    listed = ", ".join(f"`{name}`" for name, _ in fields)
    reflect.__doc__ = f"Show {'both generations, ' if '+' in names else ''}{listed}."
    return reflect


def _field(live: Object, name: str, mark: str) -> Any:
    value = read(live, "status", name)
    if mark == "{}" and value is not None and not isinstance(value, dict | list):
        raise ValueError(f"status.{name} is no object")
    if mark == "[]" and not isinstance(value, list):
        return None
    return 0 if mark == "=0" and value is None else value


_MPI_JOB = "startTime completionTime lastReconcileTime replicaStatuses{} conditions[]"


def _reflect_mpi_job(live: Object) -> Object:
    """Show times, the counts of each kind of replica, and conditions."""
    counts = ("active", "succeeded", "failed", "selector")
    shown = _show(_MPI_JOB)(live)
    replicas = shown.get("replicaStatuses")
    shown["replicaStatuses"] = {
        name: {count: read(replica, count) for count in counts}
        for name, replica in (replicas.items() if isinstance(replicas, dict) else ())
    }
    return shown


def _is_observed(live: Object) -> bool:
    return bool(read(live, "status", "observedGeneration") == read(live, "metadata", "generation"))


def _is_rolled_out(live: Object) -> bool:
    """Healthy if this generation is observed, and desired replicas are updated and available."""
    if not _is_observed(live):
        return False
    replicas = read(live, "spec", "replicas")
    updated, available = (read(live, "status", f"{n}Replicas") for n in ("updated", "available"))
    return bool((updated if replicas is None else replicas) <= updated <= available)


def _is_whole_and_rolled_out(live: Object) -> bool:
    """Healthy if it has a status, and desired replicas are updated and available."""
    return {"status", "metadata", "spec"} <= live.keys() and _is_rolled_out(live)


def _is_daemon_set_rolled_out(live: Object) -> bool:
    """Healthy if this generation is observed, and each node has an updated, available pod."""
    if not _is_observed(live):
        return False
    names = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    desired, updated, available = (read(live, "status", name) for name in names)
    return bool(desired <= updated <= available)


def _is_broadcast_job_healthy(live: Object) -> bool:
    """Healthy if pods are desired, some run or succeeded, and none is counted as failed."""
    names = ("desired", "failed", "succeeded", "active")
    desired, failed, succeeded, active = (read(live, "status", name) for name in names)
    return bool(failed == 0 and desired != 0 and not succeeded == active == 0)


def _is_sidecar_set_updated(live: Object) -> bool:
    """Healthy if all matched pods are updated."""
    if "status" not in live:
        return False
    matched, updated = (read(live, "status", name) or 0 for name in ("matchedPods", "updatedPods"))
    return bool(matched in (0, updated))


def _is_volcano_job_healthy(live: Object) -> bool:
    """Healthy if its phase is one of those that have not failed."""
    return _dig(live, "status", "state", "phase") in _VOLCANO_HEALTHY


_VOLCANO_HEALTHY = (
    *("Pending", "Running", "Restarting", "Completing", "Completed"),
    *("Aborting", "Aborted", "Terminating", "Terminated"),
)


def _is_spark_application_healthy(live: Object) -> bool:
    """Healthy if it has a state other than FAILED."""
    return _dig(live.get("status") or None, "applicationState", "state") not in (None, "FAILED")


def _is_workflow_healthy(live: Object) -> bool:
    """Healthy if it has a phase other than Error and Failed."""
    return _dig(live, "status", "phase") not in (None, "", "Error", "Failed")


_FLINK_HEALTHY = (
    *("RUNNING", "FINISHED", "FAILED", "CANCELED", "SUSPENDED"),
    *("CANCELLING", "FAILING", "RESTARTING"),
)
_FLINK_STARTING = ("CREATED", "INITIALIZING", "RECONCILING")
_FLINK_FAULTS = ("ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff")


def _is_flink_healthy(live: Object) -> bool:
    """Healthy if the job runs or ended, or does not start for a fault of its image or code."""
    status = live.get("status") or {}
    state = _dig(status, "jobStatus", "state")
    if state is None:
        is_ready = read(status, "jobManagerDeploymentStatus") == "READY"
        return is_ready and bool(read(status, "lifecycleState") == "STABLE")
    if state in _FLINK_STARTING:
        error = read(status, "error")
        return isinstance(error, str) and any(fault in error for fault in _FLINK_FAULTS)
    return state in _FLINK_HEALTHY


def _true_conditions(live: Object) -> Iterator[Any]:
    conditions = _dig(live, "status", "conditions")
    if not isinstance(conditions, dict | list | None):
        raise ValueError("status.conditions is no list")  # noqa: TRY004 - content, not a type
    return (each for each in list_at(conditions) if read(each, "status") == "True")


def _is_ready(*reasons: str) -> _Health:
    """Make a rule: a condition Ready is True, with one of these reasons if there are any."""

    def is_healthy(live: Object) -> bool:
        return any(
            read(condition, "type") == "Ready"
            and (not reasons or read(condition, "reason") in reasons)
            for condition in _true_conditions(live)
        )

    because = f", for reason {' or '.join(reasons)}" if reasons else ""
    is_healthy.__doc__ = f"Healthy if it is Ready{because}."
    return is_healthy


def _is_policy_ready(live: Object) -> bool:
    """Healthy if it says that it is ready, or has a condition Ready that succeeded."""
    ready = _dig(live, "status", "ready")
    if ready is None:
        return _is_ready("Succeeded")(live)
    if not isinstance(ready, bool):
        raise ValueError("status.ready is no boolean")  # noqa: TRY004 - content, not a type
    return ready


def _is_ray_cluster_ready(live: Object) -> bool:
    """Healthy if the head is ready, pods were provisioned, and no replica failed."""
    true = [read(condition, "type") for condition in _true_conditions(live)]
    is_up = "HeadPodReady" in true and "RayClusterProvisioned" in true
    return is_up and "RayClusterReplicaFailure" not in true


def _is_ray_job_healthy(live: Object) -> bool:
    """Healthy if it runs, or is complete and succeeded."""
    deployment = _dig(live, "status", "jobDeploymentStatus")
    if deployment == "Complete":
        return bool(read(live, "status", "jobStatus") == "SUCCEEDED")
    return bool(deployment == "Running")


def _has_not_failed(live: Object) -> bool:
    """Healthy if it has conditions, and none is Failed."""
    failed = any(read(condition, "type") == "Failed" for condition in _true_conditions(live))
    return not failed and _dig(live, "status", "conditions") is not None


def _has_begun_and_not_failed(live: Object) -> bool:
    """Healthy if it has at least one condition, and none is Failed."""
    return _has_not_failed(live) and bool(read(live, "status", "conditions"))


def _is_notebook_healthy(live: Object) -> bool:
    """Healthy if its container runs, is created, or ended without an error."""
    state = _dig(live, "status", "containerState")
    if _dig(state, "running") is not None:
        return True
    if (waiting := _dig(state, "waiting")) is not None:
        return bool(read(waiting, "reason") == "ContainerCreating")
    if (terminated := _dig(state, "terminated")) is None:
        return False
    is_fault = read(terminated, "reason") in ("Error", "OOMKilled", "ContainerCannotRun")
    return not is_fault and not read(terminated, "exitCode")


# Contract 7.5; AdvancedCronJob is omitted, its scripts are for the control plane only.

_KRUISE = "apps.kruise.io/v1alpha1"
_FLUX = "source.toolkit.fluxcd.io/v1beta2"
_FLUX_KINDS = {
    "helm.toolkit.fluxcd.io/v2beta1/HelmRelease": "ReconciliationSucceeded",
    "kustomize.toolkit.fluxcd.io/v1/Kustomization": "ReconciliationSucceeded",
    "source.toolkit.fluxcd.io/v1/GitRepository": "Succeeded",
    f"{_FLUX}/Bucket": "Succeeded",
    f"{_FLUX}/HelmChart": "Succeeded ChartPullSucceeded",
    f"{_FLUX}/HelmRepository": "Succeeded",
    f"{_FLUX}/OCIRepository": "Succeeded",
}
"""Kind -> reasons of its condition Ready."""
_RETAIN: dict[str, _Retain] = {
    f"{_KRUISE}/BroadcastJob": _keep_template_labels,
    f"{_KRUISE}/SidecarSet": _keep(),
    "argoproj.io/v1alpha1/Workflow": _keep("spec.suspend", "status"),
    **dict.fromkeys(_FLUX_KINDS, _keep("spec.suspend")),
}
SHOWN = user_text.load_yaml(Path(__file__).with_name("shown_status.yaml").read_bytes())
_REFLECT: dict[str, _Reflect] = {
    "kubeflow.org/v2beta1/MPIJob": _reflect_mpi_job,
    **{kind: _show(names) for kind, names in SHOWN["third_party"].items()},
}
_HEALTH: dict[str, _Health] = {
    f"{_KRUISE}/BroadcastJob": _is_broadcast_job_healthy,
    f"{_KRUISE}/CloneSet": _is_rolled_out,
    f"{_KRUISE}/DaemonSet": _is_daemon_set_rolled_out,
    f"{_KRUISE}/SidecarSet": _is_sidecar_set_updated,
    f"{_KRUISE}/UnitedDeployment": _is_whole_and_rolled_out,
    "apps.kruise.io/v1beta1/StatefulSet": _is_rolled_out,
    "argoproj.io/v1alpha1/Workflow": _is_workflow_healthy,
    "batch.volcano.sh/v1alpha1/Job": _is_volcano_job_healthy,
    "flink.apache.org/v1beta1/FlinkDeployment": _is_flink_healthy,
    **{kind: _is_ready(*reasons.split()) for kind, reasons in _FLUX_KINDS.items()},
    "kubeflow.org/v1/Notebook": _is_notebook_healthy,
    "kubeflow.org/v1/PyTorchJob": _has_not_failed,
    "kubeflow.org/v1/TFJob": _has_not_failed,
    "kubeflow.org/v2beta1/MPIJob": _has_begun_and_not_failed,
    "kyverno.io/v1/ClusterPolicy": _is_policy_ready,
    "kyverno.io/v1/Policy": _is_policy_ready,
    "ray.io/v1/RayCluster": _is_ray_cluster_ready,
    "ray.io/v1/RayJob": _is_ray_job_healthy,
    "ray.io/v1/RayService": _is_ready(),
    "sparkoperator.k8s.io/v1beta2/SparkApplication": _is_spark_application_healthy,
}


def _rules(
    table: Mapping[str, Callable[..., Any]],
    finish: Callable[..., Any] = lambda result, *_objects: result,
) -> dict[GroupVersionKind, Callable[..., Any]]:
    """Return rules on tables as rules on objects, by kind."""

    def on_objects(rule: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(rule)
        def apply(*objects: Object) -> Any:
            return finish(rule(*map(to_table, objects)), *objects)

        return apply

    return {kind_of(name): on_objects(rule) for name, rule in table.items()}


def kind_of(name: str) -> GroupVersionKind:
    """Return the kind that a table names, `apps/v1/Deployment` or `v1/Service`."""
    api_version, _, kind = name.rpartition("/")
    return parse_api_version(api_version, kind)


def _to_json(result: Object, *references: Object) -> Object:
    """Return a result as JSON: of empty tables what these objects have there, else without them."""
    converted: Object = settle(to_table(result), *empties(references))
    return converted


RETAIN_RULES = _rules(_RETAIN, _to_json)
REFLECT_RULES = _rules(_REFLECT, lambda result, _live: _to_json(result))
HEALTH_RULES = _rules(_HEALTH)
