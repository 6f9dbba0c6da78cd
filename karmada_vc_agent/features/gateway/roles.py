"""The rights on the host of an agent's gateway, and of those who call it.

    vc-agent:<agent>:gateway             the gateway's own: lists over all namespaces, no Secrets
    vc-agent:<agent>:gateway:identities  whom it may impersonate; aggregated of a role for each
                                         virtual cluster, which the agent keeps
    vc-agent:<agent>:gateway:accounts    the same for ServiceAccounts; bound by the agent in each
                                         namespace that it claims, nowhere else
    vc-agent:<agent>:gateway:namespaces  Namespaces that tenants write; policy gateway-confines
                                         allows those of virtual clusters only
    virtual-cluster-reader               what callers read of kinds without a namespace

`join` writes them while the gateway is on. RBAC knows no beginnings of names, so each identity is
listed: who has the gateway's token is no administrator of the host.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from karmada_vc_agent.access.hub_objects import Reasons
from karmada_vc_agent.features.gateway.secret import secret_name
from karmada_vc_agent.model.domain import AGENT_LABEL, GATEWAY_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.rbac_rule import (
    CLUSTER_READER,
    Rule,
    gateway_account,
    gateway_accounts_role,
    gateway_role,
)
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP

Kind = tuple[str, str]
"""(group, plural)"""
Reasoned = tuple[Object, str]
"""A rule, and its reason."""

READ = ("get", "list", "watch")
_UNREAD = frozenset(
    {
        ("", "secrets"),  # those of the host, too: callers list them namespace by namespace
        ("", "bindings"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
    }
)
_METRICS = "metrics.k8s.io"
_READABLE: tuple[Kind, ...] = (
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    (_METRICS, "nodes"),
    (RBAC_GROUP, "clusterroles"),
    (RBAC_GROUP, "clusterrolebindings"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("networking.k8s.io", "ingressclasses"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
)
"""Kinds without a namespace that callers may read; which objects of them, the gateway decides."""
_OF_MAPPING: tuple[Kind, ...] = (
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    (_METRICS, "nodes"),
    (RBAC_GROUP, "clusterroles"),
)
"""Kinds by which the gateway knows what belongs to whom."""
_MANAGED = {"app.kubernetes.io/managed-by": "karmada-vc-agent"}


@dataclass(frozen=True, slots=True)
class GatewayAccess:
    """The input of the gateway's roles.

    namespaced: (group, plural) of namespaced kinds, without subresources. shared: cluster-scoped
    kinds that Works may contain. api_groups: approved groups. callers: groups on the host with all
    rights in a virtual cluster. is_confined: whether policy gateway-confines is installed, without
    which it writes no Namespaces.
    """

    agent: str
    namespace: str
    namespaced: tuple[Kind, ...]
    shared: tuple[Kind, ...] = ()
    api_groups: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    is_confined: bool = True

    @property
    def role(self) -> str:
        """Name of the gateway's own ClusterRole, and of its Role in the agent's namespace."""
        return gateway_role(self.agent)

    @property
    def identities(self) -> str:
        """Name of the ClusterRole that lists whom it may impersonate."""
        return f"{self.role}:identities"

    @property
    def namespaces(self) -> str:
        """Name of the ClusterRole to write Namespaces, and of its binding.

        One of its own, which is bound after the policies are there.
        """
        return f"{self.role}:namespaces"

    @property
    def readers(self) -> str:
        """Name of the binding that lets callers read kinds without a namespace."""
        return f"{self.role}:readers"


def gateway_roles(access: GatewayAccess) -> list[Object]:
    """Return all roles; they grant nothing until bound."""
    return [
        _role(access, "ClusterRole", access.role, everywhere(access)),
        _aggregated(access),
        _role(access, "ClusterRole", gateway_accounts_role(access.agent), _accounts()),
        _role(access, "ClusterRole", access.namespaces, _namespaces(access)),
        {
            **_head("ClusterRole", CLUSTER_READER, "", dict(_MANAGED)),
            "rules": [rule for rule, _ in readable(access)],
        },
        _role(access, "Role", access.role, _own_secret(access), access.namespace),
    ]


def gateway_bindings(access: GatewayAccess) -> list[Object]:
    """Return the bindings; what binds the accounts' role is the agent's to write."""
    account = {
        "kind": "ServiceAccount",
        "name": gateway_account(access.agent),
        "namespace": access.namespace,
    }
    callers = [{"apiGroup": RBAC_GROUP, "kind": "Group", "name": name} for name in access.callers]
    everywhere_bound = (
        (access.role, access.role, [account]),
        (access.identities, access.identities, [account]),
        (access.namespaces, access.namespaces, [account]),
        (access.readers, CLUSTER_READER, callers),
    )
    return [
        *(
            _binding(access, "ClusterRoleBinding", name, "ClusterRole", role, subjects)
            for name, role, subjects in everywhere_bound
        ),
        _binding(
            access, "RoleBinding", access.role, "Role", access.role, [account], access.namespace
        ),
    ]


def gateway_reasons(access: GatewayAccess) -> Reasons:
    """Return the reason of each rule: role -> reasons, in the order of the rules."""
    reasons = {
        f"ClusterRole {access.role}": everywhere(access),
        f"ClusterRole {gateway_accounts_role(access.agent)}": _accounts(),
        f"ClusterRole {access.namespaces}": _namespaces(access),
        f"ClusterRole {CLUSTER_READER}": readable(access),
        f"Role {access.namespace}/{access.role}": _own_secret(access),
    }
    return {role: [why for _, why in rules] for role, rules in reasons.items()}


def everywhere(access: GatewayAccess) -> list[Reasoned]:
    """Return the gateway's own cluster-wide rules."""
    kinds = {kind for kind in access.namespaced if kind not in _UNREAD} | {(_METRICS, "pods")}
    lists = "one list over all namespaces, of which a caller gets its own; authorized beforehand"
    return [
        *((_reads(group, plurals), lists) for group, plurals in _by_group(kinds)),
        *((_reads(group, ("*",)), "kinds of an approved group") for group in access.api_groups),
        *(
            (
                _reads(group, plurals),
                "know which namespaces, nodes, roles and volumes are of which virtual cluster",
            )
            for group, plurals in _by_group(_OF_MAPPING)
        ),
        (
            Rule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)).as_object(),
            "authorize callers of what has no namespace",
        ),
        (
            Rule(("authentication.k8s.io",), ("tokenreviews",), ("create",)).as_object(),
            "authenticate operators, and clients of /metrics",
        ),
    ]


