"""The agent's roles and bindings on the host: the least rights for its work."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from karmada_vc_agent.access.templates import Reasons, Values, document, granted
from karmada_vc_agent.model.domain import secret_names
from karmada_vc_agent.model.kinds import (
    CLUSTER_READER,
    NAMESPACE_ADMIN,
    TENANT_ROLES,
    account_role,
    gateway_accounts_role,
    namespace_role,
)
from karmada_vc_agent.model.objects import Object

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
    kinds may be used before they are served. follows_kinds: whether it may use kinds added later,
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
    follows_kinds: bool = True
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
    return [obj for obj in granted(_files(access))[0] if obj["kind"].endswith("Role")]


def host_bindings(access: HostAccess) -> list[Object]:
    """Return the bindings of the agent's roles; apply the policies before them."""
    return [obj for obj in granted(_files(access))[0] if obj["kind"].endswith("Binding")]


def host_reasons(access: HostAccess) -> Reasons:
    """Return the reason of each rule: role -> reasons, in the order of the rules."""
    return granted(_files(access))[1]


def _files(access: HostAccess) -> Iterator[tuple[str, Values]]:
    """Yield the files, each with its values."""
    values = _values(access)
    has_gateway = access.gateway_callers is not None
    names = {
        "agent": True,
        "confined": access.is_confined,
        "unconfined": not access.is_confined,
        "account": account_role(access.agent) in access.bound_roles,
        "gateway": has_gateway,
        "gateway-confined": has_gateway and access.is_confined,
    }
    yield from (
        (f"access/roles/{name}.yaml", values) for name, is_needed in names.items() if is_needed
    )
    yield from ((path, values) for path in access.of_features)
    for namespace, name in access.acts_as:
        yield (
            "access/roles/apply-as.yaml",
            {**values, "account_namespace": namespace, "account": name},
        )


def _values(access: HostAccess) -> Values:
    readable = [kind for kind in access.namespaced if kind not in _UNREAD]
    return {
        "agent": access.agent,
        "api_groups": access.api_groups or None,
        "bindable_roles": tuple(_bindable(access)),
        "callers": [{"name": name} for name in access.gateway_callers or ()],
        "ceiling": access.ceiling,
        "checkpoint_secrets": secret_names(access.agent),
        "dns_namespace": access.dns_namespace,
        "kubeconfig_namespace": access.kubeconfig_namespace or access.namespace,
        "readable_kinds": _by_group(readable),
        "namespace": access.namespace,
        "shared_kinds": _by_group(access.shared),
        **{
            f"granted_{name.replace('-', '_')}": access.granted.get(name, ())
            for name in TENANT_ROLES.values()
        },
    }


def _bindable(access: HostAccess) -> Iterable[str]:
    """Return the ClusterRoles that the agent binds, each once."""
    tenants = (name for name in TENANT_ROLES.values() if name != NAMESPACE_ADMIN)
    bound = [namespace_role(access.agent), *tenants, *access.bound_roles]
    if access.follows_kinds:
        bound.append(NAMESPACE_ADMIN)
    if access.gateway_callers is not None:
        bound += (NAMESPACE_ADMIN, CLUSTER_READER, gateway_accounts_role(access.agent))
    return dict.fromkeys(bound)


def _by_group(kinds: Iterable[Kind]) -> list[Object]:
    """Return the kinds of each API group: group, plurals."""
    groups: dict[str, set[str]] = defaultdict(set)
    for group, plural in kinds:
        groups[group].add(plural)
    return [
        {"group": group, "plurals": sorted(plurals)} for group, plurals in sorted(groups.items())
    ]
