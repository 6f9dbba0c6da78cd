"""Karmada's scripts for well-known custom kinds, as a table of fields and rules.

Three results look odd and are Karmada's: a HelmChart never shows its observedGeneration, a
SidecarSet retains nothing and yet is converted to JSON and back, a BroadcastJob that does not count
failed pods is unhealthy.
Source: contract 7.5; karmada pkg/resourceinterpreter/default/thirdparty.
"""

from functools import wraps
from typing import NamedTuple

from karmada_vc_agent.interpretation import third_party_rules as rules
from karmada_vc_agent.interpretation.lua_values import to_json, to_table
from karmada_vc_agent.interpretation.native_health import HealthRule
from karmada_vc_agent.interpretation.reflect import ReflectRule
from karmada_vc_agent.interpretation.retain import RetainRule
from karmada_vc_agent.interpretation.third_party_rules import fields, fields_and_generations
from karmada_vc_agent.model.objects import GroupVersionKind, Object


class Rules(NamedTuple):
    """The rules of one kind, on tables; None if Karmada ships no script.

    reflect: called only if the live object has a status.
    """

    retain: rules.Retain | None
    reflect: rules.Reflect | None
    health: rules.Health


def _flux(reason: str, names: str) -> Rules:
    ready = rules.is_ready_because(*reason.split())
    return Rules(rules.keep("spec.suspend"), fields_and_generations(names), ready)


_POLICY = Rules(None, fields("ready conditions autogen rulecount"), rules.is_policy_ready)

# Contract 7.5; AdvancedCronJob is omitted, its scripts are for the control plane only.
_KINDS: dict[str, Rules] = {
    "apps.kruise.io/v1alpha1/BroadcastJob": Rules(
        rules.keep_template_labels,
        fields("conditions startTime completionTime active succeeded failed desired phase"),
        rules.is_broadcast_job_healthy,
    ),
    "apps.kruise.io/v1alpha1/CloneSet": Rules(
        None,
        fields_and_generations(
            "replicas updatedReplicas readyReplicas availableReplicas updatedReadyReplicas"
            " expectedUpdatedReplicas updateRevision currentRevision observedGeneration"
            " labelSelector"
        ),
        rules.is_rolled_out,
    ),
    "apps.kruise.io/v1alpha1/DaemonSet": Rules(
        None,
        fields_and_generations(
            "observedGeneration currentNumberScheduled numberMisscheduled desiredNumberScheduled"
            " numberReady updatedNumberScheduled numberAvailable numberUnavailable daemonSetHash"
        ),
        rules.is_daemon_set_rolled_out,
    ),
    "apps.kruise.io/v1alpha1/SidecarSet": Rules(
        rules.keep(),
        fields("matchedPods updatedPods readyPods", default=0),
        rules.is_sidecar_set_updated,
    ),
    "apps.kruise.io/v1alpha1/UnitedDeployment": Rules(
        None,
        fields_and_generations(
            "replicas updatedReplicas readyReplicas availableReplicas unavailableReplicas"
            " observedGeneration conditions"
        ),
        rules.is_whole_and_rolled_out,
    ),
    "apps.kruise.io/v1beta1/StatefulSet": Rules(
        None,
        fields_and_generations(
            "replicas readyReplicas currentReplicas updatedReplicas availableReplicas"
            " updateRevision currentRevision updatedReadyReplicas observedGeneration"
        ),
        rules.is_rolled_out,
    ),
    "argoproj.io/v1alpha1/Workflow": Rules(
        rules.keep("spec.suspend", "status"), None, rules.is_workflow_healthy
    ),
    "batch.volcano.sh/v1alpha1/Job": Rules(
        None, rules.reflect_volcano_job, rules.is_volcano_job_healthy
    ),
    "flink.apache.org/v1beta1/FlinkDeployment": Rules(
        None,
        fields(
            "clusterInfo error jobManagerDeploymentStatus jobStatus observedGeneration"
            " lifecycleState reconciliationStatus taskManager"
        ),
        rules.is_flink_healthy,
    ),
    "helm.toolkit.fluxcd.io/v2beta1/HelmRelease": _flux(
        "ReconciliationSucceeded",
        "conditions observedGeneration lastAttemptedRevision lastAppliedRevision"
        " lastAttemptedValuesChecksum helmChart lastReleaseRevision failures upgradeFailures"
        " installFailures",
    ),
    "kustomize.toolkit.fluxcd.io/v1/Kustomization": _flux(
        "ReconciliationSucceeded",
        "conditions lastAppliedRevision lastAttemptedRevision observedGeneration",
    ),
    "source.toolkit.fluxcd.io/v1/GitRepository": _flux(
        "Succeeded",
        "conditions artifact observedGeneration observedIgnore observedRecurseSubmodules",
    ),
    "source.toolkit.fluxcd.io/v1beta2/Bucket": _flux(
        "Succeeded", "conditions artifact observedGeneration observedIgnore url"
    ),
    "source.toolkit.fluxcd.io/v1beta2/HelmChart": _flux(  # without observedGeneration
        "Succeeded ChartPullSucceeded",
        "conditions artifact observedChartName observedSourceArtifactRevision url",
    ),
    "source.toolkit.fluxcd.io/v1beta2/HelmRepository": _flux(
        "Succeeded", "conditions artifact observedGeneration url"
    ),
    "source.toolkit.fluxcd.io/v1beta2/OCIRepository": _flux(
        "Succeeded",
        "conditions artifact observedGeneration observedIgnore observedLayerSelector url",
    ),
    "kubeflow.org/v1/Notebook": Rules(None, rules.reflect_notebook, rules.is_notebook_healthy),
    "kubeflow.org/v1/PyTorchJob": Rules(None, None, rules.has_not_failed),
    "kubeflow.org/v1/TFJob": Rules(None, None, rules.has_not_failed),
    "kubeflow.org/v2beta1/MPIJob": Rules(
        None, rules.reflect_mpi_job, rules.has_begun_and_not_failed
    ),
    "kyverno.io/v1/ClusterPolicy": _POLICY,
    "kyverno.io/v1/Policy": _POLICY,
    "ray.io/v1/RayCluster": Rules(None, None, rules.is_ray_cluster_ready),
    "ray.io/v1/RayJob": Rules(None, None, rules.is_ray_job_healthy),
    "ray.io/v1/RayService": Rules(None, None, rules.is_ready_because()),
    "sparkoperator.k8s.io/v1beta2/SparkApplication": Rules(
        None,
        fields(
            "applicationState driverInfo executorState sparkApplicationId"
            " lastSubmissionAttemptTime submissionAttempts executionAttempts submissionID"
            " terminationTime"
        ),
        rules.is_spark_application_healthy,
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


_ROWS = [(GroupVersionKind(*name.split("/")), row) for name, row in _KINDS.items()]
RETAIN_RULES = {kind: _retaining(row.retain) for kind, row in _ROWS if row.retain}
REFLECT_RULES = {kind: _reflecting(row.reflect) for kind, row in _ROWS if row.reflect}
HEALTH_RULES = {kind: _judging(row.health) for kind, row in _ROWS}
