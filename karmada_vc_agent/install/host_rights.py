"""The agent's rights and admission policies on the host: built and applied.

Order: roles, which grant nothing alone; policies; role bindings. So the agent's account is never
stronger than its policies allow. Every step can be repeated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from karmada_vc_agent.access.agent_objects import HostInstall, base_objects
from karmada_vc_agent.access.host_roles import MANAGED, HostAccess, Kind, host_bindings, host_roles
from karmada_vc_agent.access.installed_policies import (
    resource_of,
    served_versions,
    wanted_policies,
)
from karmada_vc_agent.access.known_kinds import NAMESPACED
from karmada_vc_agent.access.policy_owner import (
    ANY_CLUSTER,
    SCHEDULER,
    VALIDATING,
    PolicyOwner,
    group_labels,
    networks_of_pods,
    owner_of,
    renames_of,
)
from karmada_vc_agent.access.tenant_guards import allowances, cluster_of, holds
from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.config.profile_defaults import default_account
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.install.apply_objects import apply_all, find
from karmada_vc_agent.install.changes import Changes, differences
from karmada_vc_agent.install.join_preflight import definitions
from karmada_vc_agent.install.removals import prune, remove_gateway, remove_policies
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from karmada_vc_agent.kube.retries import retry_on
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import AGENT_LABEL, ALLOW_ADOPTION_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of, key_of, labels_of, maps_at
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN, TENANT_ROLES, gateway_account
from karmada_vc_agent.model.service_accounts import user_of
from karmada_vc_agent.model.tenancy import SHARED, STRICT
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.well_known import RBAC_API
from karmada_vc_agent.runner.feature import Described
from karmada_vc_agent.translation.identities import admin_groups
from karmada_vc_agent.translation.kind_policy import (
    CLUSTER_SCOPED,
    Policy,
    configured_kinds,
    policy_for,
)
from karmada_vc_agent.translation.rbac_rules import admin_rules, agent_rules, cut
from karmada_vc_agent.translation.tenant_metadata import tenants_patterns

_POLICIES_PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_ATTEMPTS = 3
_NOTHING = Described()
_MET_ANOTHER = (AlreadyExistsError, ConflictError, NotFoundError)
_WRITTEN = (Policy.SHARE, Policy.RENAME)
_GRANTED_APART = frozenset({kinds.CLUSTER_ROLE})
"""Kinds whose rights depend on more than whether Works may contain them."""


@dataclass(frozen=True, slots=True)
class Approvals:
    """What the administrator decides at `join`, beside the settings.

    schedulers: users who may bind pods; empty = keep those of the last join. api_groups: see
    HostAccess.
    """

    schedulers: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostRights:
    """What is to exist on the host. versions: the served version of each policy kind."""

    install: HostInstall
    access: HostAccess
    owner: PolicyOwner
    versions: Mapping[str, str]
    with_policies: bool
    adoptions: Mapping[str, str]
    definitions: tuple[Object, ...] = ()

    def policies(self) -> list[Object]:
        """Return the policies to install: none if the host or the settings rule them out."""
        return wanted_policies(self.owner, self.versions) if self.with_policies else []


def host_rights(
    install: HostInstall,
    config: AgentConfig,
    clusters: Sequence[str],
    served: ServedApis | None,
    approvals: Approvals,
    known: PolicyOwner | None = None,
    described: Described = _NOTHING,
) -> HostRights:
    """Return what an agent needs on the host.

    served: what the host serves; None = unknown, assume a current Kubernetes. config: the agent's
    settings, or the defaults if unknown. known: the values that the installed policies protect;
    protected values are only ever added. described: what the host describes beside the settings.
    """
    versions = {VALIDATING: "v1"} if served is None else served_versions(served)
    with_policies = config.install_policies and VALIDATING in versions
    owner = _owner(install, config, clusters, approvals, known, described)
    by_name = _by_name(install, config, owner.clusters, described)
    accounts = [(vc.apply_as.namespace, vc.apply_as.name) for vc in by_name if vc.apply_as]
    install = replace(install, accounts=tuple(dict.fromkeys((*install.accounts, *accounts))))
    everybody = structs.replace(config, virtual_clusters=(*config.virtual_clusters, *by_name))
    access = _access(install, everybody, served, approvals, is_confined=with_policies)
    if config.gateway.enabled:
        callers = tuple(group for name in owner.clusters for group in admin_groups(name))
        access = replace(access, gateway_callers=callers)
        install = replace(install, gateway_port=config.gateway.port)
    return HostRights(
        install=install,
        access=access,
        owner=_with_exceptions(owner, config, described, by_name),
        versions=versions,
        with_policies=with_policies,
        adoptions={name: vc.name for vc in config.virtual_clusters for name in vc.adopt_namespaces},
        definitions=definitions(config),
    )


async def read_host(host: ApiClient, agent: str) -> tuple[ServedApis, PolicyOwner | None]:
    """Return what the host serves, and what the installed policies protect. Raises KubeError."""
    served = await Discovery(host).refresh()
    name = PolicyOwner(agent, "", "").confines_policy
    if VALIDATING not in served_versions(served):
        return served, None
    return served, owner_of(await find(host, f"{_POLICIES_PATH}/{name}") or {})


async def grant_on_host(
    host: ApiClient, rights: HostRights, served: ServedApis, changes: Changes | None = None
) -> None:
    """Grant an agent its rights, and remove those that an earlier `join` granted beside them.

    Raises KubeError, CommandError.
    """
    told = changes or Changes()
    await apply_all(host, [*rights.definitions, *base_objects(rights.install)], told)
    roles, theirs = await _roles(host, rights)
    bindings = host_bindings(rights.access)
    ours = [role for role in roles if role["metadata"]["name"] not in theirs]
    await apply_all(host, ours, told)
    await _allow_adoption(host, rights.adoptions, told)
    for policy in rights.policies():
        await _install(host, served, policy, told)
    if not (rights.with_policies or told.is_dry) and VALIDATING in rights.versions:
        for removed in await remove_policies(host, served, rights.install.agent):
            told.tell(f"host: remove {removed}")
    await apply_all(host, bindings, told)
    if rights.access.gateway_callers is None:
        install = rights.install
        await remove_gateway(host, install.agent, install.namespace, told)
        if not told.is_dry:
            await remove_policies(host, served, install.agent, rights.owner.gateway_policy)
    await prune(host, rights.install.agent, (*roles, *bindings), told)


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
        changes.tell(f"host: let {cluster} adopt Namespace {name}")
        if not changes.is_dry:
            await host.merge_patch(path, mark)


async def _install(host: ApiClient, served: ServedApis, wanted: Object, changes: Changes) -> None:
    """Create or replace one policy or binding so that its spec is exactly the wanted one."""
    resource = resource_of(served, wanted)
    path = resource.path(name=wanted["metadata"]["name"])

    async def put() -> None:
        live = await find(host, path)
        if live is None:
            changes.tell(f"host: create {key_of(wanted)}")
            if not changes.is_dry:
                await host.create(resource.path(), wanted)
            return
        if not _is_ours(live, wanted):
            theirs = f"host: {key_of(wanted)} was not created by this agent's join"
            raise CommandError(f"{theirs}; delete it first")
        version = live["metadata"]["resourceVersion"]
        labels = {**labels_of(live), **labels_of(wanted)}
        metadata = {**wanted["metadata"], "labels": labels, "resourceVersion": version}
        body = {**wanted, "metadata": metadata}
        details = differences(live, await host.replace(path, body, query={"dryRun": "All"}))
        if not details:
            return
        changes.tell(f"host: change {key_of(wanted)}", details)
        if not changes.is_dry:
            await host.replace(path, body)

    await retry_on(_MET_ANOTHER, _ATTEMPTS, put)


def _is_ours(live: Object, wanted: Object) -> bool:
    return labels_of(live).get(AGENT_LABEL) == labels_of(wanted)[AGENT_LABEL]


def _access(
    install: HostInstall,
    config: AgentConfig,
    served: ServedApis | None,
    approvals: Approvals,
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
        api_groups=approvals.api_groups,
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
    known = (
        (kind.group, kinds.plural(kind))
        for kind, policy in CLUSTER_SCOPED.items()
        if policy in _WRITTEN and kind not in _GRANTED_APART
    )
    found = dict.fromkeys(sorted(known))
    for gvk, resource in (served.by_kind if served else {}).items():
        if resource.namespaced or gvk.group_kind in _GRANTED_APART:
            continue
        if policy_for(gvk, namespaced=False, configured=configured) in _WRITTEN:
            found[gvk.group, resource.plural] = None
    return tuple(found)


def _owner(
    install: HostInstall,
    config: AgentConfig,
    clusters: Sequence[str],
    approvals: Approvals,
    known: PolicyOwner | None,
    described: Described,
) -> PolicyOwner:
    served = {*clusters, *_also(config)}
    found = (
        vc for vc in described.virtual_clusters if vc.name in served or config.objects.any_name
    )
    owner = PolicyOwner(
        agent=install.agent,
        namespace=install.namespace,
        user=user_of(install.namespace, install.agent),
        clusters=tuple(sorted(served)),
        group_labels=_group_labels(config, described.group_labels),
        schedulers=approvals.schedulers or (SCHEDULER,),
        elsewhere=_elsewhere(install, config),
        renames=tuple(
            sorted({one for vc in (*config.virtual_clusters, *found) for one in renames_of(vc)})
        ),
        gateway=_gateway_user(install) if config.gateway.enabled else "",
        template=config.namespace_template,
        domain=config.cluster_domain,
        tenants_keys=tenants_patterns(config.tenancy, config.namespace_keys),
        pod_cidrs=networks_of_pods(config.tenancy, config.pod_cidrs),
    )
    if known is None:
        return owner
    dropped = set() if config.objects.any_name else {ANY_CLUSTER}
    return replace(
        owner,
        clusters=tuple(sorted({*known.clusters, *owner.clusters} - dropped)),
        group_labels=tuple(sorted({*known.group_labels, *owner.group_labels})),
        schedulers=approvals.schedulers or known.schedulers,
        held=known.held,
        allowed=known.allowed,
    )


def _gateway_user(install: HostInstall) -> str:
    return user_of(install.namespace, gateway_account(install.agent))


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

    One of which only the name is known is held to all of it.
    """
    found = (
        vc
        for vc in described.virtual_clusters
        if vc.name in owner.clusters or ANY_CLUSTER in owner.clusters
    )
    decided = {vc.name: vc for vc in (*config.virtual_clusters, *found, *by_name)}

    def decide(
        known: Iterable[str], rule: Callable[[VirtualCluster, str], set[str]]
    ) -> tuple[str, ...]:
        kept = {one for one in known if cluster_of(one) not in decided}
        new = {one for vc in decided.values() for one in rule(vc, config.tenancy)}
        return tuple(sorted(kept | new))

    held, allowed = decide(owner.held, holds), decide(owner.allowed, allowances)
    return replace(owner, held=held, allowed=allowed)


def _also(config: AgentConfig) -> Iterator[str]:
    """Yield names whose claims and marks are the agent's beside those of its virtual clusters."""
    if config.objects.any_name:
        yield ANY_CLUSTER
    for vc in config.virtual_clusters:
        yield from vc.former_names


def _group_labels(config: AgentConfig, more: Iterable[str]) -> tuple[str, ...]:
    keys = {key for vc in config.virtual_clusters for key in group_labels(vc)} | set(more)
    if config.discover.node_label:
        keys.add(config.discover.node_label)
    return tuple(sorted(keys))


def _elsewhere(install: HostInstall, config: AgentConfig) -> tuple[str, ...]:
    rules = f"{config.dns_namespace}/configmaps/{install.agent}-service-names"
    if not config.karmada_kubeconfig_namespace:
        return (rules,)
    return (rules, f"{config.karmada_kubeconfig_namespace}/secrets/karmada-kubeconfig")
