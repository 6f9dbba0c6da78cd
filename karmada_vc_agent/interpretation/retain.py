"""Native rules of Retain: which fields of an object the host owns.

Each rule gets the merged manifest and the live object and returns the manifest with the live values
in it. Source: contract 7.2; karmada pkg/resourceinterpreter/default/native/retain.go.
"""

from collections.abc import Callable, Mapping
from typing import Any

from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    dig,
    drop,
    key_of,
    labels_of,
    put,
)
from karmada_vc_agent.model.well_known import SERVICE_ACCOUNT_TOKEN

RetainRule = Callable[[Object, Object], Object]


def _retain_deployment(desired: Object, live: Object) -> Object:
    """Keep the live `spec.replicas`, if the label `retain-replicas` requests it."""
    if labels_of(desired).get(karmada.RETAIN_REPLICAS_LABEL) != "true":
        return desired
    replicas = dig(live, "spec", "replicas")
    if not isinstance(replicas, int):
        raise ValueError(f"failed to get spec.replicas from {key_of(live)}")  # noqa: TRY004
    return put(desired, replicas, "spec", "replicas")


def _retain_pod(desired: Object, live: Object) -> Object:
    """Keep the live node, ServiceAccount, volumes, and mounts of each container."""
    # Karmada decodes into its own Pod type, which drops newer fields; here they are kept.
    for field in ("nodeName", "serviceAccountName", "volumes"):
        desired = _copy_or_drop(desired, live, field)
    for field in ("containers", "initContainers"):
        containers = dig(desired, "spec", field)
        if isinstance(containers, list):
            mounted = _with_live_mounts(containers, dig(live, "spec", field) or [])
            desired = put(desired, mounted, "spec", field)
    return desired


def _copy_or_drop(desired: Object, live: Object, field: str) -> Object:
    value = dig(live, "spec", field)
    return put(desired, value, "spec", field) if value else drop(desired, "spec", field)


def _with_live_mounts(containers: list[Any], live_containers: list[Any]) -> list[Any]:
    live_mounts = {dig(live, "name"): dig(live, "volumeMounts") for live in live_containers}
    mounted = []
    for container in containers:
        if dig(container, "name") not in live_mounts:
            mounted.append(container)
            continue
        mounts = live_mounts.pop(container["name"])  # only the first of that name
        mounted.append(
            put(container, mounts, "volumeMounts") if mounts else drop(container, "volumeMounts")
        )
    return mounted


def _retain_service(desired: Object, live: Object) -> Object:
    """Keep the live `spec.clusterIP` and `spec.healthCheckNodePort`."""
    port = dig(live, "spec", "healthCheckNodePort")
    if port and port > 0:
        desired = put(desired, port, "spec", "healthCheckNodePort")
    if cluster_ip := dig(live, "spec", "clusterIP"):
        desired = put(desired, cluster_ip, "spec", "clusterIP")
    return desired


def _retain_service_account(desired: Object, live: Object) -> Object:
    """Keep live Secrets in addition to those of the manifest."""
    for field in ("secrets", "imagePullSecrets"):
        references = desired.get(field) or []
        names = {dig(reference, "name") for reference in references}
        added = [ref for ref in live.get(field) or [] if dig(ref, "name") not in names]
        if added:
            desired = put(desired, [*references, *added], field)
    return desired


def _keep(*paths: str) -> RetainRule:
    """Make a rule that keeps the live values of these fields."""

    def retain(desired: Object, live: Object) -> Object:
        for path in paths:
            keys = path.split(".")
            if (value := dig(live, *keys)) not in (None, ""):
                desired = put(desired, value, *keys)
        return desired

    retain.__doc__ = f"Keep the live {' and '.join(f'`{path}`' for path in paths)}."
    return retain


def _retain_secret(desired: Object, live: Object) -> Object:
    """Keep the live data of a ServiceAccount's token."""
    if desired.get("type") != SERVICE_ACCOUNT_TOKEN or live.get("data") is None:
        return desired
    return put(desired, live["data"], "data")


RULES: Mapping[GroupVersionKind, RetainRule] = {
    GroupVersionKind("apps", "v1", "Deployment"): _retain_deployment,
    GroupVersionKind("", "v1", "Pod"): _retain_pod,
    GroupVersionKind("", "v1", "Service"): _retain_service,
    GroupVersionKind("", "v1", "ServiceAccount"): _retain_service_account,
    GroupVersionKind("", "v1", "PersistentVolumeClaim"): _keep("spec.volumeName"),
    GroupVersionKind("", "v1", "PersistentVolume"): _keep("spec.claimRef"),
    GroupVersionKind("batch", "v1", "Job"): _keep(
        "spec.selector.matchLabels", "spec.template.metadata.labels"
    ),
    GroupVersionKind("", "v1", "Secret"): _retain_secret,
}
"""Other kinds are taken from the manifest unchanged (contract 7.2)."""
