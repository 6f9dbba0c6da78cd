"""The resources that the fake API servers serve, and their discovery documents."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from karmada_vc_agent.model.objects import Object

VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Served:
    """One resource. is_custom: lists name each item's kind, the last page has `continue: ""`."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = False
    has_generation: bool = False
    is_custom: bool = False
    verbs: tuple[str, ...] = VERBS

    @property
    def root(self) -> str:
        return (
            f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        )


HOST = (
    Served("v1", "namespaces", "Namespace", namespaced=False, has_status=True),
    Served("v1", "nodes", "Node", namespaced=False, has_status=True),
    Served(
        "virtualcluster.kubeedge.io/v1alpha1",
        "virtualclusters",
        "VirtualCluster",
        namespaced=False,
        has_status=True,
        has_generation=True,
        is_custom=True,
    ),
    Served("v1", "pods", "Pod", has_status=True),
    Served("v1", "services", "Service", has_status=True),
    Served("v1", "configmaps", "ConfigMap"),
    Served("v1", "secrets", "Secret"),
    Served("v1", "events", "Event"),
    Served("v1", "bindings", "Binding", verbs=("create",)),
    Served("apps/v1", "deployments", "Deployment", has_status=True, has_generation=True),
    Served("networking.k8s.io/v1", "ingresses", "Ingress", has_generation=True),
    Served("batch/v1", "jobs", "Job", has_status=True, has_generation=True),
    Served("coordination.k8s.io/v1", "leases", "Lease"),
    Served("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False),
    Served("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
    Served("multicluster.x-k8s.io/v1alpha1", "serviceexports", "ServiceExport", is_custom=True),
    Served(
        "rbac.authorization.k8s.io/v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        namespaced=False,
    ),
    Served("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
    Served("rbac.authorization.k8s.io/v1", "roles", "Role"),
    Served("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False),
    Served(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
    ),
    Served("example.com/v1", "widgets", "Widget", is_custom=True),
    Served("v1", "resourcequotas", "ResourceQuota", has_status=True),
    Served("v1", "limitranges", "LimitRange"),
    Served("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
)

HUB = (
    Served("v1", "namespaces", "Namespace", namespaced=False, has_status=True),
    Served("v1", "configmaps", "ConfigMap"),
    Served("v1", "secrets", "Secret"),
    Served("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False),
    Served("v1", "events", "Event"),
    Served("apps/v1", "deployments", "Deployment", has_status=True, has_generation=True),
    Served("coordination.k8s.io/v1", "leases", "Lease"),
    Served(
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        namespaced=False,
        has_status=True,
    ),
    Served(
        "cluster.karmada.io/v1alpha1",
        "clusters",
        "Cluster",
        namespaced=False,
        has_status=True,
        has_generation=True,
    ),
    Served(
        "work.karmada.io/v1alpha1",
        "works",
        "Work",
        has_status=True,
        has_generation=True,
        is_custom=True,
    ),
)


def discovery(
    path: str, served: Iterable[Served], *, aggregated: bool, stale: frozenset[str]
) -> Object | None:
    """Return the document at a discovery path, None where there is none.

    stale: group versions whose server does not answer.
    """
    lists: dict[str, list[Served]] = {}
    for resource in served:
        lists.setdefault(resource.api_version, []).append(resource)
    if path in ("/api", "/apis"):
        mine = {gv: found for gv, found in lists.items() if ("/" in gv) == (path == "/apis")}
        return _aggregated(mine, stale) if aggregated else _groups(path, mine)
    for api_version, found in lists.items():
        if found[0].root == path:
            return None if api_version in stale else _resource_list(api_version, found)
    return None


def etag(document: Object) -> str:
    content = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return f'"{hashlib.sha256(content).hexdigest()}"'


def _aggregated(lists: dict[str, list[Served]], stale: frozenset[str]) -> Object:
    groups: dict[str, list[Object]] = {}
    for api_version, found in lists.items():
        group, _, version = api_version.rpartition("/")
        entry: Object = {"version": version, "freshness": "Current"}
        if api_version in stale:
            entry["freshness"] = "Stale"
        is_stale = api_version in stale
        entry["resources"] = (
            [] if is_stale else [_aggregated_resource(r, group, version) for r in found]
        )
        groups.setdefault(group, []).append(entry)
    items = [
        {"metadata": {"name": group} if group else {}, "versions": versions}
        for group, versions in groups.items()
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(resource: Served, group: str, version: str) -> Object:
    kind = {"group": group, "version": version, "kind": resource.kind}
    entry: Object = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.kind.lower(),
        "verbs": list(resource.verbs),
    }
    if resource.has_status:
        entry["subresources"] = [{"subresource": "status", "responseKind": kind, "verbs": ["get"]}]
    return entry


def _groups(path: str, lists: dict[str, list[Served]]) -> Object:
    if path == "/api":
        return {"kind": "APIVersions", "versions": list(lists)}
    groups: dict[str, list[Object]] = {}
    for api_version in lists:
        group, _, version = api_version.rpartition("/")
        groups.setdefault(group, []).append({"groupVersion": api_version, "version": version})
    entries = [
        {"name": name, "versions": versions, "preferredVersion": versions[0]}
        for name, versions in groups.items()
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": entries}


def _resource_list(api_version: str, found: list[Served]) -> Object:
    resources: list[Object] = []
    for resource in found:
        entry: Object = {
            "name": resource.plural,
            "singularName": resource.kind.lower(),
            "kind": resource.kind,
            "namespaced": resource.namespaced,
            "verbs": list(resource.verbs),
        }
        resources.append(entry)
        if resource.has_status:
            resources.append({**entry, "name": f"{resource.plural}/status", "verbs": ["get"]})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": resources,
    }
