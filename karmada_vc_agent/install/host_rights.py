"""What an agent is granted on the host, and what is removed with it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec import structs

from karmada_vc_agent.access.admission import (
    ANY_CLUSTER,
    GROUP,
    SCHEDULER,
    VALIDATING,
    VERSIONS,
    PolicyOwner,
    allowances,
    cluster_of,
    desired_policies,
    group_labels,
    held_by,
    networks_of_pods,
    owner_of,
    renames_of,
    resource_of,
    served_versions,
)
from karmada_vc_agent.access.agent_objects import (
    HostInstall,
    base_objects,
    definition_key,
    gateway_base_objects,
    secret_name,
    token_keys,
    workload_objects,
)
from karmada_vc_agent.access.rights import (
    MANAGED,
    NAMESPACED,
    HostAccess,
    Kind,
    host_bindings,
    host_roles,
)
from karmada_vc_agent.cluster.host_objects import labelled_objects
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.config.loading import default_account
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install.apply_objects import (
    Changes,
    apply_all,
    differences,
    find,
    path_of,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
)
from karmada_vc_agent.kube.flows import retry_on
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, dig, key_of, labels_of, maps_at
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT, VirtualCluster
from karmada_vc_agent.model.vocabulary import (
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    CLUSTER_LABEL,
    CLUSTER_READER,
    GATEWAY_LABEL,
    NAMESPACE_ADMIN,
    RBAC_API,
    TENANT_ROLES,
    gateway_account,
    gateway_role,
    service_account_user,
)
from karmada_vc_agent.runner.parts import Described
from karmada_vc_agent.translation.kind_policy import (
    CLUSTER_SCOPED,
    Policy,
    configured_kinds,
    policy_for,
)
from karmada_vc_agent.translation.own_steps import tenants_patterns
from karmada_vc_agent.translation.rbac import admin_groups
from karmada_vc_agent.translation.rbac_rules import admin_rules, agent_rules, cut

NOT_DESCRIBED = Described()
_WRITTEN = (Policy.SHARE, Policy.RENAME)
_GRANTED_APART = frozenset({vocabulary.CLUSTER_ROLE})
"""Kinds whose rights depend on more than whether Works may contain them."""


@dataclass(frozen=True, slots=True)
class HostRights:
    """The desired objects of the host.

    policies: none if the host or the settings rule them out. adoptions: host namespace -> virtual
    cluster that may adopt it. definitions: CustomResourceDefinitions.
    """

    install: HostInstall
    access: HostAccess
    owner: PolicyOwner
    policies: list[Object]
    adoptions: Mapping[str, str]
    definitions: list[Object]


def host_rights(
    install: HostInstall,
    config: AgentConfig,
    clusters: Sequence[str],
    served: ServedApis | None,
    installed: PolicyOwner | None = None,
    described: Described = NOT_DESCRIBED,
    *,
    schedulers: tuple[str, ...] = (),
    api_groups: tuple[str, ...] = (),
) -> HostRights:
    """Return what an agent needs on the host.

    config: the agent's settings, or the defaults if unknown. served: what the host serves; None =
    unknown, assume a current Kubernetes. installed: the values that the installed policies protect;
    protected values are only ever added. described: what the host describes beside the settings.
    schedulers: users who may bind pods; empty = keep those of the last join. api_groups: see
    HostAccess.
    """
    versions = {VALIDATING: "v1"} if served is None else served_versions(served)
    is_confined = config.install_policies and VALIDATING in versions
    owner = _owner(install, config, clusters, schedulers, installed, described)
    by_name = _by_name(install, config, owner.clusters, described)
    vcs = (*config.virtual_clusters, *by_name)
    accounts = {(vc.apply_as.namespace, vc.apply_as.name): None for vc in vcs if vc.apply_as}
    port = config.gateway.port if config.gateway.enabled else 0
    install = replace(install, accounts=tuple(accounts), gateway_port=port)
    everyone = structs.replace(config, virtual_clusters=vcs)
    access = _access(install, everyone, served, api_groups, is_confined=is_confined)
    if config.gateway.enabled:
        callers = (group for name in owner.clusters for group in admin_groups(name))
        access = replace(access, gateway_callers=tuple(callers))
    owner = _with_exceptions(owner, config, described, by_name)
    return HostRights(
        install=install,
        access=access,
        owner=owner,
        policies=desired_policies(owner, versions) if is_confined else [],
        adoptions={name: vc.name for vc in config.virtual_clusters for name in vc.adopt_namespaces},
        definitions=definitions(config),
    )


def definitions(config: AgentConfig) -> list[Object]:
    """Return the CustomResourceDefinitions of all features."""
    return [obj for feature in FEATURES for obj in feature.definitions(config)]


def _access(
    install: HostInstall,
    config: AgentConfig,
    served: ServedApis | None,
    api_groups: tuple[str, ...],
    *,
    is_confined: bool,
) -> HostAccess:
    namespaced = NAMESPACED if served is None else served.namespaced
    vcs = config.virtual_clusters
    applies = [vc.apply_as for vc in vcs if vc.apply_as is not None]
    return HostAccess(
        agent=install.agent,
        namespace=install.namespace,
        ceiling=agent_rules(namespaced),
        granted={NAMESPACE_ADMIN: admin_rules(namespaced, is_strict=config.tenancy == STRICT)},
        namespaced=tuple(sorted(kind for kind in namespaced if "/" not in kind[1])),
        shared=_shared(config, served),
        api_groups=api_groups,
        is_confined=is_confined,
        follows_kinds=config.tenancy == SHARED,
        bound_roles=tuple(each.cluster_role for each in applies if each.cluster_role),
        acts_as=tuple((each.namespace, each.name) for each in applies),
        dns_namespace=config.dns_namespace,
        of_features=tuple(path for each in FEATURES for path in each.host_roles(config)),
        kubeconfig_namespace=config.karmada_kubeconfig_namespace,
    )


def _shared(config: AgentConfig, served: ServedApis | None) -> tuple[Kind, ...]:
    """Return the cluster-scoped kinds that Works may contain, without ClusterRole."""
    configured = configured_kinds(config.cluster_scoped_kinds)
    built_in = (
        (kind.group, vocabulary.plural(kind))
        for kind, policy in CLUSTER_SCOPED.items()
        if policy in _WRITTEN and kind not in _GRANTED_APART
    )
    shared = dict.fromkeys(sorted(built_in))
    for gvk, resource in (served.by_kind if served else {}).items():
        if resource.namespaced or gvk.group_kind in _GRANTED_APART:
            continue
        if policy_for(gvk, namespaced=False, configured=configured) in _WRITTEN:
            shared[gvk.group, resource.plural] = None
    return tuple(shared)


def _owner(
    install: HostInstall,
    config: AgentConfig,
    clusters: Sequence[str],
    schedulers: tuple[str, ...],
    installed: PolicyOwner | None,
    described: Described,
) -> PolicyOwner:
    names = {*clusters, *_also(config)}
    listed = (
        vc for vc in described.virtual_clusters if vc.name in names or config.objects.any_name
    )
    gateway = service_account_user(install.namespace, gateway_account(install.agent))
    owner = PolicyOwner(
        agent=install.agent,
        namespace=install.namespace,
        user=service_account_user(install.namespace, install.agent),
        clusters=tuple(sorted(names)),
        group_labels=_group_labels(config, described.group_labels),
        schedulers=schedulers or (SCHEDULER,),
        elsewhere=_elsewhere(install, config),
        renames=tuple(
            sorted({one for vc in (*config.virtual_clusters, *listed) for one in renames_of(vc)})
        ),
        gateway=gateway if config.gateway.enabled else "",
        template=config.namespace_template,
        domain=config.cluster_domain,
        tenants_keys=tenants_patterns(config.tenancy, config.namespace_keys),
        pod_cidrs=networks_of_pods(config.tenancy, config.pod_cidrs),
    )
    if installed is None:
        return owner
    dropped = set() if config.objects.any_name else {ANY_CLUSTER}
    return replace(
        owner,
        clusters=tuple(sorted({*installed.clusters, *owner.clusters} - dropped)),
        group_labels=tuple(sorted({*installed.group_labels, *owner.group_labels})),
        schedulers=schedulers or installed.schedulers,
        held=installed.held,
        allowed=installed.allowed,
    )


def _by_name(
    install: HostInstall, config: AgentConfig, clusters: Sequence[str], described: Described
) -> tuple[VirtualCluster, ...]:
    """Return tenants that the settings do not list: an object or a NodeGroup describes them.

    Each has an account of its own, as those of the settings have; none with a profile without.
    """
    if config.tenancy != STRICT:
        return ()
    listed = {vc.name for vc in config.virtual_clusters} | set(_also(config))
    return tuple(
        VirtualCluster(
            name,
            allow=described.allow(name),
            apply_as=default_account(config, install.namespace, name),
        )
        for name in clusters
        if name not in listed
    )


def _with_exceptions(
    owner: PolicyOwner,
    config: AgentConfig,
    described: Described,
    by_name: Sequence[VirtualCluster],
) -> PolicyOwner:
    """Hold tenants to what the profile has and `allow` does not permit; others stay as they were.

    One of which only the name is given is held to all of it.
    """
    listed = (
        vc
        for vc in described.virtual_clusters
        if vc.name in owner.clusters or ANY_CLUSTER in owner.clusters
    )
    decided = {vc.name: vc for vc in (*config.virtual_clusters, *listed, *by_name)}

    def decide(
        previous: Iterable[str], rule: Callable[[VirtualCluster, str], set[str]]
    ) -> tuple[str, ...]:
        kept = {one for one in previous if cluster_of(one) not in decided}
        new = {one for vc in decided.values() for one in rule(vc, config.tenancy)}
        return tuple(sorted(kept | new))

    held, allowed = decide(owner.held, held_by), decide(owner.allowed, allowances)
    return replace(owner, held=held, allowed=allowed)


def _also(config: AgentConfig) -> Iterator[str]:
    """Yield names whose claims and marks are the agent's beside those of its virtual clusters."""
    if config.objects.any_name:
        yield ANY_CLUSTER
    for vc in config.virtual_clusters:
        yield from vc.former_names


