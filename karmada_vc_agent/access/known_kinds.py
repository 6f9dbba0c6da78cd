"""The kinds of Kubernetes 1.34, for manifests that are generated without a host."""

from karmada_vc_agent.model.well_known import RBAC_GROUP

_STATUS = ("status",)
_SCALED = ("scale", "status")
_TABLE: dict[str, dict[str, tuple[str, ...]]] = {
    "": {
        "bindings": (),
        "configmaps": (),
        "endpoints": (),
        "events": (),
        "limitranges": (),
        "persistentvolumeclaims": _STATUS,
        "pods": (
            *("attach", "binding", "ephemeralcontainers", "eviction", "exec", "log"),
            *("portforward", "proxy", "resize", "status"),
        ),
        "podtemplates": (),
        "replicationcontrollers": _SCALED,
        "resourcequotas": _STATUS,
        "secrets": (),
        "serviceaccounts": ("token",),
        "services": ("proxy", "status"),
    },
    "apps": {
        "controllerrevisions": (),
        "daemonsets": _STATUS,
        "deployments": _SCALED,
        "replicasets": _SCALED,
        "statefulsets": _SCALED,
    },
    "authorization.k8s.io": {"localsubjectaccessreviews": ()},
    "autoscaling": {"horizontalpodautoscalers": _STATUS},
    "batch": {"cronjobs": _STATUS, "jobs": _STATUS},
    "coordination.k8s.io": {"leases": ()},
    "discovery.k8s.io": {"endpointslices": ()},
    "events.k8s.io": {"events": ()},
    "networking.k8s.io": {"ingresses": _STATUS, "networkpolicies": ()},
    "policy": {"poddisruptionbudgets": _STATUS},
    RBAC_GROUP: {"rolebindings": (), "roles": ()},
    "resource.k8s.io": {"resourceclaims": _STATUS, "resourceclaimtemplates": ()},
    "storage.k8s.io": {"csistoragecapacities": ()},
}

NAMESPACED = frozenset(
    (group, name)
    for group, resources in _TABLE.items()
    for plural, subresources in resources.items()
    for name in (plural, *(f"{plural}/{subresource}" for subresource in subresources))
)
"""(group, plural or plural/subresource) of all namespaced resources."""
