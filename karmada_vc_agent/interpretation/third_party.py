"""Karmada's scripts for well-known custom kinds, as built-in rules.

Three results look odd and are Karmada's: a HelmChart never shows its observedGeneration, a
SidecarSet retains nothing and yet is converted to JSON and back, a BroadcastJob that does not count
failed pods is unhealthy.
Source: contract 7.5; karmada pkg/resourceinterpreter/default/thirdparty.
"""

from dataclasses import dataclass
from functools import wraps

from karmada_vc_agent.interpretation import third_party_rules as rules
from karmada_vc_agent.interpretation.lua_values import to_json, to_table
from karmada_vc_agent.interpretation.native_health import HealthRule
from karmada_vc_agent.interpretation.reflect import ReflectRule
from karmada_vc_agent.interpretation.retain import RetainRule
from karmada_vc_agent.model.objects import GroupVersionKind, Object


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one kind, on tables; None if Karmada ships no script.

    reflect: called only if the live object has a status.
    """

    retain: rules.Retain | None = None
    reflect: rules.Reflect | None = None
    health: rules.Health | None = None


_KRUISE, _FLUX_SOURCE = "apps.kruise.io", "source.toolkit.fluxcd.io"
_KUBEFLOW, _RAY, _KYVERNO = "kubeflow.org", "ray.io", "kyverno.io"
_POLICY = Rules(
    reflect=rules.fields("ready", "conditions", "autogen", "rulecount"),
    health=rules.is_policy_ready,
)

# Contract 7.5; AdvancedCronJob is omitted, its scripts are for the control plane only.
_KINDS: dict[GroupVersionKind, Rules] = {
    GroupVersionKind(_KRUISE, "v1alpha1", "BroadcastJob"): Rules(
        retain=rules.retain_template_labels,
        reflect=rules.fields(
            *("conditions", "startTime", "completionTime", "active"),
            *("succeeded", "failed", "desired", "phase"),
        ),
        health=rules.is_broadcast_job_healthy,
    ),
    GroupVersionKind(_KRUISE, "v1alpha1", "CloneSet"): Rules(
        reflect=rules.fields_and_generations(
            *("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
            *("updatedReadyReplicas", "expectedUpdatedReplicas", "updateRevision"),
            *("currentRevision", "observedGeneration", "labelSelector"),
        ),
        health=rules.is_rolled_out,
    ),
    GroupVersionKind(_KRUISE, "v1alpha1", "DaemonSet"): Rules(
        reflect=rules.fields_and_generations(
            *("observedGeneration", "currentNumberScheduled", "numberMisscheduled"),
            *("desiredNumberScheduled", "numberReady", "updatedNumberScheduled"),
            *("numberAvailable", "numberUnavailable", "daemonSetHash"),
        ),
        health=rules.is_daemon_set_rolled_out,
    ),
    GroupVersionKind(_KRUISE, "v1alpha1", "SidecarSet"): Rules(
        retain=rules.retain_nothing,
        reflect=rules.reflect_sidecar_set,
        health=rules.is_sidecar_set_updated,
    ),
    GroupVersionKind(_KRUISE, "v1alpha1", "UnitedDeployment"): Rules(
        reflect=rules.fields_and_generations(
            *("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
            *("unavailableReplicas", "observedGeneration", "conditions"),
        ),
        health=rules.is_whole_and_rolled_out,
    ),
    GroupVersionKind(_KRUISE, "v1beta1", "StatefulSet"): Rules(
        reflect=rules.fields_and_generations(
            *("replicas", "readyReplicas", "currentReplicas", "updatedReplicas"),
            *("availableReplicas", "updateRevision", "currentRevision"),
            *("updatedReadyReplicas", "observedGeneration"),
        ),
        health=rules.is_rolled_out,
    ),
    GroupVersionKind("argoproj.io", "v1alpha1", "Workflow"): Rules(
        retain=rules.retain_suspend_and_status, health=rules.is_workflow_healthy
    ),
    GroupVersionKind("batch.volcano.sh", "v1alpha1", "Job"): Rules(
        reflect=rules.reflect_volcano_job, health=rules.is_volcano_job_healthy
    ),
    GroupVersionKind("flink.apache.org", "v1beta1", "FlinkDeployment"): Rules(
        reflect=rules.fields(
            *("clusterInfo", "error", "jobManagerDeploymentStatus", "jobStatus"),
            *("observedGeneration", "lifecycleState", "reconciliationStatus", "taskManager"),
        ),
        health=rules.is_flink_healthy,
    ),
    GroupVersionKind("helm.toolkit.fluxcd.io", "v2beta1", "HelmRelease"): Rules(
        retain=rules.retain_suspend,
        reflect=rules.fields_and_generations(
            *("conditions", "observedGeneration", "lastAttemptedRevision"),
            *("lastAppliedRevision", "lastAttemptedValuesChecksum", "helmChart"),
            *("lastReleaseRevision", "failures", "upgradeFailures", "installFailures"),
        ),
        health=rules.is_ready_because("ReconciliationSucceeded"),
    ),
    GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"): Rules(
        retain=rules.retain_suspend,
        reflect=rules.fields_and_generations(
            "conditions", "lastAppliedRevision", "lastAttemptedRevision", "observedGeneration"
        ),
        health=rules.is_ready_because("ReconciliationSucceeded"),
    ),
    GroupVersionKind(_FLUX_SOURCE, "v1", "GitRepository"): Rules(
        retain=rules.retain_suspend,
        reflect=rules.fields_and_generations(
            *("conditions", "artifact", "observedGeneration"),
            *("observedIgnore", "observedRecurseSubmodules"),
        ),
        health=rules.is_ready_because("Succeeded"),
    ),
    GroupVersionKind(_FLUX_SOURCE, "v1beta2", "Bucket"): Rules(
        retain=rules.retain_suspend,
        reflect=rules.fields_and_generations(
            "conditions", "artifact", "observedGeneration", "observedIgnore", "url"
        ),
        health=rules.is_ready_because("Succeeded"),
    ),
    GroupVersionKind(_FLUX_SOURCE, "v1beta2", "HelmChart"): Rules(
        retain=rules.retain_suspend,
        reflect=rules.fields_and_generations(  # without observedGeneration
            *("conditions", "artifact", "observedChartName"),
            *("observedSourceArtifactRevision", "url"),
        ),
        health=rules.is_ready_because("Succeeded", "ChartPullSucceeded"),
    ),
    GroupVersionKind(_FLUX_SOURCE, "v1beta2", "HelmRepository"): Rules(
        retain=rules.retain_suspend,
        reflect=rules.fields_and_generations("conditions", "artifact", "observedGeneration", "url"),
        health=rules.is_ready_because("Succeeded"),
    ),
    GroupVersionKind(_FLUX_SOURCE, "v1beta2", "OCIRepository"): Rules(
        retain=rules.retain_suspend,
        reflect=rules.fields_and_generations(
            *("conditions", "artifact", "observedGeneration", "observedIgnore"),
            *("observedLayerSelector", "url"),
        ),
        health=rules.is_ready_because("Succeeded"),
    ),
    GroupVersionKind(_KUBEFLOW, "v1", "Notebook"): Rules(
        reflect=rules.reflect_notebook, health=rules.is_notebook_healthy
    ),
    GroupVersionKind(_KUBEFLOW, "v1", "PyTorchJob"): Rules(health=rules.has_not_failed),
    GroupVersionKind(_KUBEFLOW, "v1", "TFJob"): Rules(health=rules.has_not_failed),
    GroupVersionKind(_KUBEFLOW, "v2beta1", "MPIJob"): Rules(
        reflect=rules.reflect_mpi_job, health=rules.has_begun_and_not_failed
    ),
    GroupVersionKind(_KYVERNO, "v1", "ClusterPolicy"): _POLICY,
    GroupVersionKind(_KYVERNO, "v1", "Policy"): _POLICY,
    GroupVersionKind(_RAY, "v1", "RayCluster"): Rules(health=rules.is_ray_cluster_ready),
    GroupVersionKind(_RAY, "v1", "RayJob"): Rules(health=rules.is_ray_job_healthy),
    GroupVersionKind(_RAY, "v1", "RayService"): Rules(health=rules.is_ray_service_ready),
    GroupVersionKind("sparkoperator.k8s.io", "v1beta2", "SparkApplication"): Rules(
        reflect=rules.fields(
            *("applicationState", "driverInfo", "executorState", "sparkApplicationId"),
            *("lastSubmissionAttemptTime", "submissionAttempts", "executionAttempts"),
            *("submissionID", "terminationTime"),
        ),
        health=rules.is_spark_application_healthy,
    ),
}


def _retaining(rule: rules.Retain) -> RetainRule:
    @wraps(rule)
    def retain(desired: Object, live: Object) -> Object:
        table = to_table(desired)
        rule(table, to_table(live))
        return to_json(table, desired, live)

    return retain


def _reflecting(rule: rules.Reflect) -> ReflectRule:
    @wraps(rule)
    def reflect(live: Object) -> Object:
        table = to_table(live)
        return to_json(rule(table)) if "status" in table else {}

    return reflect


def _judging(rule: rules.Health) -> HealthRule:
    @wraps(rule)
    def is_healthy(live: Object) -> bool:
        return rule(to_table(live))

    return is_healthy


RETAIN_RULES = {kind: _retaining(row.retain) for kind, row in _KINDS.items() if row.retain}
REFLECT_RULES = {kind: _reflecting(row.reflect) for kind, row in _KINDS.items() if row.reflect}
HEALTH_RULES = {kind: _judging(row.health) for kind, row in _KINDS.items() if row.health}
