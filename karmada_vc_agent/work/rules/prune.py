"""Remove from an object what the API server or its controllers set."""

from collections.abc import Callable, Mapping

from karmada_vc_agent.model.objects import Object, dig, drop, put
from karmada_vc_agent.model.well_known import SELECTED_NODE_ANNOTATION, SERVICE_ACCOUNT_TOKEN

_SERVER_METADATA = frozenset(
    (
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
        "ownerReferences",
        "finalizers",
    )
)
_JOB_SELECTOR_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_JOB_TEMPLATE_LABELS = (*_JOB_SELECTOR_LABELS, "job-name", "batch.kubernetes.io/job-name")


def prune(obj: Object) -> Object:
    """Return the object as Karmada would store it: without server metadata, status and more.

    Source: contract 5.2; karmada pkg/resourceinterpreter/default/native/prune.
    """
    pruned = {key: value for key, value in obj.items() if key != "status"}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        pruned["metadata"] = {k: v for k, v in metadata.items() if k not in _SERVER_METADATA}
    rule = RULES.get(obj.get("kind", ""))
    return rule(pruned) if rule else pruned


def _prune_deployment(obj: Object) -> Object:
    """Leave out the annotations that count revisions."""
    obj = drop(obj, "metadata", "annotations", "deployment.kubernetes.io/revision")
    return drop(obj, "metadata", "annotations", "deployment.kubernetes.io/revision-history")


def _prune_job(obj: Object) -> Object:
    """Leave out `spec.ttlSecondsAfterFinished`, and labels that the controller generates."""
    obj = drop(obj, "spec", "ttlSecondsAfterFinished")
    if dig(obj, "spec", "manualSelector") is True:
        return obj
    for label in _JOB_SELECTOR_LABELS:
        obj = drop(obj, "spec", "selector", "matchLabels", label)
    for label in _JOB_TEMPLATE_LABELS:
        obj = drop(obj, "spec", "template", "metadata", "labels", label)
    return obj


def _prune_secret(obj: Object) -> Object:
    """Leave out the data of a ServiceAccount's token."""
    if obj.get("type") != SERVICE_ACCOUNT_TOKEN:
        return obj
    obj = drop(obj, "metadata", "annotations", "kubernetes.io/service-account.uid")
    return put(obj, None, "data")


def _prune_service_account(obj: Object) -> Object:
    """Leave out the Secrets `<name>-token-*`."""
    secrets = obj.get("secrets")
    if not isinstance(secrets, list):
        return obj
    prefix = f"{dig(obj, 'metadata', 'name') or ''}-token-"
    kept = [secret for secret in secrets if not str(dig(secret, "name") or "").startswith(prefix)]
    return obj if len(kept) == len(secrets) else put(obj, kept, "secrets")


def _prune_service(obj: Object) -> Object:
    """Leave out `spec.clusterIP` and `spec.clusterIPs`, unless the first is None."""
    if dig(obj, "spec", "clusterIP") in (None, "None"):
        return obj
    return drop(drop(obj, "spec", "clusterIP"), "spec", "clusterIPs")


def _prune_volume_claim(obj: Object) -> Object:
    """Leave out the annotation `volume.kubernetes.io/selected-node`."""
    return drop(obj, "metadata", "annotations", SELECTED_NODE_ANNOTATION)


RULES: Mapping[str, Callable[[Object], Object]] = {
    "Deployment": _prune_deployment,
    "Job": _prune_job,
    "Secret": _prune_secret,
    "ServiceAccount": _prune_service_account,
    "Service": _prune_service,
    "PersistentVolumeClaim": _prune_volume_claim,
}
"""By the name of the kind only, whatever the API group (contract 5.2)."""
