"""The rights, admission policies and accounts that an agent needs on the host."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from karmada_vc_agent.access.admission import desired_policies, served_versions
from karmada_vc_agent.access.agent_objects import HostInstall
from karmada_vc_agent.access.host_roles import NAMESPACED, HostAccess, Kind
from karmada_vc_agent.access.policy_owner import (
    ANY_CLUSTER,
    SCHEDULER,
    VALIDATING,
    PolicyOwner,
    allowances,
    cluster_of,
    group_labels,
    held_by,
    networks_of_pods,
    renames_of,
)
from karmada_vc_agent.config.loading import default_account
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.kinds import NAMESPACE_ADMIN, gateway_account, service_account_user
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT, VirtualCluster
from karmada_vc_agent.runner.parts import Described
from karmada_vc_agent.translation.kind_policy import (
    CLUSTER_SCOPED,
    Policy,
    configured_kinds,
    policy_for,
)
from karmada_vc_agent.translation.own_steps import tenants_patterns
from karmada_vc_agent.translation.rbac import admin_groups
from karmada_vc_agent.translation.rbac_rules import admin_rules, agent_rules

NOT_DESCRIBED = Described()
_WRITTEN = (Policy.SHARE, Policy.RENAME)
_GRANTED_APART = frozenset({kinds.CLUSTER_ROLE})
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
        (kind.group, kinds.plural(kind))
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
