"""The rights of an agent on the host and the admission policies beside them: made and applied.

Roles first, which give nothing; then the policies; then what binds the roles: the agent's account
is never stronger than the policies let it be. Every step can be done again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from karmada_vc_agent.access.agent_objects import HostInstall, base_objects
from karmada_vc_agent.access.host_roles import HostAccess, Kind, host_bindings, host_roles
from karmada_vc_agent.access.known_kinds import NAMESPACED
from karmada_vc_agent.commands.apply_objects import apply_all, find
from karmada_vc_agent.commands.join_preflight import PreflightError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import AGENT_LABEL, ALLOW_ADOPTION_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of, key_of, labels_of
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN
from karmada_vc_agent.model.tenancy import SHARED, STRICT
from karmada_vc_agent.model.virtual_cluster import SERVICE_NAMES_NONE
from karmada_vc_agent.model.well_known import RBAC_API
from karmada_vc_agent.translation.admission_guards import group_labels
from karmada_vc_agent.translation.admission_objects import (
    SCHEDULER,
    VALIDATING,
    PolicyOwner,
    owner_of,
)
from karmada_vc_agent.translation.admission_strict import allowances, cluster_of, holds
from karmada_vc_agent.translation.kind_policy import (
    CLUSTER_SCOPED,
    Policy,
    configured_kinds,
    policy_for,
)
from karmada_vc_agent.translation.rbac_rules import admin_rules, agent_rules
from karmada_vc_agent.views.installed_policies import (
    remove_policies,
    resource_of,
    served_versions,
    wanted_policies,
)

_POLICIES_PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_ATTEMPTS = 3
_WRITTEN = (Policy.SHARE, Policy.RENAME)
_GRANTED_APART = frozenset({kinds.CLUSTER_ROLE})
"""Kinds whose rights rest on more than that Works bring them."""


@dataclass(frozen=True, slots=True)
class Approvals:
    """What the administrator decided at `join`, beside the settings.

    schedulers: who may bind pods; empty = as before. api_groups: see HostAccess.
    """

    schedulers: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostRights:
    """What is to be on the host. versions: of the kinds of policies that it serves."""

    install: HostInstall
    access: HostAccess
    owner: PolicyOwner
    versions: Mapping[str, str]
    with_policies: bool
    adoptions: Mapping[str, str]

    def policies(self) -> list[Object]:
        """Return the policies to install, none where the host or the settings do not want them."""
        return wanted_policies(self.owner, self.versions) if self.with_policies else []


def host_rights(
    install: HostInstall,
    config: AgentConfig,
    clusters: Sequence[str],
    served: ServedApis | None,
    approvals: Approvals,
    known: PolicyOwner | None = None,
) -> HostRights:
    """Return what an agent needs. served: by the host; None = it is not asked, and is a new one.

    config: its settings, or the defaults where they are not known. known: for what its policies
    were made last; what they protect is only added to.
    """
    versions = {VALIDATING: "v1"} if served is None else served_versions(served)
    with_policies = config.install_policies and VALIDATING in versions
    return HostRights(
        install=install,
        access=_access(install, config, served, approvals, is_confined=with_policies),
        owner=_owner(install, config, clusters, approvals, known),
        versions=versions,
        with_policies=with_policies,
        adoptions={name: vc.name for vc in config.virtual_clusters for name in vc.adopt_namespaces},
    )


async def look_at_host(host: ApiClient, agent: str) -> tuple[ServedApis, PolicyOwner | None]:
    """Return what the host serves, and for what policies were installed. Raises KubeError."""
    served = await Discovery(host).refresh()
    name = PolicyOwner(agent, "", "").confines_policy
    if VALIDATING not in served_versions(served):
        return served, None
    return served, owner_of(await find(host, f"{_POLICIES_PATH}/{name}") or {})


async def grant_on_host(host: ApiClient, rights: HostRights, served: ServedApis) -> list[str]:
    """Give an agent its rights; return what changed. Raises KubeError, PreflightError."""
    changes = await apply_all(host, base_objects(rights.install))
    changes += await apply_all(host, await _roles(host, rights))
    changes += await _allow_adoption(host, rights.adoptions)
    for policy in rights.policies():
        changes += await _install(host, served, policy)
    if not rights.with_policies and VALIDATING in rights.versions:
        removed = await remove_policies(host, served, rights.install.agent)
        changes += [f"host: removed {policy}" for policy in removed]
    return changes + await apply_all(host, host_bindings(rights.access))


async def _roles(host: ApiClient, rights: HostRights) -> list[Object]:
    """Return the roles to write: a `virtual-cluster-admin` of somebody else is left alone."""
    roles = host_roles(rights.access)
    live = await find(host, f"/apis/{RBAC_API}/clusterroles/{NAMESPACE_ADMIN}")
    return [
        role
        for role in roles
        if role["metadata"]["name"] != NAMESPACE_ADMIN
        or live is None
        or labels_of(role).items() <= labels_of(live).items()
    ]


async def _allow_adoption(host: ApiClient, adoptions: Mapping[str, str]) -> list[str]:
    """Mark the existing namespaces that the settings let a virtual cluster take over."""
    changes = []
    for name, cluster in adoptions.items():
        path = f"/api/v1/namespaces/{name}"
        live = await find(host, path)
        if live is None or annotations_of(live).get(ALLOW_ADOPTION_ANNOTATION) == cluster:
            continue
        mark = {"metadata": {"annotations": {ALLOW_ADOPTION_ANNOTATION: cluster}}}
        await host.merge_patch(path, mark)
        changes.append(f"host: Namespace {name} may be adopted by {cluster}")
    return changes


async def _install(host: ApiClient, served: ServedApis, wanted: Object) -> list[str]:
    """Make one policy or binding be there as wanted, and nothing beside it in its spec."""
    resource = resource_of(served, wanted)
    path = resource.path(name=wanted["metadata"]["name"])
    for _ in range(_ATTEMPTS):
        live = await find(host, path)
        try:
            if live is None:
                await host.create(resource.path(), wanted)
                return [f"host: created {key_of(wanted)}"]
            if not _is_ours(live, wanted):
                raise PreflightError(
                    [f"host: {key_of(wanted)} was not made by this agent's join; remove it first"]
                )
            version = live["metadata"]["resourceVersion"]
            labels = {**labels_of(live), **labels_of(wanted)}
            metadata = {**wanted["metadata"], "labels": labels, "resourceVersion": version}
            answer = await host.replace(path, {**wanted, "metadata": metadata})
        except (AlreadyExistsError, ConflictError, NotFoundError) as error:
            met = error
            continue
        changed = answer["metadata"]["resourceVersion"] != version
        return [f"host: changed {key_of(wanted)}"] if changed else []
    raise met


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
    names_services = any(vc.service_names != SERVICE_NAMES_NONE for vc in vcs)
    return HostAccess(
        agent=install.agent,
        namespace=install.namespace,
        ceiling=agent_rules(namespaced),
        granted=admin_rules(namespaced, is_strict=config.tenancy == STRICT),
        namespaced=tuple(sorted(kind for kind in namespaced if "/" not in kind[1])),
        shared=_shared(config, served),
        api_groups=approvals.api_groups,
        is_confined=is_confined,
        follows_kinds=config.tenancy == SHARED,
        bound_roles=tuple(each.cluster_role for each in applies if each.cluster_role),
        acts_as=tuple((each.namespace, each.name) for each in applies),
        dns_namespace=config.dns_namespace if names_services else "",
        kubeconfig_namespace=config.karmada_kubeconfig_namespace,
    )


def _shared(config: AgentConfig, served: ServedApis | None) -> tuple[Kind, ...]:
    """Return the cluster-scoped kinds that Works may bring, but for ClusterRoles."""
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
) -> PolicyOwner:
    owner = PolicyOwner(
        agent=install.agent,
        namespace=install.namespace,
        user=f"system:serviceaccount:{install.namespace}:{install.agent}",
        clusters=tuple(sorted(clusters)),
        group_labels=tuple(
            sorted({key for vc in config.virtual_clusters for key in group_labels(vc)})
        ),
        schedulers=approvals.schedulers or (SCHEDULER,),
        elsewhere=_elsewhere(install, config),
        held=tuple(
            sorted({held for vc in config.virtual_clusters for held in holds(vc, config.tenancy)})
        ),
        allowed=tuple(
            sorted(
                {one for vc in config.virtual_clusters for one in allowances(vc, config.tenancy)}
            )
        ),
    )
    if known is None:
        return owner
    decided = {vc.name for vc in config.virtual_clusters}
    held, allowed = (
        {one for one in entries if cluster_of(one) not in decided}
        for entries in (known.held, known.allowed)
    )
    return replace(
        owner,
        clusters=tuple(sorted({*known.clusters, *owner.clusters})),
        group_labels=tuple(sorted({*known.group_labels, *owner.group_labels})),
        schedulers=approvals.schedulers or known.schedulers,
        held=tuple(sorted({*held, *owner.held})),
        allowed=tuple(sorted({*allowed, *owner.allowed})),
    )


def _elsewhere(install: HostInstall, config: AgentConfig) -> tuple[str, ...]:
    rules = f"{config.dns_namespace}/configmaps/{install.agent}-service-names"
    if not config.karmada_kubeconfig_namespace:
        return (rules,)
    return (rules, f"{config.karmada_kubeconfig_namespace}/secrets/karmada-kubeconfig")
