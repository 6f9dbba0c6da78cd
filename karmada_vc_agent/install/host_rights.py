"""What an agent is granted on the host, and what is removed with it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from karmada_vc_agent.access import admission, agent_objects
from karmada_vc_agent.access.admission import PolicyOwner
from karmada_vc_agent.access.agent_objects import HostInstall
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
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import default_account
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install.apply_objects import (
    Changes,
    apply_all,
    differences,
    path_of,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.flows import MET_ANOTHER, retry_on
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, dig, key_of, labels_of, maps_at
from karmada_vc_agent.model.virtual_cluster import STRICT, VirtualCluster
from karmada_vc_agent.model.vocabulary import (
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    CLUSTER_LABEL,
    CLUSTER_ROLES_PATH,
    GATEWAY_LABEL,
    NAMESPACE_ADMIN,
    RBAC_API,
    TENANCY_ANNOTATION,
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
    protected values are only ever added. schedulers: users who may bind pods; empty = keep those of
    the last join. api_groups: see HostAccess.
    """
    versions = {admission.VALIDATING: "v1"} if served is None else admission.served_versions(served)
    is_confined = config.install_policies and admission.VALIDATING in versions
    names = _names(config, clusters, installed)
    vcs = (*config.virtual_clusters, *_by_name(install, config, names, described))
    owner = _owner(install, config, names, vcs, described, installed)
    if schedulers:
        owner = replace(owner, schedulers=schedulers)
    applies = [vc.apply_as for vc in vcs if vc.apply_as is not None]
    acts_as = tuple(dict.fromkeys((each.namespace, each.name) for each in applies))
    namespaced = NAMESPACED if served is None else served.namespaced
    callers = tuple(group for name in owner.clusters for group in admin_groups(name))
    access = HostAccess(
        agent=install.agent,
        namespace=install.namespace,
        ceiling=agent_rules(namespaced),
        granted={NAMESPACE_ADMIN: admin_rules(namespaced, is_strict=config.tenancy == STRICT)},
        namespaced=tuple(sorted(kind for kind in namespaced if "/" not in kind[1])),
        shared=_shared(config, served),
        api_groups=api_groups,
        is_confined=is_confined,
        tenancy=config.tenancy,
        bound_roles=tuple(each.cluster_role for each in applies if each.cluster_role),
        acts_as=acts_as,
        dns_namespace=config.dns_namespace,
        of_features=tuple(path for each in FEATURES for path in each.host_roles(config)),
        kubeconfig_namespace=config.karmada_kubeconfig_namespace,
        gateway_callers=callers if config.gateway.enabled else None,
    )
    port = config.gateway.port if config.gateway.enabled else 0
    return HostRights(
        install=replace(install, accounts=acts_as, gateway_port=port),
        access=access,
        owner=owner,
        policies=admission.desired_policies(owner, versions) if is_confined else [],
        adoptions={name: vc.name for vc in config.virtual_clusters for name in vc.adopt_namespaces},
        definitions=[obj for feature in FEATURES for obj in feature.definitions(config)],
    )


def _shared(config: AgentConfig, served: ServedApis | None) -> tuple[Kind, ...]:
    configured = configured_kinds(config.cluster_scoped_kinds)
    shared = {
        (kind.group, vocabulary.plural(kind))
        for kind, policy in CLUSTER_SCOPED.items()
        if policy in _WRITTEN and kind not in _GRANTED_APART
    } | {
        (gvk.group, resource.plural)
        for gvk, resource in (served.by_kind if served else {}).items()
        if not resource.namespaced and gvk.group_kind not in _GRANTED_APART
        if policy_for(gvk, namespaced=False, configured=configured) in _WRITTEN
    }
    return tuple(sorted(shared))


def _names(
    config: AgentConfig, clusters: Sequence[str], installed: PolicyOwner | None
) -> frozenset[str]:
    former = (name for vc in config.virtual_clusters for name in vc.former_names)
    names = {*clusters, *former, *(installed.clusters if installed else ())} - {
        admission.ANY_CLUSTER
    }
    return frozenset(names | {admission.ANY_CLUSTER} if config.objects.any_name else names)


