"""The hub objects that grant an agent its rights, for all of its virtual clusters.

Rights on Works are bound in each execution namespace, which `join` creates the way Karmada does
(contract 1.6, 1.9 b).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from karmada_vc_agent.access.rights import OPTIONAL_CONTROLLERS, Where, granted
from karmada_vc_agent.model.domain import AGENT_LABEL, HOST_ANNOTATION
from karmada_vc_agent.model.karmada import LEASE_NAMESPACE, SYSTEM_LABEL, execution_namespace
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.rbac_rule import Rule
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP

AGENTS_GROUP = "system:karmada:agents"
USER_PREFIX = "system:karmada:agent:"
_CLUSTERS = "cluster.karmada.io"
_UNUSED_VERB = "announce"

Reasons = dict[str, list[str]]
"""Key of a Role or ClusterRole (`ClusterRole x`) -> the reason of each of its rules."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """The input of the agent's roles on the hub.

    controllers: the enabled ones of OPTIONAL_CONTROLLERS.
    host_id: marks the roles as those of an agent on this host; empty = host unknown.
    objects: whether it removes Clusters that are wanted no more, as those of objects that are
    deleted. any_name: whether virtual clusters may have any name; RBAC knows no beginnings of
    names, so it has its rights over all Clusters and Works then. gateway: whether it publishes
    endpoints and tokens of virtual clusters.
    """

    agent: str
    clusters: tuple[str, ...]
    controllers: tuple[str, ...] = OPTIONAL_CONTROLLERS
    works_cluster_wide: bool = False
    host_id: str = ""
    objects: bool = False
    any_name: bool = False
    gateway: bool = False

    @property
    def user(self) -> str:
        """The agent's user name on the hub, the common name of its certificate."""
        return USER_PREFIX + self.agent

    @property
    def role(self) -> str:
        """Name of the ClusterRole, and of the Role for Leases."""
        return f"vc-agent:{self.agent}"

    @property
    def works_role(self) -> str:
        """Name of the ClusterRole that is bound in each execution namespace."""
        return f"{self.role}:works"

    @property
    def auth_role(self) -> str:
        """Name of the ClusterRole by which Karmada is told to send its rules for impersonation."""
        return f"{self.role}:unified-auth"


def hub_objects(access: HubAccess) -> list[Object]:
    """Return all objects for the hub in the order to apply them."""
    made = [
        # Karmada creates it for its first agent: a fresh hub does not have it.
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}},
        _role(access, "ClusterRole", access.role, "", _everywhere(access)),
        _binding(access, "ClusterRoleBinding", access.role, ""),
        _role(access, "Role", access.role, LEASE_NAMESPACE, _in_leases(access)),
        _binding(access, "RoleBinding", access.role, LEASE_NAMESPACE, "Role"),
        _role(access, "ClusterRole", access.works_role, "", (Where.WORKS,)),
    ]
    if access.gateway:
        made.append(_auth_role(access))
    if access.any_name:
        made.append(_binding(access, "ClusterRoleBinding", access.works_role, ""))
    for cluster in access.clusters:
        namespace = execution_namespace(cluster)
        made.append(_execution_namespace(namespace))
        made.append(_binding(access, "RoleBinding", access.works_role, namespace))
    return made


def reasons(access: HubAccess) -> Reasons:
    """Return the reason of each rule: role -> reasons, in the order of the rules."""
    tables: tuple[tuple[str, tuple[Where, ...]], ...] = (
        (f"ClusterRole {access.role}", _everywhere(access)),
        (f"Role {LEASE_NAMESPACE}/{access.role}", _in_leases(access)),
        (f"ClusterRole {access.works_role}", (Where.WORKS,)),
    )
    return {role: [why for _, why in _rules(access, places)] for role, places in tables}


def named_clusters(role: Object) -> list[str]:
    """Return the virtual clusters that a ClusterRole created by `join` names."""
    names: dict[str, None] = {}
    for rule in role.get("rules") or []:
        if not _NAMED_OTHERWISE.isdisjoint(rule.get("resources") or ()):
            continue
        names |= dict.fromkeys(rule.get("resourceNames") or ())
    return list(names)


_NAMED_OTHERWISE = frozenset(("namespaces", "secrets", "clusterroles"))
"""Resources whose names in rules are those of no virtual cluster."""


def _auth_role(access: HubAccess) -> Object:
    """Return a ClusterRole that nobody has: Karmada looks at Clusters when such a role changes.

    It does so when a Cluster is created and not when it changes (contract 10.6); an annotation of
    this role has it look again. Who changes a role must hold its rules: it has a verb that nothing
    asks for, which the agent has, too.
    """
    rule = _auth_rule(access)
    head = _head(access, "ClusterRole", access.auth_role, "")
    return {**head, "rules": [rule.as_object()] if access.clusters else []}


def _auth_rule(access: HubAccess) -> Rule:
    return Rule((_CLUSTERS,), ("clusters/proxy",), (_UNUSED_VERB,), access.clusters)


def _in_leases(access: HubAccess) -> tuple[Where, ...]:
    return (Where.LEASES, Where.TOKENS) if access.gateway else (Where.LEASES,)


def _everywhere(access: HubAccess) -> tuple[Where, ...]:
    wide = (Where.ALL_WORKS,) if access.works_cluster_wide else ()
    return (Where.EVERYWHERE, *wide, *((Where.OBJECTS,) if access.objects else ()))


def _rules(access: HubAccess, places: Sequence[Where]) -> Sequence[tuple[Object, str]]:
    found = [
        (rule, why)
        for place in places
        for rule, why in granted(
            place, None if access.any_name else access.clusters, access.controllers
        )
    ]
    if access.gateway and Where.EVERYWHERE in places:
        rule = Rule((RBAC_GROUP,), ("clusterroles",), ("patch",), (access.auth_role,))
        found.append((rule, "have Karmada send its rules for impersonation (its annotations only)"))
        if access.clusters:
            found.append((_auth_rule(access), "hold the rules of that role; they allow nothing"))
    return [(rule.as_object(), why) for rule, why in found]


def _role(
    access: HubAccess, kind: str, name: str, namespace: str, places: Sequence[Where]
) -> Object:
    rules = [rule for rule, _ in _rules(access, places)]
    return {**_head(access, kind, name, namespace), "rules": rules}


def _binding(
    access: HubAccess, kind: str, role: str, namespace: str, role_kind: str = "ClusterRole"
) -> Object:
    return {
        **_head(access, kind, role, namespace),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": access.user}],
    }


def _head(access: HubAccess, kind: str, name: str, namespace: str) -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {AGENT_LABEL: access.agent}
    if access.host_id:
        metadata["annotations"] = {HOST_ANNOTATION: access.host_id}
    return {"apiVersion": RBAC_API, "kind": kind, "metadata": metadata}


def _execution_namespace(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {SYSTEM_LABEL: "true"}},
    }
