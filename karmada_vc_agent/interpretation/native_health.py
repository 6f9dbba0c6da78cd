"""Native rules of InterpretHealth: when is a live object healthy.

Source: contract 7.4; karmada pkg/resourceinterpreter/default/native/healthy.go.
"""

from collections.abc import Callable, Mapping

from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig

HealthRule = Callable[[Object], bool]


def _count(live: Object, field: str) -> int:
    return dig(live, "status", field) or 0


def _is_observed(live: Object) -> bool:
    return _count(live, "observedGeneration") == (dig(live, "metadata", "generation") or 0)


def _reaches_replicas(live: Object, field: str) -> bool:
    desired = dig(live, "spec", "replicas")
    return desired is None or _count(live, field) >= desired


def _is_rolled_out(live: Object) -> bool:
    """Healthy if this generation is observed, and desired replicas are updated and available."""
    return (
        _is_observed(live)
        and _reaches_replicas(live, "updatedReplicas")
        and _count(live, "availableReplicas") >= _count(live, "updatedReplicas")
    )


def _is_replica_set_healthy(live: Object) -> bool:
    """Healthy if this generation is observed, and desired replicas are available."""
    return _is_observed(live) and _reaches_replicas(live, "availableReplicas")


def _is_daemon_set_healthy(live: Object) -> bool:
    """Healthy if this generation is observed, and the pod of each node updated and available."""
    updated = _count(live, "updatedNumberScheduled")
    return (
        _is_observed(live)
        and updated >= _count(live, "desiredNumberScheduled")
        and _count(live, "numberAvailable") >= updated
    )


def _is_service_healthy(live: Object) -> bool:
    """Healthy if it is no LoadBalancer, or has an address."""
    return dig(live, "spec", "type") != "LoadBalancer" or _has_address(live)


def _has_address(live: Object) -> bool:
    """Healthy if a load balancer gave it an address or a host name."""
    ingresses = dig(live, "status", "loadBalancer", "ingress") or []
    return any(dig(ingress, "ip") or dig(ingress, "hostname") for ingress in ingresses)


def _is_claim_bound(live: Object) -> bool:
    """Healthy if it is bound."""
    return bool(dig(live, "status", "phase") == "Bound")


def _is_pod_healthy(live: Object) -> bool:
    """Healthy if it has succeeded, or runs and is ready."""
    phase = dig(live, "status", "phase")
    if phase != "Running":
        return bool(phase == "Succeeded")
    conditions = dig(live, "status", "conditions") or []
    ready = next((c for c in conditions if dig(c, "type") == "Ready"), None)
    return bool(dig(ready, "status") == "True")


def _is_budget_met(live: Object) -> bool:
    """Healthy if as many pods are healthy as desired."""
    return _count(live, "currentHealthy") >= _count(live, "desiredHealthy")


RULES: Mapping[GroupVersionKind, HealthRule] = {
    GroupVersionKind("apps", "v1", "Deployment"): _is_rolled_out,
    GroupVersionKind("apps", "v1", "StatefulSet"): _is_rolled_out,
    GroupVersionKind("apps", "v1", "ReplicaSet"): _is_replica_set_healthy,
    GroupVersionKind("apps", "v1", "DaemonSet"): _is_daemon_set_healthy,
    GroupVersionKind("", "v1", "Service"): _is_service_healthy,
    GroupVersionKind("networking.k8s.io", "v1", "Ingress"): _has_address,
    GroupVersionKind("", "v1", "PersistentVolumeClaim"): _is_claim_bound,
    GroupVersionKind("", "v1", "Pod"): _is_pod_healthy,
    GroupVersionKind("policy", "v1", "PodDisruptionBudget"): _is_budget_met,
}
"""A kind that is not here has no hook and is always healthy (contract 7.4)."""
