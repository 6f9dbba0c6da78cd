"""Grant rights on the host, and remove what `join` and the agent created."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from karmada_vc_agent.access.admission import resource_of, served_versions
from karmada_vc_agent.access.agent_objects import (
    HostInstall,
    base_objects,
    definition_key,
    gateway_base_objects,
    secret_name,
    token_keys,
    workload_objects,
)
from karmada_vc_agent.access.host_roles import MANAGED, host_bindings, host_roles
from karmada_vc_agent.access.policy_owner import GROUP, VALIDATING, VERSIONS, PolicyOwner, owner_of
from karmada_vc_agent.cluster.labelled_objects import labelled_objects
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install.apply_objects import (
    Changes,
    apply_all,
    differences,
    find,
    path_of,
)
from karmada_vc_agent.install.host_rights import HostRights
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
)
from karmada_vc_agent.kube.tasks import retry_on
from karmada_vc_agent.model.domain import (
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    CLUSTER_LABEL,
    GATEWAY_LABEL,
)
from karmada_vc_agent.model.kinds import (
    CLUSTER_READER,
    NAMESPACE_ADMIN,
    RBAC_API,
    TENANT_ROLES,
    gateway_account,
    gateway_role,
)
from karmada_vc_agent.model.objects import Object, annotations_of, dig, key_of, labels_of, maps_at
from karmada_vc_agent.translation.rbac_rules import cut

BINDINGS = ("ClusterRoleBinding", "RoleBinding")
ROLES = ("ClusterRole", "Role")
_ANY_PORT = 1


async def remove_object(client: ApiClient, path: str, what: object, changes: Changes) -> None:
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


async def labelled_roles(client: ApiClient, agent: str, kind: str) -> list[Object]:
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
        for live in await labelled_roles(client, agent, kind):
            if key_of(live) not in keep and (claimed or CLUSTER_LABEL not in labels_of(live)):
                await remove_object(client, path_of(live), key_of(live), changes)


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
            await remove_object(
                host, resource.path(name=name), f"{resource.gvk.kind} {name}", changes
            )


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
            await remove_object(host, path_of(obj), key_of(obj), changes)
    for role in await rbac_objects(host, "ClusterRole", f"{GATEWAY_LABEL}={agent}"):
        await remove_object(host, path_of(role), key_of(role), changes)
    readers = await bindings_of(host, CLUSTER_READER, BINDINGS[:1])
    reader = await find(host, f"/apis/{RBAC_API}/clusterroles/{CLUSTER_READER}")
    if reader is not None and all(
        each["metadata"]["name"] == f"{gateway_role(agent)}:readers" for each in readers
    ):
        await remove_object(host, path_of(reader), key_of(reader), changes)


async def revoke_tokens(
    host: ApiClient, agent: str, namespace: str, cluster: str, changes: Changes
) -> None:
    """Make the tokens of a virtual cluster invalid, and remove the rights of its callers.

    Raises KubeError.
    """
    path = f"/api/v1/namespaces/{namespace}/secrets/{secret_name(agent)}"
    secret = await find(host, path)
    data = dig(secret, "data") or {}
    if keys := [
        key for key in (*token_keys(secret, cluster), definition_key(cluster)) if key in data
    ]:
        await host.merge_patch(path, {"data": dict.fromkeys(keys)})
        changes.report(f"host: revoked the tokens of {cluster}")
    callers = f"{GATEWAY_LABEL}={agent},{CLUSTER_LABEL}={cluster}"
    for role in await rbac_objects(host, "ClusterRole", callers):
        await remove_object(host, path_of(role), key_of(role), changes)


_POLICIES_PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_DRY = {"dryRun": "All"}
_ATTEMPTS = 3
_CONFLICTS = (AlreadyExistsError, ConflictError, NotFoundError)


async def read_host(host: ApiClient, agent: str) -> tuple[ServedApis, PolicyOwner | None]:
    """Return what the host serves, and what the installed policies protect. Raises KubeError."""
    served = await Discovery(host).refresh()
    name = PolicyOwner(agent, "", "").confines_policy
    if VALIDATING not in served_versions(served):
        return served, None
    return served, owner_of(await find(host, f"{_POLICIES_PATH}/{name}") or {})


async def grant_on_host(
    host: ApiClient, rights: HostRights, served: ServedApis, changes: Changes
) -> None:
    """Grant an agent its rights, and remove those that an earlier `join` granted beside them.

    Order: roles, which grant nothing alone; policies; bindings: so the agent's account is never
    stronger than its policies allow. Raises KubeError, CommandError.
    """
    agent = rights.install.agent
    await apply_all(host, [*rights.definitions, *base_objects(rights.install)], changes)
    roles, theirs = await _roles(host, rights)
    ours = [role for role in roles if role["metadata"]["name"] not in theirs]
    await apply_all(host, ours, changes)
    await _allow_adoption(host, rights.adoptions, changes)
    for policy in rights.policies:
        await _put_policy(host, served, policy, changes)
    if not rights.policies:
        await remove_policies(host, served, agent, changes)
    bindings = host_bindings(rights.access)
    await apply_all(host, bindings, changes)
    if rights.access.gateway_callers is None:
        await remove_gateway(host, agent, rights.install.namespace, changes)
        await remove_policies(host, served, agent, changes, rights.owner.name("gateway-confines"))
    await prune(host, agent, (*roles, *bindings), changes)


async def _roles(host: ApiClient, rights: HostRights) -> tuple[list[Object], set[str]]:
    """Return the roles, and the names of those of tenants that another owner made."""
    path, granted = f"/apis/{RBAC_API}/clusterroles", dict(rights.access.granted)
    most = granted[NAMESPACE_ADMIN]
    kept = set()
    for built_in, name in TENANT_ROLES.items():
        live = await find(host, f"{path}/{name}")
        if live is not None and not labels_of(live).items() >= MANAGED.items():
            kept.add(name)
        if name != NAMESPACE_ADMIN and not rights.access.is_confined:
            of_the_host = await find(host, f"{path}/{built_in}") or {}
            granted[name] = cut(maps_at(of_the_host, "rules"), most)
    return host_roles(replace(rights.access, granted=granted)), kept


async def _allow_adoption(host: ApiClient, adoptions: Mapping[str, str], changes: Changes) -> None:
    """Mark the existing namespaces that the settings let a virtual cluster adopt."""
    for name, cluster in adoptions.items():
        path = f"/api/v1/namespaces/{name}"
        live = await find(host, path)
        if live is None or annotations_of(live).get(ALLOW_ADOPTION_ANNOTATION) == cluster:
            continue
        mark = {"metadata": {"annotations": {ALLOW_ADOPTION_ANNOTATION: cluster}}}
        changes.report(f"host: let {cluster} adopt Namespace {name}")
        if not changes.is_dry:
            await host.merge_patch(path, mark)


async def _put_policy(
    host: ApiClient, served: ServedApis, desired: Object, changes: Changes
) -> None:
    """Create or replace one policy or binding so that its spec is exactly the desired one.

    A dry run has the host validate it. Raises KubeError, CommandError for one of another owner.
    """
    resource = resource_of(served, desired)
    path = resource.path(name=desired["metadata"]["name"])

    async def put() -> None:
        live = await find(host, path)
        if live is None:
            changes.report(f"host: create {key_of(desired)}")
            await host.create(resource.path(), desired, query=_DRY if changes.is_dry else None)
            return
        if labels_of(live).get(AGENT_LABEL) != labels_of(desired)[AGENT_LABEL]:
            theirs = f"host: {key_of(desired)} was not created by this agent's join"
            raise CommandError(f"{theirs}; delete it first")
        version = live["metadata"]["resourceVersion"]
        labels = {**labels_of(live), **labels_of(desired)}
        metadata = {**desired["metadata"], "labels": labels, "resourceVersion": version}
        body = {**desired, "metadata": metadata}
        details = differences(live, await host.replace(path, body, query=_DRY))
        if not details:
            return
        changes.report(f"host: change {key_of(desired)}", details)
        if not changes.is_dry:
            await host.replace(path, body)

    await retry_on(_CONFLICTS, _ATTEMPTS, put)
