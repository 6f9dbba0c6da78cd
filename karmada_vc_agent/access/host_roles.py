"""What the agent may do on the host: roles and bindings, least of what its work needs.

    vc-agent:<agent>             everywhere: read, but no Secrets; claims; cluster-scoped kinds
    vc-agent:<agent>:namespace   bound by the agent in each namespace that it claims, nowhere else
    vc-agent:<agent>:account     bound there to the account of a virtual cluster (Strict)
    virtual-cluster-admin        what a virtual cluster may grant its own users

RBAC cannot tell whose an object is. Where it has to give more than the work needs, that is said
with the rule, and the policy agent-confines holds the rest. Why: docs/adr/0024.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from karmada_vc_agent.access.hub_objects import Reasons
from karmada_vc_agent.access.known_kinds import NAMESPACED
from karmada_vc_agent.model.domain import AGENT_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN, Rule, account_role, namespace_role
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP

Kind = tuple[str, str]
"""(group, plural)"""

HUB_SECRET = "karmada-kubeconfig"  # noqa: S105 - a name
"""Secret with the hub's kubeconfig, under a key of the same name, as Karmada's agent has it."""
_READ = ("get", "list", "watch")
_FOLLOW = ("list", "watch")
_WRITE = ("create", "update", "patch", "delete")
_ALL_VERBS = (*_READ, *_WRITE, "deletecollection")
_BUILT_IN_ROLES = ("admin", "edit", "view")
_POLICIES = tuple(
    f"{kind}admissionpolic{end}"
    for kind in ("validating", "mutating")
    for end in ("ies", "ybindings")
)
_NOT_FOLLOWED = (
    ("", "secrets"),  # of claimed namespaces only
    ("", "bindings"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
)
_PROBES: Object = {"nonResourceURLs": ["/readyz", "/healthz", "/version"], "verbs": ["get"]}
_MANAGED = {"app.kubernetes.io/managed-by": "karmada-vc-agent"}

Reasoned = tuple[Object, str]
"""A rule, and why it is there."""


@dataclass(frozen=True, slots=True)
class HostAccess:
    """Whom to give which rights on the host.

    ceiling: what the agent may write in claimed namespaces. granted: rules of
    `virtual-cluster-admin`, no more than that. namespaced: what of it is no subresource. shared:
    cluster-scoped kinds to write. api_groups: those whose kinds may be used before they are
    served. is_confined: whether the policy agent-confines is there, without which some rights
    are too strong to give. follows_kinds: whether the agent may use kinds that come later, as far
    as `virtual-cluster-admin` has them. bound_roles: ClusterRoles that it binds beside those of
    Kubernetes. acts_as: accounts of `applyAs`, (namespace, name). dns_namespace: where it keeps
    rules for CoreDNS; empty = it keeps none.
    """

    agent: str
    namespace: str
    ceiling: tuple[Object, ...]
    granted: tuple[Object, ...] = ()
    namespaced: tuple[Kind, ...] = tuple(sorted(k for k in NAMESPACED if "/" not in k[1]))
    shared: tuple[Kind, ...] = ()
    api_groups: tuple[str, ...] = ()
    is_confined: bool = True
    follows_kinds: bool = True
    bound_roles: tuple[str, ...] = ()
    acts_as: tuple[tuple[str, str], ...] = ()
    dns_namespace: str = ""
    kubeconfig_namespace: str = ""

    @property
    def role(self) -> str:
        """Name of the ClusterRole, and of the Roles in single namespaces."""
        return f"vc-agent:{self.agent}"


def host_roles(access: HostAccess) -> list[Object]:
    """Return all roles, which give nothing before they are bound."""
    return [
        _role(access, "ClusterRole", access.role, everywhere(access)),
        _role(access, "ClusterRole", namespace_role(access.agent), in_claimed(access)),
        *(
            _role(access, "ClusterRole", name, rules)
            for name, rules in _of_accounts(access).items()
        ),
        {
            "apiVersion": RBAC_API,
            "kind": "ClusterRole",
            "metadata": {"name": NAMESPACE_ADMIN, "labels": dict(_MANAGED)},
            "rules": list(access.granted),
        },
        *(
            _role(access, "Role", access.role, rules, namespace)
            for namespace, rules in _local(access).items()
        ),
    ]


def host_bindings(access: HostAccess) -> list[Object]:
    """Return what gives the roles to the agent; the policies must be there before."""
    return [
        _binding(access, "ClusterRoleBinding", "ClusterRole", ""),
        *(_binding(access, "RoleBinding", "Role", namespace) for namespace in _local(access)),
    ]


def host_reasons(access: HostAccess) -> Reasons:
    """Return why each rule of the roles is there, by role, in the order of the rules."""
    reasons = {
        f"ClusterRole {access.role}": everywhere(access),
        f"ClusterRole {namespace_role(access.agent)}": in_claimed(access),
        **{f"ClusterRole {name}": rules for name, rules in _of_accounts(access).items()},
        **{f"Role {space}/{access.role}": rules for space, rules in _local(access).items()},
    }
    return {role: [why for _, why in rules] for role, rules in reasons.items()}


def everywhere(access: HostAccess) -> list[Reasoned]:
    """Return the rules that hold in the whole host."""
    bound = (namespace_role(access.agent), *_BUILT_IN_ROLES, *access.bound_roles)
    if access.follows_kinds:
        bound += (NAMESPACE_ADMIN,)
    readable = [kind for kind in access.namespaced if kind not in _NOT_FOLLOWED]
    rules: list[tuple[Rule, str]] = [
        (
            Rule(("",), ("namespaces",), (*_READ, *_WRITE)),
            "claim namespaces; agent-confines: only its own, or where adoption is allowed",
        ),
        (
            Rule(("",), ("nodes",), (*_READ, "patch")),
            "see the groups; set one label (agent-confines: no other)",
        ),
        *(
            (Rule((group,), plurals, _FOLLOW), "one watch for all virtual clusters, by our label")
            for group, plurals in _by_group(readable)
        ),
        *(
            (
                Rule((group,), plurals, (*_READ, *_WRITE)),
                "what Works bring without a namespace; agent-confines: with its own marks",
            )
            for group, plurals in _by_group(access.shared)
        ),
        *(
            (Rule((group,), ("*",), _FOLLOW), "kinds of a group that was approved")
            for group in access.api_groups
        ),
        (Rule(("apps.kubeedge.io",), ("nodegroups",), _READ), "groups that rest on a NodeGroup"),
        (
            Rule((RBAC_GROUP,), ("rolebindings",), ("get", "create", "update")),
            "give itself its rights in a namespace that it claimed (agent-confines: in no other)",
        ),
        (
            Rule((RBAC_GROUP,), ("clusterroles",), ("bind",), tuple(dict.fromkeys(bound))),
            "bind these, for itself and as Works ask, without holding all of them everywhere",
        ),
        (
            Rule(("admissionregistration.k8s.io",), _POLICIES, _READ),
            "see whether the policies are as join left them",
        ),
        (
            Rule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
            "find out who asks for /metrics",
        ),
        (
            Rule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
            "find out whether they may read /metrics",
        ),
    ]
    made = [(rule.as_object(), why) for rule, why in rules]
    return [*made, *_cluster_roles(access), (_PROBES, "probe the host and read its version")]


def _cluster_roles(access: HostAccess) -> list[Reasoned]:
    if not access.is_confined:
        why = "see what there is; Works bring no ClusterRoles while no policy confines the agent"
        return [(Rule((RBAC_GROUP,), ("clusterroles",), _READ).as_object(), why)]
    why = (
        "ClusterRoles of Works; RBAC has no smaller right to write rules that hold in namespaces "
        "only (agent-confines: own marks, nothing beyond namespaces; it may bind none cluster-wide)"
    )
    verbs = (*_READ, *_WRITE, "escalate")
    return [(Rule((RBAC_GROUP,), ("clusterroles",), verbs).as_object(), why)]


def in_claimed(access: HostAccess) -> list[Reasoned]:
    """Return the rules that hold in each claimed namespace."""
    bounds = Rule(("",), ("limitranges", "resourcequotas"), _ALL_VERBS).as_object()
    return [*_of_works(access), (bounds, "quota and limits of the settings")]


def _of_works(access: HostAccess) -> list[Reasoned]:
    """Return the rules for what Works bring into a claimed namespace."""
    why = "Works may hold these kinds, and Roles that grant them"
    return [
        *((rule, why) for rule in access.ceiling),
        *(
            (Rule((group,), ("*",), _ALL_VERBS).as_object(), "kinds of a group that was approved")
            for group in access.api_groups
        ),
    ]


def _of_accounts(access: HostAccess) -> dict[str, list[Reasoned]]:
    """Return the role of the accounts that `join` makes by itself, by name; none without them."""
    name = account_role(access.agent)
    if name not in access.bound_roles:
        return {}
    bindable = (*_BUILT_IN_ROLES, NAMESPACE_ADMIN)
    binds = Rule((RBAC_GROUP,), ("clusterroles",), ("bind",), bindable).as_object()
    return {name: [*_of_works(access), (binds, "what a virtual cluster may grant its own users")]}


def _local(access: HostAccess) -> dict[str, list[Reasoned]]:
    """Return the rules that hold in single namespaces."""
    rules: dict[str, list[tuple[Rule, str]]] = defaultdict(list)
    state, leases = f"{access.agent}-state", "coordination.k8s.io"
    rules[access.namespace] += [
        (Rule((leases,), ("leases",), ("create",)), "find out which replica leads"),
        (
            Rule((leases,), ("leases",), ("get", "update", "patch"), (access.agent,)),
            "hold the lead",
        ),
        (Rule(("",), ("configmaps",), ("create",)), "remember what it registered"),
        (
            Rule(("",), ("configmaps",), ("get", "update", "patch"), (state,)),
            "remember what it registered",
        ),
        (
            Rule(("",), ("pods",), ("create",)),
            "ask by dry runs whether policies hold (agent-confines: by dry runs only)",
        ),
    ]
    rules[access.kubeconfig_namespace or access.namespace].append(
        (
            Rule(("",), ("secrets",), ("get", "update", "patch"), (HUB_SECRET,)),
            "renew its credential for the hub",
        )
    )
    if access.dns_namespace:
        names = (f"{access.agent}-service-names",)
        rules[access.dns_namespace] += [
            (Rule(("",), ("configmaps",), ("create",)), "rules for CoreDNS"),
            (Rule(("",), ("configmaps",), ("get", "update"), names), "rules for CoreDNS"),
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
