"""The rules of Karmada's scripts for well-known custom kinds, on tables (`lua_values`).

They fail where the script fails, and distinguish what it distinguishes. `third_party` maps kinds to
rules.
"""

from collections.abc import Callable
from typing import Any

from karmada_vc_agent.interpretation.lua_values import (
    LuaError,
    assign,
    counted,
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


# --- retain -----------------------------------------------------------------------------------


def retain_nothing(desired: Object, live: Object) -> None:
    """Keep nothing: Karmada's script for this kind does nothing."""


def retain_suspend(desired: Object, live: Object) -> None:
    """Keep the live `spec.suspend`."""
    suspend = read(live, "spec", "suspend")
    if suspend is not None:
        assign(desired, suspend, "spec", "suspend")


def retain_suspend_and_status(desired: Object, live: Object) -> None:
    """Keep the live `spec.suspend` and status."""
    retain_suspend(desired, live)
    if "status" in live:
        desired["status"] = live["status"]


def retain_template_labels(desired: Object, live: Object) -> None:
    """Keep the live labels of the template."""
    path = ("spec", "template", "metadata")
    labels = None if read(live, *path) is None else read(live, *path, "labels")
    if labels is not None:
        assign(desired, labels, *path, "labels")


# --- status -----------------------------------------------------------------------------------


def fields(*names: str) -> Reflect:
    """Make a rule that shows these fields of the status."""

    def reflect(live: Object) -> Object:
        return {name: read(live, "status", name) for name in names}

    reflect.__doc__ = f"Show {', '.join(f'`{name}`' for name in names)}."
    return reflect


def fields_and_generations(*names: str) -> Reflect:
    """Make a rule that shows these fields, and both generations if they are known."""
    show = fields(*names)

    def reflect(live: Object) -> Object:
        return show(live) | _generations(live)

    reflect.__doc__ = f"Show both generations, {', '.join(f'`{name}`' for name in names)}."
    return reflect


def _generations(live: Object) -> Object:
    if "metadata" not in live:
        return {}
    generation = read(live, "metadata", "generation")
    if read(live, "metadata", "annotations") is None:
        return {"generation": generation}
    text = read(live, "metadata", "annotations", karmada.TEMPLATE_GENERATION_ANNOTATION)
    return {"generation": generation, "resourceTemplateGeneration": to_number(text)}


def reflect_sidecar_set(live: Object) -> Object:
    """Show `matchedPods`, `updatedPods` and `readyPods`."""
    counts = ("matchedPods", "updatedPods", "readyPods")
    return {name: either(read(live, "status", name), 0) for name in counts}


def reflect_notebook(live: Object) -> Object:
    """Show `readyReplicas`, `containerState` and conditions."""
    conditions = read(live, "status", "conditions")
    return {
        "readyReplicas": either(read(live, "status", "readyReplicas"), 0),
        "containerState": either(read(live, "status", "containerState"), {}),
        "conditions": conditions if _is_table(conditions) else None,
    }


def reflect_volcano_job(live: Object) -> Object:
    """Show the counts of pods and tasks, times, state and conditions."""
    shown = fields(
        *("minAvailable", "pending", "running", "succeeded", "failed", "terminating"),
        *("unknown", "version", "retryCount", "runningDuration", "state"),
    )
    tables = {
        name: read(live, "status", name) for name in ("taskStatusCount", "controlledResources")
    }
    for name, table in tables.items():
        if table is not None and not _is_table(table):
            raise LuaError(f"status.{name} is {describe(table)}, not an object")
    return shown(live) | tables | {"conditions": _listed_conditions(live)}


def reflect_mpi_job(live: Object) -> Object:
    """Show times, the counts of each kind of replica, and conditions."""
    times = fields("startTime", "completionTime", "lastReconcileTime")
    replicas = read(live, "status", "replicaStatuses")
    return times(live) | {
        "replicaStatuses": None if replicas is None else _replica_statuses(replicas),
        "conditions": _listed_conditions(live),
    }


def _replica_statuses(replicas: Any) -> Any:
    counts = ("active", "succeeded", "failed", "selector")

    def shown(replica: Any) -> Object:
        return {name: read(replica, name) for name in counts}

    if isinstance(replicas, dict):
        return {name: shown(replica) for name, replica in replicas.items()}
    return [shown(replica) for replica in elements(replicas)]


def _listed_conditions(live: Object) -> list[Any] | None:
    conditions = read(live, "status", "conditions")
    return elements(conditions) if _is_table(conditions) else None


def _is_table(value: Any) -> bool:
    return isinstance(value, dict | list)


# --- health -----------------------------------------------------------------------------------


def _is_observed(live: Object) -> bool:
    observed = read(live, "status", "observedGeneration")
    return is_equal(observed, read(live, "metadata", "generation"))


def is_rolled_out(live: Object) -> bool:
    """Whether this generation is observed, and wanted replicas are updated and available."""
    if not _is_observed(live):
        return False
    wanted = read(live, "spec", "replicas")
    updated = read(live, "status", "updatedReplicas")
    if wanted is not None and is_less(updated, wanted):
        return False
    return not is_less(read(live, "status", "availableReplicas"), updated)


def is_whole_and_rolled_out(live: Object) -> bool:
    """Whether it has a status, and wanted replicas are updated and available."""
    parts = ("status", "metadata", "spec")
    return all(part in live for part in parts) and is_rolled_out(live)


def is_daemon_set_rolled_out(live: Object) -> bool:
    """Whether this generation is observed, and the pods of all nodes are updated and available."""
    if not _is_observed(live):
        return False
    updated = read(live, "status", "updatedNumberScheduled")
    if is_less(updated, read(live, "status", "desiredNumberScheduled")):
        return False
    return not is_less(read(live, "status", "numberAvailable"), updated)


def is_broadcast_job_healthy(live: Object) -> bool:
    """Whether pods are wanted, some run or succeeded, and none is counted as failed."""
    desired, failed, succeeded, active = (
        read(live, "status", name) for name in ("desired", "failed", "succeeded", "active")
    )
    if is_equal(desired, 0) or not is_equal(failed, 0):
        return False
    return not (is_equal(succeeded, 0) and is_equal(active, 0))


def is_sidecar_set_updated(live: Object) -> bool:
    """Whether all matched pods are updated."""
    if "status" not in live:
        return False
    matched = either(read(live, "status", "matchedPods"), 0)
    updated = either(read(live, "status", "updatedPods"), 0)
    return is_equal(matched, 0) or is_equal(updated, matched)


def is_spark_application_healthy(live: Object) -> bool:
    """Whether its state is known and is not FAILED."""
    value: Any = live
    for key in ("status", "applicationState", "state"):
        value = read(value, key)
        if value is None or value is False:
            return False
    return bool(value != "FAILED")


def is_workflow_healthy(live: Object) -> bool:
    """Whether its phase is known and is neither Error nor Failed."""
    if "status" not in live:
        return False
    return read(live, "status", "phase") not in (None, "", "Error", "Failed")


def is_volcano_job_healthy(live: Object) -> bool:
    """Whether its phase is one of those that have not failed."""
    if "status" not in live or read(live, "status", "state") is None:
        return False
    return read(live, "status", "state", "phase") in _VOLCANO_HEALTHY


_VOLCANO_HEALTHY = (
    *("Pending", "Running", "Restarting", "Completing", "Completed"),
    *("Aborting", "Aborted", "Terminating", "Terminated"),
)


def is_flink_healthy(live: Object) -> bool:
    """Whether the job runs or ended, or does not start for a fault of its image or code."""
    status = either(live.get("status"), {})
    state = read(either(read(status, "jobStatus"), {}), "state")
    if state is None:
        is_ready = read(status, "jobManagerDeploymentStatus") == "READY"
        return is_ready and bool(read(status, "lifecycleState") == "STABLE")
    if state in _FLINK_STARTING:
        return _is_fault_of_user(read(status, "error"))
    return state in _FLINK_HEALTHY


def _is_fault_of_user(error: Any) -> bool:
    if _is_table(error) or error is True:
        raise LuaError(f"status.error is {describe(error)}, not a text")
    return isinstance(error, str) and any(fault in error for fault in _FLINK_FAULTS)


_FLINK_HEALTHY = (
    *("RUNNING", "FINISHED", "FAILED", "CANCELED", "SUSPENDED"),
    *("CANCELLING", "FAILING", "RESTARTING"),
)
_FLINK_STARTING = ("CREATED", "INITIALIZING", "RECONCILING")
_FLINK_FAULTS = ("ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff")


def is_ready_because(*reasons: str) -> Health:
    """Make a rule: a condition Ready is True with one of these reasons."""

    def is_healthy(live: Object) -> bool:
        conditions = _conditions(live)
        return conditions is not None and any(
            _is_true(condition, "Ready") and read(condition, "reason") in reasons
            for condition in counted(conditions)
        )

    is_healthy.__doc__ = f"Whether it is Ready, for reason {' or '.join(reasons)}."
    return is_healthy


def is_policy_ready(live: Object) -> bool:
    """Whether it says that it is ready, or has a condition Ready that succeeded."""
    ready = None if "status" not in live else read(live, "status", "ready")
    if ready is None:
        return is_ready_because("Succeeded")(live)
    if not isinstance(ready, bool):
        raise LuaError(f"status.ready is {describe(ready)}, not a boolean")
    return ready


def is_ray_service_ready(live: Object) -> bool:
    """Whether it is Ready."""
    conditions = _conditions(live)
    if conditions is None:
        return False
    return any(_is_true(condition, "Ready") for condition in elements(conditions))


def is_ray_cluster_ready(live: Object) -> bool:
    """Whether the head is ready, pods were provisioned, and no replica failed."""
    conditions = _conditions(live)
    if conditions is None:
        return False
    true = [read(c, "type") for c in elements(conditions) if read(c, "status") == "True"]
    is_up = "HeadPodReady" in true and "RayClusterProvisioned" in true
    return is_up and "RayClusterReplicaFailure" not in true


def is_ray_job_healthy(live: Object) -> bool:
    """Whether it runs, or is complete and succeeded."""
    if "status" not in live:
        return False
    deployment = read(live, "status", "jobDeploymentStatus")
    job = read(live, "status", "jobStatus")
    return bool(deployment == "Running") or (deployment, job) == ("Complete", "SUCCEEDED")


def has_not_failed(live: Object) -> bool:
    """Whether it has conditions, and none is Failed."""
    conditions = _conditions(live)
    if conditions is None:
        return False
    return not any(_is_true(condition, "Failed") for condition in counted(conditions))


def has_begun_and_not_failed(live: Object) -> bool:
    """Whether it has at least one condition, and none is Failed."""
    conditions = _conditions(live)
    return conditions is not None and bool(counted(conditions)) and has_not_failed(live)


def is_notebook_healthy(live: Object) -> bool:
    """Whether its container runs, is created, or ended without an error."""
    state = None if "status" not in live else read(live, "status", "containerState")
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


def _conditions(live: Object) -> Any:
    return None if "status" not in live else read(live, "status", "conditions")


def _is_true(condition: Any, name: str) -> bool:
    return bool(read(condition, "type") == name and read(condition, "status") == "True")
