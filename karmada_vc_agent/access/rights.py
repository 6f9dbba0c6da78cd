"""The roles and bindings of an agent, on the host and on the hub: the least."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from karmada_vc_agent.access.templates import Reasons, Values, document, granted
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import (
    CERT_ROTATION,
    ENDPOINT_SLICE_COLLECT,
    SERVICE_EXPORT,
    SHARED,
    Tenancy,
)

NAMESPACED = frozenset(
    (group, name)
    for group, resources in document("access/namespaced.yaml", {}).items()
    for plural, subresources in resources.items()
    for name in (plural, *(f"{plural}/{subresource}" for subresource in subresources))
)
"""(group, plural or plural/subresource) of all namespaced resources."""
Kind = tuple[str, str]
"""(group, plural)"""

HUB_SECRET = "karmada-kubeconfig"  # noqa: S105 - a name
"""Secret with the kubeconfig of the hub, under a key of the same name, as karmada-agent has it."""
MANAGED = {"app.kubernetes.io/managed-by": "karmada-vc-agent"}
_UNREAD = (
    ("", "secrets"),  # of claimed namespaces only
    ("", "bindings"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
)


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The input of the agent's roles on the host.

    ceiling: what the agent may write in claimed namespaces. granted: the rules of TENANT_ROLES, by
    name; the agent writes them itself if it is confined (policy agent-confines). namespaced:
    without subresources. shared: cluster-scoped kinds to write. api_groups: approved ones, whose
    kinds may be used before they are served. tenancy: with SHARED it may use kinds added later,
    within `virtual-cluster-admin`. bound_roles: that it binds beside those of Kubernetes. acts_as:
    (namespace, name) of the accounts of `applyAs`. dns_namespace: of CoreDNS. of_features: files of
    the package. gateway_callers: groups with all rights in a virtual cluster; None = no gateway.
    """

    agent: str
    namespace: str
    ceiling: tuple[Object, ...]
    granted: Mapping[str, tuple[Object, ...]] = field(default_factory=dict)
    namespaced: tuple[Kind, ...] = tuple(sorted(k for k in NAMESPACED if "/" not in k[1]))
    shared: tuple[Kind, ...] = ()
    api_groups: tuple[str, ...] = ()
    is_confined: bool = True
    tenancy: Tenancy = SHARED
    bound_roles: tuple[str, ...] = ()
    acts_as: tuple[tuple[str, str], ...] = ()
    dns_namespace: str = ""
    kubeconfig_namespace: str = ""
    of_features: tuple[str, ...] = ()
    gateway_callers: tuple[str, ...] | None = None


def host_roles(access: HostAccess) -> list[Object]:
    """Return all roles; they grant nothing until bound. Why: docs/adr/0024; a new right: 0071.

    vc-agent:<agent>             everywhere: read, but no Secrets; claims; cluster-scoped kinds
    vc-agent:<agent>:namespace   bound by the agent in each namespace that it claims, nowhere else
    vc-agent:<agent>:account     bound there to the account of a virtual cluster (Strict)
    vc-agent:<agent>:gateway*    of its gateway, while that is on
    virtual-cluster-admin, vc-*  what a virtual cluster may grant its own users
    virtual-cluster-reader       what callers of the gateway read of kinds without a namespace
    """
    return [obj for obj in granted(_host_files(access))[0] if obj["kind"].endswith("Role")]


def host_bindings(access: HostAccess) -> list[Object]:
    """Return the bindings of the agent's roles; apply the policies before them."""
    return [obj for obj in granted(_host_files(access))[0] if obj["kind"].endswith("Binding")]


def host_reasons(access: HostAccess) -> Reasons:
    """Return the reason of each rule: role -> reasons, in the order of the rules."""
    return granted(_host_files(access))[1]


def _host_files(access: HostAccess) -> Iterator[tuple[str, Values]]:
    values = _host_values(access)
    has_gateway = access.gateway_callers is not None
    names = {
        "agent": True,
        "confined": access.is_confined,
        "unconfined": not access.is_confined,
        "account": vocabulary.account_role(access.agent) in access.bound_roles,
        "gateway": has_gateway,
        "gateway-confined": has_gateway and access.is_confined,
    }
    core = (f"access/roles/{name}.yaml" for name, is_needed in names.items() if is_needed)
    yield from ((path, values) for path in (*core, *access.of_features))
    for namespace, name in access.acts_as:
        account = {"account_namespace": namespace, "account": name}
        yield "access/roles/apply-as.yaml", {**values, **account}


def _host_values(access: HostAccess) -> Values:
    granted = {
        name.replace("-", "_"): access.granted.get(name, ())
        for name in vocabulary.TENANT_ROLES.values()
    }
    return {
        "agent": access.agent,
        "api_groups": access.api_groups or None,
        "bindable_roles": tuple(_bindable(access)),
        "callers": [{"name": name} for name in access.gateway_callers or ()],
        "ceiling": access.ceiling,
        "checkpoint_secrets": vocabulary.secret_names(access.agent),
        "dns_namespace": access.dns_namespace,
        "kubeconfig_namespace": access.kubeconfig_namespace or access.namespace,
        "readable_kinds": _by_group(kind for kind in access.namespaced if kind not in _UNREAD),
        "namespace": access.namespace,
        "shared_kinds": _by_group(access.shared),
        "tenancy": access.tenancy,
        **{f"granted_{name}": rules for name, rules in granted.items()},
    }