def _by_name(
    install: HostInstall, config: AgentConfig, names: frozenset[str], described: Described
) -> list[VirtualCluster]:
    """Return tenants that the settings do not list; in Strict each has an account, too."""
    former = {name for vc in config.virtual_clusters for name in vc.former_names}
    listed = {vc.name for vc in config.virtual_clusters} | former | {admission.ANY_CLUSTER}
    return [
        VirtualCluster(
            name,
            allow=described.allow(name),
            apply_as=default_account(config, install.namespace, name),
        )
        for name in (sorted(names - listed) if config.tenancy == STRICT else ())
    ]


def _owner(
    install: HostInstall,
    config: AgentConfig,
    names: frozenset[str],
    vcs: Sequence[VirtualCluster],
    described: Described,
    installed: PolicyOwner | None,
) -> PolicyOwner:
    """Return the input of the policies; of virtual clusters that nothing decides it stays."""
    agent, namespace = install.agent, install.namespace
    owner = installed or PolicyOwner(agent, namespace, "")
    listed = (vc for vc in described.virtual_clusters if names & {vc.name, admission.ANY_CLUSTER})
    decided = {vc.name: vc for vc in (*listed, *vcs)}

    def decide(
        previous: Iterable[str], rule: Callable[[VirtualCluster, str], set[str]]
    ) -> tuple[str, ...]:
        kept = {one for one in previous if admission.cluster_of(one) not in decided}
        new = (rule(vc, config.tenancy) for vc in decided.values())
        return tuple(sorted(kept.union(*new)))

    labels = {*owner.group_labels, *described.group_labels}
    used = (each.group_labels for each in config.sources.values() if each.is_used)
    elsewhere = [f"{config.dns_namespace}/configmaps/{agent}-service-names"]
    if config.karmada_kubeconfig_namespace:
        elsewhere.append(f"{config.karmada_kubeconfig_namespace}/secrets/karmada-kubeconfig")
    gateway = service_account_user(namespace, gateway_account(agent))
    return PolicyOwner(
        agent=agent,
        namespace=namespace,
        user=service_account_user(namespace, agent),
        clusters=tuple(sorted(names)),
        group_labels=tuple(
            sorted(labels.union(*map(admission.group_labels, config.virtual_clusters), *used))
        ),
        schedulers=owner.schedulers,
        elsewhere=tuple(elsewhere),
        held=decide(owner.held, admission.held_by),
        allowed=decide(owner.allowed, admission.allowances),
        renames=tuple(sorted(set[str]().union(*map(admission.renames_of, decided.values())))),
        gateway=gateway if config.gateway.enabled else "",
        template=config.namespace_template,
        domain=config.cluster_domain,
        tenants_keys=tenants_patterns(config.tenancy, config.namespace_keys),
        pod_cidrs=admission.networks_of_pods(config.tenancy, config.pod_cidrs),
    )


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


async def prune(
    client: ApiClient,
    agent: str,
    desired: Iterable[Object],
    changes: Changes,
    *,
    claimed: bool = False,
) -> None:
    """Remove roles and bindings that are not desired; claimed: in claimed namespaces, too."""
    keep = {key_of(obj) for obj in desired}
    for kind in (*BINDINGS, *ROLES):
        for live in await rbac_objects(client, kind, f"{AGENT_LABEL}={agent}"):
            is_own = f"{live['metadata']['name']}:".startswith(f"vc-agent:{agent}:")
            is_listed = claimed or CLUSTER_LABEL not in labels_of(live)
            if is_own and is_listed and key_of(live) not in keep:
                await remove_object(client, path_of(live), key_of(live), changes)


async def remove_policies(
    host: ApiClient,
    served: ServedApis,
    agent: str,
    changes: Changes,
    desired: Iterable[Object] = (),
) -> None:
    """Remove policies of an agent but the desired ones, bindings first. Raises KubeError."""
    keep = {(obj["kind"], obj["metadata"]["name"]) for obj in desired}
    listed = [
        (resource, live["metadata"]["name"])
        async for resource, live in labelled_objects(
            host,
            served,
            f"{AGENT_LABEL}={agent}",
            wants=lambda each: each.gvk.group == admission.GROUP,
        )
    ]
    for resource, name in sorted(listed, key=lambda each: not each[0].gvk.kind.endswith("Binding")):
        kind = resource.gvk.kind
        if (kind, name) not in keep and kind.removesuffix("Binding") in admission.VERSIONS:
            await remove_object(host, resource.path(name=name), f"{kind} {name}", changes)