def readable(access: GatewayAccess) -> list[Reasoned]:
    """Return the rules of `virtual-cluster-reader`."""
    kinds = {*_READABLE, *access.shared}
    why = "callers read these kinds; the gateway shows those of their virtual cluster"
    return [(_reads(group, plurals), why) for group, plurals in _by_group(kinds)]


def _accounts() -> list[Reasoned]:
    rule = Rule(("",), ("serviceaccounts",), ("impersonate",)).as_object()
    return [(rule, "act for the ServiceAccounts of a virtual cluster, in its namespaces")]


def _namespaces(access: GatewayAccess) -> list[Reasoned]:
    if not access.is_confined:
        return []
    rule = Rule(("",), ("namespaces",), ("create", "update", "patch", "delete")).as_object()
    why = (
        "write Namespaces for tenants; RBAC has no smaller right (gateway-confines: only those of "
        "virtual clusters, and only what is for tenants)"
    )
    return [(rule, why)]


def _own_secret(access: GatewayAccess) -> list[Reasoned]:
    rule = Rule(("",), ("secrets",), READ, (secret_name(access.agent),)).as_object()
    return [(rule, "know the sums of valid tokens")]


def _aggregated(access: GatewayAccess) -> Object:
    labels = {AGENT_LABEL: access.agent}
    selector = {"matchLabels": {GATEWAY_LABEL: access.agent}}
    # Its rules are written by the host: none here, so that a later `join` takes none away.
    return {
        **_head("ClusterRole", access.identities, "", labels),
        "aggregationRule": {"clusterRoleSelectors": [selector]},
    }


def _reads(group: str, plurals: tuple[str, ...]) -> Object:
    return Rule((group,), plurals, READ).as_object()


def _by_group(kinds: Iterable[Kind]) -> list[tuple[str, tuple[str, ...]]]:
    groups: dict[str, set[str]] = {}
    for group, plural in kinds:
        groups.setdefault(group, set()).add(plural)
    return [(group, tuple(sorted(plurals))) for group, plurals in sorted(groups.items())]


def _role(
    access: GatewayAccess, kind: str, name: str, rules: Iterable[Reasoned], namespace: str = ""
) -> Object:
    head = _head(kind, name, namespace, {AGENT_LABEL: access.agent})
    return {**head, "rules": [rule for rule, _ in rules]}


def _binding(
    access: GatewayAccess,
    kind: str,
    name: str,
    role_kind: str,
    role: str,
    subjects: list[Object],
    namespace: str = "",
) -> Object:
    return {
        **_head(kind, name, namespace, {AGENT_LABEL: access.agent}),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role},
        "subjects": subjects,
    }


def _head(kind: str, name: str, namespace: str, labels: dict[str, str]) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": RBAC_API, "kind": kind, "metadata": {**metadata, "labels": labels}}
