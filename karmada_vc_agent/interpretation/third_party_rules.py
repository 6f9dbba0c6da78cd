"""The rules of Karmada's scripts for well-known custom kinds, on tables (`lua_values`).

They fail where the script fails on what an API server may serve. `third_party` maps kinds to rules.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from karmada_vc_agent.interpretation.lua_values import (
    LuaError,
    assign,
    describe,
    either,
    elements,
    is_equal,
    is_less,
    read,
    to_number,
)
from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.objects import Object

Retain = Callable[[Object, Object], None]
"""Changes the manifest (first) according to the live object."""
Reflect = Callable[[Object], Object]
"""Absent values are omitted from the result."""
Health = Callable[[Object], bool]


def _dig(value: Any, *path: str) -> Any:
    """Return a field by its path, None if it or a parent is absent."""
    for key in path:
        value = None if value is None else read(value, key)
    return value


# --- retain -----------------------------------------------------------------------------------


def keep(*paths: str) -> Retain:
    """Make a rule that keeps the live values of these fields."""

    def retain(desired: Object, live: Object) -> None:
        for path in paths:
            value = read(live, *path.split("."))
            if value is not None:
                assign(desired, value, *path.split("."))

    kept = " and ".join(f"the live `{path}`" for path in paths)
    retain.__doc__ = f"Keep {kept or 'nothing: the script of Karmada for this kind does nothing'}."
    return retain


def keep_template_labels(desired: Object, live: Object) -> None:
    """Keep the live labels of the template."""
    if read(live, "spec", "template", "metadata") is not None:
        keep("spec.template.metadata.labels")(desired, live)


# --- status -----------------------------------------------------------------------------------


def fields(names: str, default: Any = None) -> Reflect:
    """Make a rule that shows these fields of the status."""

    def reflect(live: Object) -> Object:
        values = ((name, read(live, "status", name)) for name in names.split())
        return {name: default if value is None else value for name, value in values}

    reflect.__doc__ = f"Show `{names.replace(' ', '`, `')}`."
    return reflect


def fields_and_generations(names: str) -> Reflect:
    """Make a rule that shows these fields, and both generations if they are present."""
    show = fields(names)

    def reflect(live: Object) -> Object:
        text = _dig(live, "metadata", "annotations", karmada.TEMPLATE_GENERATION_ANNOTATION)
        return show(live) | {
            "generation": _dig(live, "metadata", "generation"),
            "resourceTemplateGeneration": to_number(text),
        }

    reflect.__doc__ = f"Show both generations, {str(show.__doc__).removeprefix('Show ')}"
    return reflect


def reflect_notebook(live: Object) -> Object:
    """Show `readyReplicas`, `containerState` and conditions."""
    shown = fields("readyReplicas", default=0)(live) | fields("containerState")(live)
    return shown | {"conditions": _listed_conditions(live)}


def reflect_volcano_job(live: Object) -> Object:
    """Show the counts of pods and tasks, times, state and conditions."""
    shown = fields(
        "minAvailable pending running succeeded failed terminating unknown version retryCount"
        " runningDuration state"
    )(live)
    tables = {name: _table(live, name) for name in ("taskStatusCount", "controlledResources")}
    return shown | tables | {"conditions": _listed_conditions(live)}


def reflect_mpi_job(live: Object) -> Object:
    """Show times, the counts of each kind of replica, and conditions."""
    counts = ("active", "succeeded", "failed", "selector")
    replicas = _table(live, "replicaStatuses")
    return fields("startTime completionTime lastReconcileTime")(live) | {
        "replicaStatuses": {
            name: {count: read(replica, count) for count in counts}
            for name, replica in (replicas.items() if isinstance(replicas, dict) else ())
        },
        "conditions": _listed_conditions(live),
    }


def _table(live: Object, name: str) -> Any:
    value = read(live, "status", name)
    if value is not None and not isinstance(value, dict | list):
        raise LuaError(f"status.{name} is {describe(value)}, not an object")
    return value


def _listed_conditions(live: Object) -> Any:
    conditions = read(live, "status", "conditions")
    return conditions if isinstance(conditions, list) else None


# --- health -----------------------------------------------------------------------------------


def _is_observed(live: Object) -> bool:
    observed = read(live, "status", "observedGeneration")
    return is_equal(observed, read(live, "metadata", "generation"))


def _is_ascending(*counts: Any) -> bool:
    return not any(is_less(later, former) for former, later in pairwise(counts))


def is_rolled_out(live: Object) -> bool:
    """Whether this generation is observed, and wanted replicas are updated and available."""
    if not _is_observed(live):
        return False
    replicas = read(live, "spec", "replicas")
    updated, available = (read(live, "status", f"{n}Replicas") for n in ("updated", "available"))
    return _is_ascending(updated if replicas is None else replicas, updated, available)


def is_whole_and_rolled_out(live: Object) -> bool:
    """Whether it has a status, and wanted replicas are updated and available."""
    parts = ("status", "metadata", "spec")
    return all(part in live for part in parts) and is_rolled_out(live)


def is_daemon_set_rolled_out(live: Object) -> bool:
    """Whether this generation is observed, and the pods of all nodes are updated and available."""
    names = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    return _is_observed(live) and _is_ascending(*(read(live, "status", name) for name in names))


def is_broadcast_job_healthy(live: Object) -> bool:
    """Whether pods are wanted, some run or succeeded, and none is counted as failed."""
    names = ("desired", "failed", "succeeded", "active")
    none_desired, none_failed, none_succeeded, none_active = (
        is_equal(read(live, "status", name), 0) for name in names
    )
    return none_failed and not none_desired and not (none_succeeded and none_active)


def is_sidecar_set_updated(live: Object) -> bool:
    """Whether all matched pods are updated."""
    if "status" not in live:
        return False
    matched = either(read(live, "status", "matchedPods"), 0)
    updated = either(read(live, "status", "updatedPods"), 0)
    return is_equal(matched, 0) or is_equal(updated, matched)


def is_spark_application_healthy(live: Object) -> bool:
    """Whether its state is known and is not FAILED."""
    status = either(live.get("status"), None)
    return _dig(status, "applicationState", "state") not in (None, "FAILED")


def is_workflow_healthy(live: Object) -> bool:
    """Whether its phase is known and is neither Error nor Failed."""
    return _dig(live, "status", "phase") not in (None, "", "Error", "Failed")


def is_volcano_job_healthy(live: Object) -> bool:
    """Whether its phase is one of those that have not failed."""
    return _dig(live, "status", "state", "phase") in _VOLCANO_HEALTHY


_VOLCANO_HEALTHY = (
    *("Pending", "Running", "Restarting", "Completing", "Completed"),
    *("Aborting", "Aborted", "Terminating", "Terminated"),
)


def is_flink_healthy(live: Object) -> bool:
    """Whether the job runs or ended, or does not start for a fault of its image or code."""
    status = either(live.get("status"), {})
    state = _dig(status, "jobStatus", "state")
    if state is None:
        is_ready = read(status, "jobManagerDeploymentStatus") == "READY"
        return is_ready and bool(read(status, "lifecycleState") == "STABLE")
    if state in _FLINK_STARTING:
        error = read(status, "error")
        return isinstance(error, str) and any(fault in error for fault in _FLINK_FAULTS)
    return state in _FLINK_HEALTHY


_FLINK_HEALTHY = (
    *("RUNNING", "FINISHED", "FAILED", "CANCELED", "SUSPENDED"),
    *("CANCELLING", "FAILING", "RESTARTING"),
)
_FLINK_STARTING = ("CREATED", "INITIALIZING", "RECONCILING")
_FLINK_FAULTS = ("ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff")


def _true_conditions(live: Object) -> Iterator[Any]:
    conditions = _dig(live, "status", "conditions")
    listed = () if conditions is None else elements(conditions)
    return (condition for condition in listed if read(condition, "status") == "True")


def is_ready_because(*reasons: str) -> Health:
    """Make a rule: a condition Ready is True, with one of these reasons if there are any."""

    def is_healthy(live: Object) -> bool:
        return any(
            read(condition, "type") == "Ready"
            and (not reasons or read(condition, "reason") in reasons)
            for condition in _true_conditions(live)
        )

    because = f", for reason {' or '.join(reasons)}" if reasons else ""
    is_healthy.__doc__ = f"Whether it is Ready{because}."
    return is_healthy


def is_policy_ready(live: Object) -> bool:
    """Whether it says that it is ready, or has a condition Ready that succeeded."""
    ready = _dig(live, "status", "ready")
    if ready is None:
        return is_ready_because("Succeeded")(live)
    if not isinstance(ready, bool):
        raise LuaError(f"status.ready is {describe(ready)}, not a boolean")
    return ready


def is_ray_cluster_ready(live: Object) -> bool:
    """Whether the head is ready, pods were provisioned, and no replica failed."""
    true = [read(condition, "type") for condition in _true_conditions(live)]
    is_up = "HeadPodReady" in true and "RayClusterProvisioned" in true
    return is_up and "RayClusterReplicaFailure" not in true


def is_ray_job_healthy(live: Object) -> bool:
    """Whether it runs, or is complete and succeeded."""
    deployment = _dig(live, "status", "jobDeploymentStatus")
    is_complete = bool(
        deployment == "Complete" and read(live, "status", "jobStatus") == "SUCCEEDED"
    )
    return bool(deployment == "Running") or is_complete


def has_not_failed(live: Object) -> bool:
    """Whether it has conditions, and none is Failed."""
    failed = any(read(condition, "type") == "Failed" for condition in _true_conditions(live))
    return not failed and _dig(live, "status", "conditions") is not None


def has_begun_and_not_failed(live: Object) -> bool:
    """Whether it has at least one condition, and none is Failed."""
    return has_not_failed(live) and bool(elements(read(live, "status", "conditions")))


def is_notebook_healthy(live: Object) -> bool:
    """Whether its container runs, is created, or ended without an error."""
    state = _dig(live, "status", "containerState")
    if state is None:
        return False
    if read(state, "running") is not None:
        return True
    if (waiting := read(state, "waiting")) is not None:
        return bool(read(waiting, "reason") == "ContainerCreating")
    if (terminated := read(state, "terminated")) is None:
        return False
    reason, exit_code = read(terminated, "reason"), either(read(terminated, "exitCode"), 0)
    return reason not in _NOTEBOOK_FAULTS and is_equal(exit_code, 0)


_NOTEBOOK_FAULTS = ("Error", "OOMKilled", "ContainerCannotRun")
