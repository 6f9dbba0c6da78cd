"""The API groups that Kubernetes itself serves; others are of CRDs or aggregated servers."""

from karmada_vc_agent.model.well_known import RBAC_GROUP

_BUILT_IN = frozenset(
    (
        *("", "apps", "autoscaling", "batch", "extensions", "policy"),
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        RBAC_GROUP,
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    )
)


def is_built_in(group: str) -> bool:
    """Return whether the API server serves a group itself, without a CRD."""
    return group in _BUILT_IN