def _bindable(access: HostAccess) -> Iterable[str]:
    tenants = (
        name for name in vocabulary.TENANT_ROLES.values() if name != vocabulary.NAMESPACE_ADMIN
    )
    bound = [vocabulary.namespace_role(access.agent), *tenants, *access.bound_roles]
    if access.tenancy == SHARED:
        bound.append(vocabulary.NAMESPACE_ADMIN)
    if access.gateway_callers is not None:
        bound += (
            vocabulary.NAMESPACE_ADMIN,
            vocabulary.CLUSTER_READER,
            vocabulary.gateway_accounts_role(access.agent),
        )
    return dict.fromkeys(bound)


def _by_group(kinds: Iterable[Kind]) -> list[Object]:
    groups: dict[str, set[str]] = defaultdict(set)
    for group, plural in kinds:
        groups[group].add(plural)
    return [
        {"group": group, "plurals": sorted(plurals)} for group, plurals in sorted(groups.items())
    ]


_INTERPRETER = "interpreter"
OPTIONAL_CONTROLLERS = tuple(
    sorted((_INTERPRETER, CERT_ROTATION, SERVICE_EXPORT, ENDPOINT_SLICE_COLLECT))
)
"""Controllers that need additional rights on the hub."""
GATEWAY = "gateway"
"""Rights on the hub that are granted with `gateway`."""
_NAMED_OTHERWISE = frozenset(("namespaces", "secrets", "clusterroles"))
"""Resources whose names in rules are those of no virtual cluster."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """The input of the agent's roles on the hub.

    controllers: the enabled ones of OPTIONAL_CONTROLLERS. host_id: marks the roles as those of an
    agent on this host; empty = unknown. objects: whether it removes Clusters no longer desired.
    any_name: whether virtual clusters may have any name; RBAC has no prefixes of names, so it has
    its rights over all Clusters and Works then. gateway: whether it publishes endpoints and tokens.
    of_features: files with what features need, by the controller that has it, or GATEWAY.
    """

    agent: str
    clusters: tuple[str, ...]
    controllers: tuple[str, ...] = OPTIONAL_CONTROLLERS
    works_cluster_wide: bool = False
    host_id: str = ""
    objects: bool = False
    any_name: bool = False
    gateway: bool = False
    of_features: Mapping[str, str] = field(default_factory=dict)

    @property
    def user(self) -> str:
        """The agent's user name on the hub, the common name of its certificate."""
        return vocabulary.USER_PREFIX + self.agent

    @property
    def role(self) -> str:
        """Name of the ClusterRole, and of the Role for Leases."""
        return f"vc-agent:{self.agent}"

    @property
    def auth_role(self) -> str:
        """Name of the ClusterRole that has Karmada send its rules for impersonation."""
        return f"{self.role}:unified-auth"


def hub_objects(access: HubAccess) -> list[Object]:
    """Return all objects for the hub in the order to apply them (contract 1.6, 1.9 b)."""
    made, _ = granted(_hub_files(access))
    if access.host_id:
        for obj in made:
            if obj["apiVersion"] == vocabulary.RBAC_API:
                obj["metadata"]["annotations"] = {vocabulary.HOST_ANNOTATION: access.host_id}
    return made


def hub_reasons(access: HubAccess) -> Reasons:
    """Return the reason of each rule: role -> reasons, in the order of the rules."""
    return granted(_hub_files(access))[1]


def named_clusters(role: Object) -> list[str]:
    """Return the virtual clusters that a ClusterRole created by `join` names."""
    rules = (
        rule
        for rule in role.get("rules") or ()
        if _NAMED_OTHERWISE.isdisjoint(rule.get("resources") or ())
    )
    return list(dict.fromkeys(name for rule in rules for name in rule.get("resourceNames") or ()))


def _hub_files(access: HubAccess) -> Iterator[tuple[str, Values]]:
    """Yield the files with their values; a rule that would name no virtual cluster is left out."""
    secrets = (name + suffix for name in access.clusters for suffix in ("", "-impersonator"))
    values = {
        "agent": access.agent,
        "clusters": () if access.any_name else access.clusters or None,
        "listed_clusters": access.clusters or None,
        "token_secrets": () if access.any_name else tuple(secrets) or None,
    }
    yield from ((path, values) for path in dict.fromkeys(_roles(access)))
    for cluster in access.clusters:
        namespace = {"execution_namespace": vocabulary.execution_namespace(cluster)}
        yield "access/roles/hub-cluster.yaml", values | namespace


def _roles(access: HubAccess) -> Iterator[str]:
    core = "access/roles/hub"
    by_controller = {_INTERPRETER: f"{core}-interpreter.yaml", **access.of_features}
    yield f"{core}.yaml"
    yield from (file for name, file in by_controller.items() if name in access.controllers)
    if access.works_cluster_wide:
        yield f"{core}-all-works.yaml"
    if access.objects:
        yield f"{core}-objects.yaml"
    if access.gateway and GATEWAY in access.of_features:
        yield access.of_features[GATEWAY]
    if access.any_name:
        yield f"{core}-any-name.yaml"
