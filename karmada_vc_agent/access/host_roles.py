"""The agent's roles and bindings on the host: the least rights that its work needs.

    vc-agent:<agent>             everywhere: read, but no Secrets; claims; cluster-scoped kinds
    vc-agent:<agent>:namespace   bound by the agent in each namespace that it claims, nowhere else
    vc-agent:<agent>:account     bound there to the account of a virtual cluster (Strict)
    virtual-cluster-admin, vc-*  what a virtual cluster may grant its own users

RBAC cannot select objects by owner. Where a rule has to grant more than the work needs, its
reason says so, and the policy agent-confines forbids the rest. Why: docs/adr/0024.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from karmada_vc_agent.access.hub_objects import Reasons
from karmada_vc_agent.access.known_kinds import NAMESPACED
from karmada_vc_agent.features.checkpoint.shards import secret_names
from karmada_vc_agent.features.gateway.roles import (
    GatewayAccess,
    gateway_bindings,
    gateway_reasons,
    gateway_roles,
)
from karmada_vc_agent.features.gateway.secret import secret_name
from karmada_vc_agent.model.domain import AGENT_LABEL, DOMAIN
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.rbac_rule import (
    CLUSTER_READER,
    NAMESPACE_ADMIN,
    TENANT_ROLES,
    Rule,
    account_role,
    gateway_accounts_role,
    namespace_role,
)
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP

Kind = tuple[str, str]
"""(group, plural)"""

HUB_SECRET = "karmada-kubeconfig"  # noqa: S105 - a name
"""Secret with the kubeconfig of the hub, under a key of the same name, as karmada-agent has it."""
_READ = ("get", "list", "watch")
_FOLLOW = ("list", "watch")
_WRITE = ("create", "update", "patch", "delete")
_ALL_VERBS = (*_READ, *_WRITE, "deletecollection")
_COPIES = tuple(name for name in TENANT_ROLES.values() if name != NAMESPACE_ADMIN)
_POLICIES = tuple(
    f"{kind}admissionpolic{end}"
    for kind in ("validating", "mutating")
    for end in ("ies", "ybindings")
)
_NOT_FOLLOWED = (
    ("", "secrets"),  # in claimed namespaces only
    ("", "bindings"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
)
_EVENTS = "default"
"""Namespace of events about objects that lie in none."""
_PROBES: Object = {"nonResourceURLs": ["/readyz", "/healthz", "/version"], "verbs": ["get"]}
MANAGED = {"app.kubernetes.io/managed-by": "karmada-vc-agent"}

_OF_OBJECTS = (
    (
        Rule((DOMAIN,), ("virtualclusters",), (*_READ, "patch")),
        (
            "serve VirtualCluster objects; hold those that are deleted (agent-confines: change "
            "nothing else)"
        ),
    ),
    (
        Rule((DOMAIN,), ("virtualclusters/status",), ("patch",)),
        "report the status of VirtualCluster objects",
    ),
    (
        Rule(("apiextensions.k8s.io",), ("customresourcedefinitions",), _FOLLOW),
        "notice when the host begins to serve VirtualCluster objects",
    ),
)

Reasoned = tuple[Object, str]
"""A rule, and its reason."""


@dataclass(frozen=True, slots=True)
class HostAccess:
    """The input of the agent's roles on the host.

    ceiling: what the agent may write in claimed namespaces.
    granted: the rules of TENANT_ROLES, by name; the agent writes them itself if it is confined.
    namespaced: (group, plural) of namespaced kinds, without subresources.
    shared: cluster-scoped kinds to write.
    api_groups: approved groups, whose kinds may be used before they are served.
    is_confined: whether policy agent-confines is installed; some rights need it.
    follows_kinds: whether the agent may use kinds added later, within `virtual-cluster-admin`.
    bound_roles: ClusterRoles that it binds in addition to those of Kubernetes.
    acts_as: (namespace, name) of the accounts of `applyAs`.
    dns_namespace: where it writes the rules for CoreDNS; empty = it writes none.
    objects: whether it serves VirtualCluster objects. finds: whether it makes virtual clusters of
    what it finds on the host. checkpoint: whether it keeps what the hub last said.
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
    objects: bool = False
    finds: bool = False
    checkpoint: bool = False
    gateway: GatewayAccess | None = None

    @property
    def role(self) -> str:
        """Name of the ClusterRole, and of the Roles in single namespaces."""
        return f"vc-agent:{self.agent}"


def host_roles(access: HostAccess) -> list[Object]:
    """Return all roles; they grant nothing until bound."""
    return [
        _role(access, "ClusterRole", access.role, everywhere(access)),
        _role(access, "ClusterRole", namespace_role(access.agent), in_claimed(access)),
        *(
            _role(access, "ClusterRole", name, rules)
            for name, rules in _of_accounts(access).items()
        ),
        *(_tenant_role(access, name) for name in TENANT_ROLES.values()),
        *(
            _role(access, "Role", access.role, rules, namespace)
            for namespace, rules in _local(access).items()
        ),
        *(gateway_roles(access.gateway) if access.gateway else ()),
    ]


