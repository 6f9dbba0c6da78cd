"""What has pods: status and health of contract 7.3 and 7.4, what is retained of 7.2."""

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case, propagated, reported
from e2e.differential.scene import Play, Scene
from e2e.lab import objects
from e2e.lab.api import Object


def _is_healthy(entry: Object) -> bool:
    return bool(entry["health"] == "Healthy")


def _pending_deployment(scene: Scene) -> Object:
    return shapes.unplaced(shapes.deployment(scene), "spec", "template", "spec")


# --- Deployment ---------------------------------------------------------------------------


@case
def deployment_running(scene: Scene) -> Play:
    template = shapes.deployment(scene)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    yield scene.aggregated(template, lambda status: status.get("readyReplicas") == 2)


propagated("deployment-pending", _pending_deployment)
propagated("deployment-of-none", lambda scene: shapes.deployment(scene, 0))
propagated("deployment-paused", lambda scene: shapes.deployment(scene, paused=True))


@case
def deployment_scaled(scene: Scene) -> Play:
    template = shapes.deployment(scene)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    scene.update(template, {"spec": {"replicas": 3}})
    yield scene.aggregated(template, lambda status: status.get("readyReplicas") == 3)


@case
def deployment_rolled(scene: Scene) -> Play:
    template = shapes.deployment(scene, 1)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    container = {"name": "app", "image": "registry.example/app:2"}
    scene.update(template, {"spec": {"template": {"spec": {"containers": [container]}}}})

    def is_rolled(entry: Object) -> bool:
        return _is_healthy(entry) and bool(entry["status"]["resourceTemplateGeneration"] >= 2)

    yield scene.reported(template, is_rolled)


@case
def deployment_scaled_on_host(scene: Scene) -> Play:
    template = shapes.deployment(scene)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    scene.patch_host(template, {"spec": {"replicas": 4}})
    yield scene.on_host(template, lambda live: live["metadata"]["generation"] >= 3)
    yield scene.on_host(template, lambda live: live["spec"]["replicas"] == 2)


@case
def deployment_retains_replicas(scene: Scene) -> Play:
    template = shapes.deployment(scene)
    template["metadata"]["labels"]["resourcetemplate.karmada.io/retain-replicas"] = "true"
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    scene.patch_host(template, {"spec": {"replicas": 4}})
    yield scene.reported(template, lambda entry: entry["status"].get("readyReplicas") == 4)
    scene.update(template, {"spec": {"minReadySeconds": 1}})
    yield scene.on_host(template, lambda live: live["spec"].get("minReadySeconds") == 1)


@case
def deployment_scaled_by_autoscaler(scene: Scene) -> Play:
    template, autoscaler = shapes.deployment(scene), shapes.autoscaler(scene)
    template["metadata"]["labels"]["resourcetemplate.karmada.io/retain-replicas"] = "true"
    scene.propagate(template, autoscaler)
    yield scene.reported(template, _is_healthy)
    yield scene.applied(autoscaler)
    scene.patch_host(template, {"spec": {"replicas": 3}})
    yield scene.reported(template, lambda entry: entry["status"].get("readyReplicas") == 3)


@case
def deployment_divided(scene: Scene) -> Play:
    template = shapes.deployment(scene, 3)
    placement = objects.to_clusters(scene.lane.cluster)
    placement["replicaScheduling"] = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
    }
    scene.propagate(template, placement=placement)
    yield scene.reported(template, _is_healthy)


@case
def deployment_deleted_on_host(scene: Scene) -> Play:
    template = shapes.deployment(scene)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    scene.delete_on_host(template)
    yield scene.applied(template, reason="ReCreateSuccessful")
    yield scene.reported(template, _is_healthy)


# --- StatefulSet, ReplicaSet, DaemonSet -----------------------------------------------------


@case
def stateful_set_running(scene: Scene) -> Play:
    template = objects.stateful_set(scene.namespace, scene.name, 2)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    yield scene.aggregated(template, lambda status: status.get("readyReplicas") == 2)


def _pending_stateful_set(scene: Scene) -> Object:
    made = objects.stateful_set(scene.namespace, scene.name)
    return shapes.unplaced(made, "spec", "template", "spec")


propagated("stateful-set-pending", _pending_stateful_set)


@case
def stateful_set_scaled_on_host(scene: Scene) -> Play:
    """Replicas of a StatefulSet are not retained, label or not."""
    template = objects.stateful_set(scene.namespace, scene.name)
    template["metadata"]["labels"]["resourcetemplate.karmada.io/retain-replicas"] = "true"
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    scene.patch_host(template, {"spec": {"replicas": 2}})
    yield scene.on_host(template, lambda live: live["metadata"]["generation"] >= 3)
    yield scene.on_host(template, lambda live: live["spec"]["replicas"] == 1)