def workload(agent: str, namespace: str, gateway_port: int = 0) -> list[Object]:
    """Return what `join` creates in the agent's namespace to run it, in the order to remove it."""
    install = HostInstall(agent, namespace, "", "any", "any", gateway_port=gateway_port)
    return agent_objects.workload_objects(install)[::-1]


async def remove_gateway(host: ApiClient, agent: str, namespace: str, changes: Changes) -> None:
    """Remove an agent's gateway, Pods first, and its callers' rights. Raises KubeError.

    `prune` removes its own rights; the agent removes what it created in claimed namespaces.
    """
    if await host.find(f"/apis/{RBAC_API}/clusterrolebindings/{gateway_role(agent)}") is None:
        return
    made = [
        *workload(agent, namespace, 1),
        *agent_objects.gateway_base_objects(agent, namespace)[::-1],
    ]
    for obj in (
        each for each in made if each["metadata"]["name"] == agent_objects.secret_name(agent)
    ):
        live = await host.find(path_of(obj))
        if live is not None and labels_of(obj).items() <= labels_of(live).items():
            await remove_object(host, path_of(obj), key_of(obj), changes)
    await _remove_callers(host, f"{GATEWAY_LABEL}={agent}", changes)


async def _remove_callers(host: ApiClient, selector: str, changes: Changes) -> None:
    for role in await rbac_objects(host, "ClusterRole", selector):
        await remove_object(host, path_of(role), key_of(role), changes)


async def revoke_tokens(
    host: ApiClient, agent: str, namespace: str, cluster: str, changes: Changes
) -> None:
    """Make the tokens of a virtual cluster invalid, and remove its callers. Raises KubeError."""
    path = f"/api/v1/namespaces/{namespace}/secrets/{agent_objects.secret_name(agent)}"
    secret = await host.find(path)
    data = dig(secret, "data") or {}
    of_cluster = (*agent_objects.token_keys(secret, cluster), agent_objects.definition_key(cluster))
    if keys := [key for key in of_cluster if key in data]:
        await host.merge_patch(path, {"data": dict.fromkeys(keys)})
        changes.report(f"host: revoked the tokens of {cluster}")
    await _remove_callers(host, f"{GATEWAY_LABEL}={agent},{CLUSTER_LABEL}={cluster}", changes)


POLICIES_PATH = f"/apis/{admission.GROUP}/v1/validatingadmissionpolicies"
_DRY = {"dryRun": "All"}
_ATTEMPTS = 3


async def read_host(host: ApiClient, agent: str) -> tuple[ServedApis, PolicyOwner | None]:
    """Return what the host serves, and what the installed policies protect. Raises KubeError."""
    served = await Discovery(host).refresh()
    name = PolicyOwner(agent, "", "").name(admission.CONFINES)
    if admission.VALIDATING not in admission.served_versions(served):
        return served, None
    return served, admission.owner_of(await host.find(f"{POLICIES_PATH}/{name}") or {})


async def check_profile(host: ApiClient, agent: str, tenancy: str) -> None:
    """Refuse a profile other than that with which another agent of the host joined.

    The ClusterRoles of tenants are the host's, and those of one profile grant more than those of
    the other. Raises ConfigError, KubeError.
    """
    shared = await host.find(f"{CLUSTER_ROLES_PATH}/{NAMESPACE_ADMIN}") or {}
    recorded = annotations_of(shared).get(TENANCY_ANNOTATION, tenancy)
    roles = await rbac_objects(host, "ClusterRole", AGENT_LABEL) if recorded != tenancy else ()
    agents = {(labels_of(role)[AGENT_LABEL], role["metadata"]["name"]) for role in roles}
    others = sorted(of for of, name in agents if name == f"vc-agent:{of}" and of != agent)
    if others:
        problem = (
            f"is {tenancy}, but agent {', '.join(others)} of this host joined with {recorded} "
            f"(annotation {TENANCY_ANNOTATION} of ClusterRole {NAMESPACE_ADMIN}), and a host has "
            f"one profile; set tenancy: {recorded}, or remove that agent first (leave --purge)"
        )
        raise ConfigError("settings", "tenancy", problem)


