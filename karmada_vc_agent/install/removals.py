"""Remove what `join` and the agent created for an agent, by label or by name.

What `join` ever granted has the agent's name and label, on the hub as on the host. What the agent
itself made in claimed namespaces also has the label of a virtual cluster.
"""

from collections.abc import Iterable
from contextlib import suppress

from karmada_vc_agent.access.agent_objects import (
    HostInstall,
    gateway_base_objects,
    workload_objects,
)
from karmada_vc_agent.access.gateway_secrets import definition_key, keys_of, secret_name
from karmada_vc_agent.access.policy_owner import GROUP, VERSIONS
from karmada_vc_agent.cluster.labelled_objects import labelled_objects
from karmada_vc_agent.install.apply_objects import find, path_of
from karmada_vc_agent.install.changes import Changes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL, GATEWAY_LABEL
from karmada_vc_agent.model.objects import Object, dig, key_of, labels_of
from karmada_vc_agent.model.rbac_rule import CLUSTER_READER, gateway_account, gateway_role
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP

BINDINGS = ("ClusterRoleBinding", "RoleBinding")
ROLES = ("ClusterRole", "Role")
NEEDS_TO_PRUNE = tuple(
    Need(verb, RBAC_GROUP, f"{kind.lower()}s")
    for kind in (*BINDINGS, *ROLES)
    for verb in ("list", "delete")
)
"""The rights of an administrator that pruning takes."""
_ANY_PORT = 1


async def remove(client: ApiClient, path: str, what: object, changes: Changes) -> None:
    """Report the removal of an object, then delete it unless nothing is to be written."""
    changes.report(f"{client.name}: remove {what}")
    if not changes.is_dry:
        with suppress(NotFoundError):
            await client.delete(path)


async def rbac_objects(client: ApiClient, kind: str, selector: str = "") -> list[Object]:
    """Return roles or bindings of a kind in all namespaces. Raises KubeError."""
    query = {"labelSelector": selector} if selector else {}
    answer = await client.get(f"/apis/{RBAC_API}/{kind.lower()}s", query)
    head = {"apiVersion": RBAC_API, "kind": kind}
    return [{**item, **head} for item in answer.get("items") or ()]


async def bindings_of(
    client: ApiClient, role: str, kinds: Iterable[str] = BINDINGS
) -> list[Object]:
    """Return the bindings that refer to a ClusterRole. Raises KubeError."""
    listed = [each for kind in kinds for each in await rbac_objects(client, kind)]
    ref = {"kind": "ClusterRole", "name": role}
    return [each for each in listed if ref.items() <= (dig(each, "roleRef") or {}).items()]


async def labelled(client: ApiClient, agent: str, kind: str) -> list[Object]:
    """Return roles or bindings of an agent, in all namespaces. Raises KubeError."""
    listed = await rbac_objects(client, kind, f"{AGENT_LABEL}={agent}")
    return [
        item for item in listed if f"{item['metadata']['name']}:".startswith(f"vc-agent:{agent}:")
    ]


async def prune(
    client: ApiClient,
    agent: str,
    desired: Iterable[Object],
    changes: Changes,
    kinds: Iterable[str] = (*BINDINGS, *ROLES),
    *,
    claimed: bool = False,
) -> None:
    """Remove roles and bindings that are not desired: bindings before roles. Raises KubeError.

    claimed: also what the agent made in claimed namespaces.
    """
    keep = {key_of(obj) for obj in desired}
    for kind in kinds:
        for live in await labelled(client, agent, kind):
            if key_of(live) not in keep and (claimed or CLUSTER_LABEL not in labels_of(live)):
                await remove(client, path_of(live), key_of(live), changes)


# --- admission policies -----------------------------------------------------------------


async def remove_policies(
    host: ApiClient, served: ServedApis, agent: str, changes: Changes, only: str = ""
) -> None:
    """Remove all policies of an agent. Raises KubeError.

    Bindings before policies: a policy without one does nothing. only: the name of the one to
    remove, with its binding.
    """
    listed = [
        (resource, live["metadata"]["name"])
        async for resource, live in labelled_objects(
            host, served, f"{AGENT_LABEL}={agent}", wants=_is_policy
        )
    ]
    for resource, name in sorted(listed, key=lambda each: not each[0].gvk.kind.endswith("Binding")):
        if only in ("", name):
            await remove(host, resource.path(name=name), f"{resource.gvk.kind} {name}", changes)


def _is_policy(resource: Resource) -> bool:
    return resource.gvk.group == GROUP and resource.gvk.kind.removesuffix("Binding") in VERSIONS


# --- workloads --------------------------------------------------------------------------


def workload(agent: str, namespace: str, gateway_port: int = 0) -> list[Object]:
    """Return what `join` creates in the agent's namespace to run it, in the order to remove it."""
    install = HostInstall(agent, namespace, "", "any", "any", gateway_port=gateway_port)
    return workload_objects(install)[::-1]


async def remove_gateway(host: ApiClient, agent: str, namespace: str, changes: Changes) -> None:
    """Remove an agent's gateway, with its account and its callers' rights. Raises KubeError.

    Its Pods first. Its own rights are pruned with those of the agent, and the agent removes what it
    created in claimed namespaces.
    """
    if await find(host, f"/apis/{RBAC_API}/clusterrolebindings/{gateway_role(agent)}") is None:
        return
    made = [*workload(agent, namespace, _ANY_PORT), *gateway_base_objects(agent, namespace)[::-1]]
    names = (gateway_account(agent), secret_name(agent))
    for obj in (each for each in made if each["metadata"]["name"] in names):
        live = await find(host, path_of(obj))
        if live is not None and labels_of(obj).items() <= labels_of(live).items():
            await remove(host, path_of(obj), key_of(obj), changes)
    for role in await rbac_objects(host, "ClusterRole", f"{GATEWAY_LABEL}={agent}"):
        await remove(host, path_of(role), key_of(role), changes)
    readers = await bindings_of(host, CLUSTER_READER, BINDINGS[:1])
    reader = await find(host, f"/apis/{RBAC_API}/clusterroles/{CLUSTER_READER}")
    if reader is not None and all(
        each["metadata"]["name"] == f"{gateway_role(agent)}:readers" for each in readers
    ):
        await remove(host, path_of(reader), key_of(reader), changes)


async def revoke(
    host: ApiClient, agent: str, namespace: str, cluster: str, changes: Changes
) -> None:
    """Make the tokens of a virtual cluster invalid, and remove the rights of its callers.

    Raises KubeError.
    """
    path = f"/api/v1/namespaces/{namespace}/secrets/{secret_name(agent)}"
    secret = await find(host, path)
    data = dig(secret, "data") or {}
    if keys := [key for key in (*keys_of(secret, cluster), definition_key(cluster)) if key in data]:
        await host.merge_patch(path, {"data": dict.fromkeys(keys)})
        changes.report(f"host: revoked the tokens of {cluster}")
    callers = f"{GATEWAY_LABEL}={agent},{CLUSTER_LABEL}={cluster}"
    for role in await rbac_objects(host, "ClusterRole", callers):
        await remove(host, path_of(role), key_of(role), changes)