def _tenant_role(access: HostAccess, name: str) -> Object:
    """Return a ClusterRole of tenants; its rules are the agent's to write, where it may."""
    role = {
        "apiVersion": RBAC_API,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": dict(MANAGED)},
    }
    return role if access.is_confined else role | {"rules": list(access.granted.get(name, ()))}


def host_bindings(access: HostAccess) -> list[Object]:
    """Return the bindings of the agent's roles; apply the policies before them."""
    return [
        _binding(access, "ClusterRoleBinding", "ClusterRole", ""),
        *(_binding(access, "RoleBinding", "Role", namespace) for namespace in _local(access)),
        *(gateway_bindings(access.gateway) if access.gateway else ()),
    ]


def host_reasons(access: HostAccess) -> Reasons:
    """Return the reason of each rule: role -> reasons, in the order of the rules."""
    reasons = {
        f"ClusterRole {access.role}": everywhere(access),
        f"ClusterRole {namespace_role(access.agent)}": in_claimed(access),
        **{f"ClusterRole {name}": rules for name, rules in _of_accounts(access).items()},
        **{f"Role {space}/{access.role}": rules for space, rules in _local(access).items()},
    }
    of_gateway = gateway_reasons(access.gateway) if access.gateway else {}
    return {role: [why for _, why in rules] for role, rules in reasons.items()} | of_gateway


def everywhere(access: HostAccess) -> list[Reasoned]:
    """Return the cluster-wide rules on the host."""
    bound = (namespace_role(access.agent), *_COPIES, *access.bound_roles)
    if access.follows_kinds:
        bound += (NAMESPACE_ADMIN,)
    if access.gateway:
        bound += (NAMESPACE_ADMIN, CLUSTER_READER, gateway_accounts_role(access.agent))
    readable = [kind for kind in access.namespaced if kind not in _NOT_FOLLOWED]
    rules: list[tuple[Rule, str]] = [
        (
            Rule(("",), ("namespaces",), (*_READ, *_WRITE)),
            "claim namespaces; agent-confines: only its own, or where adoption is allowed",
        ),
        (
            Rule(("",), ("nodes",), (*_READ, "patch")),
            "watch the groups; set one label (agent-confines: no other)",
        ),
        *(
            (Rule((group,), plurals, _FOLLOW), "one watch for all virtual clusters, by our label")
            for group, plurals in _by_group(readable)
        ),
        *(
            (
                Rule((group,), plurals, (*_READ, *_WRITE)),
                (
                    "cluster-scoped kinds that Works may contain; agent-confines: only with the "
                    "agent's labels"
                ),
            )
            for group, plurals in _by_group(access.shared)
        ),
        *(
            (Rule((group,), ("*",), _FOLLOW), "kinds of an approved group")
            for group in access.api_groups
        ),
        (
            Rule(("apps.kubeedge.io",), ("nodegroups",), _READ),
            "virtual clusters that refer to a NodeGroup, or are one",
        ),
        *(_OF_OBJECTS if access.objects else ()),
        (
            Rule((RBAC_GROUP,), ("rolebindings",), ("get", "create", "update")),
            (
                "grant itself its rights in a namespace that it claimed (agent-confines: in no "
                "other)"
            ),
        ),
        (
            Rule((RBAC_GROUP,), ("clusterroles",), ("bind",), tuple(dict.fromkeys(bound))),
            "bind these, for itself and for Works, without holding all of their rules everywhere",
        ),
        (
            Rule(("admissionregistration.k8s.io",), _POLICIES, _READ),
            "check whether the policies are as join installed them",
        ),
        (
            Rule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
            "authenticate clients of /metrics",
        ),
        (
            Rule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
            "authorize clients of /metrics",
        ),
    ]
    made = [(rule.as_object(), why) for rule, why in rules]
    return [*made, *_cluster_roles(access), (_PROBES, "probe the host and read its version")]


def _cluster_roles(access: HostAccess) -> list[Reasoned]:
    if not access.is_confined:
        why = "read only: without policy agent-confines, Works may contain no ClusterRoles"
        return [(Rule((RBAC_GROUP,), ("clusterroles",), _READ).as_object(), why)]
    why = (
        "ClusterRoles of Works; RBAC has no smaller right to write rules for namespaces only "
        "(agent-confines: with its own labels, no cluster-wide rules; it may not bind them "
        "cluster-wide)"
    )
    verbs = (*_READ, *_WRITE, "escalate")
    return [(Rule((RBAC_GROUP,), ("clusterroles",), verbs).as_object(), why)]