@case
def replica_set_running(scene: Scene) -> Play:
    template = shapes.replica_set(scene)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    yield scene.aggregated(template, lambda status: status.get("readyReplicas") == 1)


propagated(
    "replica-set-pending",
    lambda scene: shapes.unplaced(shapes.replica_set(scene), "spec", "template", "spec"),
)


@case
def daemon_set_running(scene: Scene) -> Play:
    template = objects.daemon_set(scene.namespace, scene.name)
    scene.propagate(template)
    yield scene.reported(template, lambda entry: entry["status"].get("numberReady") == 2)
    yield scene.aggregated(template, lambda status: status.get("numberReady") == 2)


def _daemon_set_of_none(scene: Scene) -> Object:
    made = objects.daemon_set(scene.namespace, scene.name)
    return shapes.unplaced(made, "spec", "template", "spec")


propagated("daemon-set-of-none", _daemon_set_of_none)

# --- Pod ----------------------------------------------------------------------------------


@case
def pod_running(scene: Scene) -> Play:
    template = shapes.pod(scene)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)


def _pending_pod(scene: Scene) -> Object:
    return shapes.unplaced(shapes.pod(scene), "spec")


propagated("pod-pending", _pending_pod)
reported("pod-failed", _pending_pod, phase="Failed", reason="Evicted", message="too much")
reported("pod-succeeded", _pending_pod, phase="Succeeded")


@case
def pod_updated(scene: Scene) -> Play:
    """What the host's admission put into a running Pod is retained."""
    template = shapes.pod(scene)
    scene.propagate(template)
    yield scene.reported(template, _is_healthy)
    scene.update(template, {"metadata": {"labels": {"stage": "two"}}})
    yield scene.on_host(template, lambda live: live["metadata"]["labels"].get("stage") == "two")


@case
def pod_deleted_on_host(scene: Scene) -> Play:
    template = _pending_pod(scene)
    scene.propagate(template)
    yield scene.reported(template, lambda entry: "status" in entry)
    scene.delete_on_host(template, force=True)
    yield scene.applied(template, reason="ReCreateSuccessful")


# --- Job, CronJob -------------------------------------------------------------------------


@case
def job_complete(scene: Scene) -> Play:
    template = shapes.job(scene)
    scene.propagate(template)
    yield scene.reported(template, lambda entry: entry["status"].get("succeeded") == 1)
    yield scene.aggregated(template, lambda status: status.get("succeeded") == 1)


def _pending_job(scene: Scene) -> Object:
    return shapes.unplaced(shapes.job(scene), "spec", "template", "spec")


propagated("job-pending", _pending_job)
propagated("job-suspended", lambda scene: shapes.job(scene, suspend=True))


@case
def job_updated(scene: Scene) -> Play:
    """Selector and labels that the host made are retained."""
    template = _pending_job(scene)
    scene.propagate(template)
    yield scene.applied(template)
    scene.update(template, {"spec": {"activeDeadlineSeconds": 3600}})
    yield scene.on_host(template, lambda live: "activeDeadlineSeconds" in live["spec"])


@case
def job_with_own_selector(scene: Scene) -> Play:
    template = _pending_job(scene)
    template["spec"] |= {
        "manualSelector": True,
        "selector": {"matchLabels": {"app": scene.name}},
        "ttlSecondsAfterFinished": 600,
    }
    scene.propagate(template)
    yield scene.applied(template)
    scene.update(template, {"metadata": {"labels": {"stage": "two"}}})
    yield scene.on_host(template, lambda live: live["metadata"]["labels"].get("stage") == "two")


@case
def job_out_of_time(scene: Scene) -> Play:
    template = _pending_job(scene)
    template["spec"]["activeDeadlineSeconds"] = 1
    scene.propagate(template)
    yield scene.reported(
        template,
        lambda entry: any(
            c["type"] == "Failed" for c in (entry.get("status") or {}).get("conditions") or []
        ),
    )


propagated("cron-job", lambda scene: objects.cron_job(scene.namespace, scene.name))
reported(
    "cron-job-ran",
    lambda scene: objects.cron_job(scene.namespace, scene.name),
    lastScheduleTime="2026-01-01T00:00:00Z",
    lastSuccessfulTime="2026-01-01T00:01:00Z",
)