async def grant_on_host(
    host: ApiClient, rights: HostRights, served: ServedApis, changes: Changes
) -> None:
    """Grant an agent its rights, and remove those that an earlier `join` granted beside them.

    Order: roles, which grant nothing alone; policies; bindings: so the agent's account is never
    stronger than its policies allow. Raises KubeError, CommandError.
    """
    agent = rights.install.agent
    await apply_all(
        host, [*rights.definitions, *agent_objects.base_objects(rights.install)], changes
    )
    roles, theirs = await _roles(host, rights)
    ours = [role for role in roles if role["metadata"]["name"] not in theirs]
    await apply_all(host, ours, changes)
    await _allow_adoption(host, rights.adoptions, changes)
    for policy in rights.policies:
        await _put_policy(host, served, policy, changes)
    bindings = host_bindings(rights.access)
    await apply_all(host, bindings, changes)
    if rights.access.gateway_callers is None:
        await remove_gateway(host, agent, rights.install.namespace, changes)
    await prune(host, agent, (*roles, *bindings), changes)
    await remove_policies(host, served, agent, changes, rights.policies)


async def _roles(host: ApiClient, rights: HostRights) -> tuple[list[Object], set[str]]:
    """Return the roles, and the names of those of tenants that another owner made."""
    granted = dict(rights.access.granted)
    most = granted[NAMESPACE_ADMIN]
    kept = set()
    for built_in, name in TENANT_ROLES.items():
        live = await host.find(f"{CLUSTER_ROLES_PATH}/{name}")
        if live is not None and not labels_of(live).items() >= MANAGED.items():
            kept.add(name)
        if name != NAMESPACE_ADMIN and not rights.access.is_confined:
            of_the_host = await host.find(f"{CLUSTER_ROLES_PATH}/{built_in}") or {}
            granted[name] = cut(maps_at(of_the_host, "rules"), most)
    return host_roles(replace(rights.access, granted=granted)), kept


async def _allow_adoption(host: ApiClient, adoptions: Mapping[str, str], changes: Changes) -> None:
    for name, cluster in adoptions.items():
        path = f"/api/v1/namespaces/{name}"
        live = await host.find(path)
        if live is None or annotations_of(live).get(ALLOW_ADOPTION_ANNOTATION) == cluster:
            continue
        mark = {"metadata": {"annotations": {ALLOW_ADOPTION_ANNOTATION: cluster}}}
        changes.report(f"host: let {cluster} adopt Namespace {name}")
        if not changes.is_dry:
            await host.merge_patch(path, mark)


async def _put_policy(
    host: ApiClient, served: ServedApis, desired: Object, changes: Changes
) -> None:
    """Make the spec of a policy exactly the desired one. Raises KubeError, CommandError."""
    resource = admission.resource_of(served, desired)
    path = resource.path(name=desired["metadata"]["name"])

    async def put() -> None:
        live = await host.find(path)
        if live is None:
            changes.report(f"host: create {key_of(desired)}")
            await host.create(resource.path(), desired, query=_DRY if changes.is_dry else None)
            return
        if labels_of(live).get(AGENT_LABEL) != labels_of(desired)[AGENT_LABEL]:
            theirs = f"host: {key_of(desired)} was not created by this agent's join"
            raise CommandError(f"{theirs}; delete it first")
        # What others, as Helm, note of it stays.
        metadata = {**live["metadata"], "labels": {**labels_of(live), **labels_of(desired)}}
        if annotations := annotations_of(desired):
            metadata["annotations"] = {**annotations_of(live), **annotations}
        body = {**desired, "metadata": metadata}
        details = differences(live, await host.replace(path, body, query=_DRY))
        if not details:
            return
        changes.report(f"host: change {key_of(desired)}", details)
        if not changes.is_dry:
            await host.replace(path, body)

    await retry_on(MET_ANOTHER, _ATTEMPTS, put)
