"""Grant the rights of an agent on the host, or try whether the host accepts them.

Order: roles, which grant nothing alone; policies; role bindings. So the agent's account is never
stronger than its policies allow. Every step can be repeated.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from karmada_vc_agent.access.agent_objects import base_objects
from karmada_vc_agent.access.host_roles import MANAGED, host_bindings, host_roles
from karmada_vc_agent.access.installed_policies import resource_of, served_versions
from karmada_vc_agent.access.policy_owner import VALIDATING, PolicyOwner, owner_of
from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.install.apply_objects import MANAGER, apply_all, find, path_of
from karmada_vc_agent.install.changes import Changes, differences
from karmada_vc_agent.install.host_rights import HostRights
from karmada_vc_agent.install.removals import prune, remove_gateway, remove_policies
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from karmada_vc_agent.kube.retries import retry_on
from karmada_vc_agent.model.domain import AGENT_LABEL, ALLOW_ADOPTION_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of, key_of, labels_of, maps_at
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN, TENANT_ROLES
from karmada_vc_agent.model.well_known import RBAC_API
from karmada_vc_agent.translation.rbac_rules import cut

_POLICIES_PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_DRY = {"dryRun": "All"}
_ATTEMPTS = 3
_CONFLICTS = (AlreadyExistsError, ConflictError, NotFoundError)
_LONGEST = 1000


async def read_host(host: ApiClient, agent: str) -> tuple[ServedApis, PolicyOwner | None]:
    """Return what the host serves, and what the installed policies protect. Raises KubeError."""
    served = await Discovery(host).refresh()
    name = PolicyOwner(agent, "", "").confines_policy
    if VALIDATING not in served_versions(served):
        return served, None
    return served, owner_of(await find(host, f"{_POLICIES_PATH}/{name}") or {})


async def try_on_host(host: ApiClient, rights: HostRights, served: ServedApis) -> None:
    """Have the host validate what its version may refuse: definitions and policies, by dry run.

    Raises CommandError with all that it refuses, KubeError.
    """
    apply = partial(host.server_side_apply, manager=MANAGER, is_dry=True, is_forced=True)
    put = partial(_put_policy, host, served, changes=Changes(is_dry=True))
    attempts: list[tuple[Object, Callable[[], Awaitable[object]]]] = [
        *((each, partial(apply, path_of(each), each)) for each in rights.definitions),
        *((each, partial(put, each)) for each in rights.policies),
    ]
    problems = []
    for obj, attempt in attempts:
        try:
            await attempt()
        except InvalidError as error:
            problems.append(f"host: {key_of(obj)} is refused: {str(error)[:_LONGEST]}")
    if problems:
        raise CommandError(*problems, "Nothing was changed")


async def grant_on_host(
    host: ApiClient, rights: HostRights, served: ServedApis, changes: Changes
) -> None:
    """Grant an agent its rights, and remove those that an earlier `join` granted beside them.

    Raises KubeError, CommandError.
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
        await remove_policies(host, served, agent, changes, rights.owner.gateway_policy)
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
