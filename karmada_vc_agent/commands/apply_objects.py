"""Make objects exist as they are wanted, write only what differs, and say what that was."""

from collections.abc import Iterable
from typing import Any

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import AlreadyExistsError, NotFoundError
from karmada_vc_agent.model.objects import NAMESPACE, GroupVersionKind, Object, dig, gvk_of, key_of
from karmada_vc_agent.model.well_known import RBAC_GROUP

_RESOURCES = {
    resource.gvk: resource
    for resource in (
        Resource(NAMESPACE, "namespaces", namespaced=False),
        Resource(GroupVersionKind("", "v1", "ServiceAccount"), "serviceaccounts", namespaced=True),
        Resource(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", namespaced=True),
        Resource(GroupVersionKind("", "v1", "Secret"), "secrets", namespaced=True),
        Resource(GroupVersionKind("apps", "v1", "Deployment"), "deployments", namespaced=True),
        Resource(
            GroupVersionKind(RBAC_GROUP, "v1", "ClusterRole"), "clusterroles", namespaced=False
        ),
        Resource(
            GroupVersionKind(RBAC_GROUP, "v1", "ClusterRoleBinding"),
            "clusterrolebindings",
            namespaced=False,
        ),
        Resource(GroupVersionKind(RBAC_GROUP, "v1", "Role"), "roles", namespaced=True),
        Resource(
            GroupVersionKind(RBAC_GROUP, "v1", "RoleBinding"), "rolebindings", namespaced=True
        ),
        Resource(
            GroupVersionKind("networking.k8s.io", "v1", "NetworkPolicy"),
            "networkpolicies",
            namespaced=True,
        ),
    )
}
"""The kinds that `join` writes; all of them are served by every API server that can be used."""
_ATTEMPTS = 3


def path_of(obj: Object) -> str:
    """Return the URL path of an object of one of the kinds that `join` writes."""
    key = key_of(obj)
    return _RESOURCES[key.gvk].path(key.namespace, key.name)


async def find(client: ApiClient, path: str) -> Object | None:
    """GET, or None where there is no such object."""
    try:
        return await client.get(path)
    except NotFoundError:
        return None


async def apply_all(client: ApiClient, objects: Iterable[Object]) -> list[str]:
    """Apply objects in their order; return a line for each that was created or changed."""
    changes = []
    for obj in objects:
        change = await apply(client, obj)
        if change:
            changes.append(f"{client.name}: {change}")
    return changes


async def apply(client: ApiClient, wanted: Object) -> str:
    """Create an object, or change what differs from `wanted`; return what was done, or "".

    Fields that `wanted` does not name stay as they are. Raises KubeError.
    """
    for _ in range(_ATTEMPTS):
        live = await find(client, path_of(wanted))
        if live is not None and dig(live, "metadata", "deletionTimestamp") is None:
            differing = [name for name in wanted if not _holds(live.get(name), wanted[name])]
            if not differing:
                return ""
            await client.merge_patch(path_of(wanted), {name: wanted[name] for name in differing})
            return f"changed {key_of(wanted)} ({', '.join(differing)})"
        key = key_of(wanted)
        try:
            await client.create(_RESOURCES[gvk_of(wanted)].path(key.namespace), wanted)
        except AlreadyExistsError as error:
            met = error
            continue
        return f"created {key_of(wanted)}"
    raise met


def _holds(live: Any, wanted: Any) -> bool:
    """Whether all of `wanted` is in `live`; lists must agree element by element."""
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return False
        return all(_holds(live.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(live, list) or len(live) != len(wanted):
            return False
        return all(map(_holds, live, wanted))
    return bool(live == wanted)