def in_claimed(access: HostAccess) -> list[Reasoned]:
    """Return the rules in each claimed namespace."""
    bounds = Rule(("",), ("limitranges", "resourcequotas"), _ALL_VERBS).as_object()
    evictions = Rule(("",), ("pods/eviction",), ("create",)).as_object()
    return [
        *_of_works(access),
        (bounds, "quota and limits from the settings"),
        (evictions, "evict pods from nodes that left their group (onNodeLeave: Evict)"),
    ]


def _of_works(access: HostAccess) -> list[Reasoned]:
    """Return the rules for what Works may contain in a claimed namespace."""
    why = "Works may contain these kinds, and Roles that grant them"
    return [
        *((rule, why) for rule in access.ceiling),
        *(
            (Rule((group,), ("*",), _ALL_VERBS).as_object(), "kinds of an approved group")
            for group in access.api_groups
        ),
    ]


def _of_accounts(access: HostAccess) -> dict[str, list[Reasoned]]:
    """Return the role of the default accounts that `join` creates, by name; {} without them."""
    name = account_role(access.agent)
    if name not in access.bound_roles:
        return {}
    bindable = (*_COPIES, NAMESPACE_ADMIN)
    binds = Rule((RBAC_GROUP,), ("clusterroles",), ("bind",), bindable).as_object()
    return {name: [*_of_works(access), (binds, "what a virtual cluster may grant its own users")]}


def _local(access: HostAccess) -> dict[str, list[Reasoned]]:
    """Return the rules in single namespaces."""
    rules: dict[str, list[tuple[Rule, str]]] = defaultdict(list)
    state, leases = f"{access.agent}-state", "coordination.k8s.io"
    rules[access.namespace] += [
        (Rule((leases,), ("leases",), ("create",)), "elect a leader"),
        (
            Rule((leases,), ("leases",), ("get", "update", "patch"), (access.agent,)),
            "hold the leader Lease",
        ),
        (Rule(("",), ("configmaps",), ("create",)), "record what it registered"),
        (
            Rule(("",), ("configmaps",), ("get", "update", "patch"), (state,)),
            "record what it registered",
        ),
        (
            Rule(("",), ("pods",), ("create",)),
            "test by dry run whether policies are enforced (agent-confines: dry runs only)",
        ),
    ]
    rules[access.kubeconfig_namespace or access.namespace].append(
        (
            Rule(("",), ("secrets",), ("get", "update", "patch"), (HUB_SECRET,)),
            "renew its credential for the hub",
        )
    )
    if access.gateway:
        rules[access.namespace].append(
            (
                Rule(("",), ("secrets",), ("get", "patch"), (secret_name(access.agent),)),
                "tell its gateway the sums of valid tokens",
            )
        )
    kept = secret_names(access.agent)
    verbs = ("get", "patch", "delete") if access.checkpoint else ("delete",)
    why = "keep what the hub last said" if access.checkpoint else "remove what it kept of the hub"
    rules[access.namespace].append((Rule(("",), ("secrets",), verbs, kept), why))
    if access.checkpoint:
        rules[access.namespace] += [
            (
                Rule(("",), ("secrets",), ("create",)),
                "make these Secrets: RBAC cannot confine `create` by name",
            ),
        ]
    if access.finds:
        why = "say on a NodeGroup or Node why it makes no virtual cluster (agent-confines: only so)"
        rules[_EVENTS].append((Rule(("",), ("events",), ("create", "patch")), why))
    if access.dns_namespace:
        names = (f"{access.agent}-service-names",)
        rules[access.dns_namespace] += [
            (Rule(("",), ("configmaps",), ("create",)), "rewrite rules for CoreDNS"),
            (Rule(("",), ("configmaps",), ("get", "update"), names), "rewrite rules for CoreDNS"),
        ]
    for namespace, name in access.acts_as:
        rules[namespace].append(
            (
                Rule(("",), ("serviceaccounts",), ("impersonate",), (name,)),
                "write the manifests of a virtual cluster with the rights of its account",
            )
        )
    return {
        namespace: [(rule.as_object(), why) for rule, why in found]
        for namespace, found in rules.items()
    }


def _by_group(kinds: Iterable[Kind]) -> list[tuple[str, tuple[str, ...]]]:
    groups: dict[str, set[str]] = defaultdict(set)
    for group, plural in kinds:
        groups[group].add(plural)
    return [(group, tuple(sorted(plurals))) for group, plurals in sorted(groups.items())]


def _role(
    access: HostAccess, kind: str, name: str, rules: Iterable[Reasoned], namespace: str = ""
) -> Object:
    return {**_head(access, kind, name, namespace), "rules": [rule for rule, _ in rules]}


def _binding(access: HostAccess, kind: str, role_kind: str, namespace: str) -> Object:
    account = {"kind": "ServiceAccount", "name": access.agent, "namespace": access.namespace}
    return {
        **_head(access, kind, access.role, namespace),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": access.role},
        "subjects": [account],
    }


def _head(access: HostAccess, kind: str, name: str, namespace: str) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {AGENT_LABEL: access.agent}
    return {"apiVersion": RBAC_API, "kind": kind, "metadata": metadata}