def _group_labels(config: AgentConfig, more: Iterable[str]) -> tuple[str, ...]:
    keys = {key for vc in config.virtual_clusters for key in group_labels(vc)} | set(more)
    used = (each for each in config.sources.values() if each.is_used)
    return tuple(sorted(keys.union(*(each.group_labels for each in used))))


def _elsewhere(install: HostInstall, config: AgentConfig) -> tuple[str, ...]:
    rules = f"{config.dns_namespace}/configmaps/{install.agent}-service-names"
    if not config.karmada_kubeconfig_namespace:
        return (rules,)
    return (rules, f"{config.karmada_kubeconfig_namespace}/secrets/karmada-kubeconfig")


async def described_on_host(host: ApiClient, config: AgentConfig) -> Described:
    """Return what objects, NodeGroups and nodes describe now. Raises KubeError."""
    all_described = [
        await each.describe(host, config) for each in FEATURES if each.describe is not None
    ]
    discovered = [vc for each in all_described for vc in each.virtual_clusters]
    listed = {vc.name for vc in config.virtual_clusters}
    first = {vc.name: vc for vc in reversed(discovered) if vc.name not in listed}
    return Described(
        frozenset(key for each in all_described for key in each.group_labels),
        tuple(first.values()),
        tuple(vc for each in all_described for vc in each.objects),
    )


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
