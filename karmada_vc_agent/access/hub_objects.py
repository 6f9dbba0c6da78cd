"""The hub objects that grant an agent its rights, for all of its virtual clusters.

Rights on Works are bound in each execution namespace, which `join` creates the way Karmada does
(contract 1.6, 1.9 b).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from karmada_vc_agent.access.rights import OPTIONAL_CONTROLLERS, Where, granted
from karmada_vc_agent.model.domain import AGENT_LABEL, HOST_ANNOTATION
from karmada_vc_agent.model.karmada import LEASE_NAMESPACE, SYSTEM_LABEL, execution_namespace
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.well_known import RBAC_API, RBAC_GROUP

AGENTS_GROUP = "system:karmada:agents"
USER_PREFIX = "system:karmada:agent:"

Reasons = dict[str, list[str]]
"""Key of a Role or ClusterRole (`ClusterRole x`) -> the reason of each of its rules."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """The input of the agent's roles on the hub.

    controllers: the enabled ones of OPTIONAL_CONTROLLERS.
    host_id: marks the roles as those of an agent on this host; empty = host unknown.
    objects: whether it removes Clusters that are wanted no more, as those of objects that are
    deleted. any_name: whether virtual clusters may have any name; RBAC knows no beginnings of
    names, so it has its rights over all Clusters and Works then.
    """

    agent: str
    clusters: tuple[str, ...]
    controllers: tuple[str, ...] = OPTIONAL_CONTROLLERS
    works_cluster_wide: bool = False
    host_id: str = ""
    objects: bool = False
    any_name: bool = False

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


def hub_objects(access: HubAccess) -> list[Object]:
    """Return all objects for the hub in the order to apply them."""
    made = [
        # Karmada creates it for its first agent: a fresh hub does not have it.
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}},
        _role(access, "ClusterRole", access.role, "", _everywhere(access)),
        _binding(access, "ClusterRoleBinding", access.role, ""),
        _role(access, "Role", access.role, LEASE_NAMESPACE, (Where.LEASES,)),
        _binding(access, "RoleBinding", access.role, LEASE_NAMESPACE, "Role"),
        _role(access, "ClusterRole", access.works_role, "", (Where.WORKS,)),
    ]
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
        (f"Role {LEASE_NAMESPACE}/{access.role}", (Where.LEASES,)),
        (f"ClusterRole {access.works_role}", (Where.WORKS,)),
    )
    return {role: [why for _, why in _rules(access, places)] for role, places in tables}


def named_clusters(role: Object) -> list[str]:
    """Return the virtual clusters that a ClusterRole created by `join` names."""
    names: dict[str, None] = {}
    for rule in role.get("rules") or []:
        if "namespaces" in (rule.get("resources") or ()):
            continue  # kube-system, which identifies an API server
        names |= dict.fromkeys(rule.get("resourceNames") or ())
    return list(names)


def _everywhere(access: HubAccess) -> tuple[Where, ...]:
    wide = (Where.ALL_WORKS,) if access.works_cluster_wide else ()
    return (Where.EVERYWHERE, *wide, *((Where.OBJECTS,) if access.objects else ()))


def _rules(access: HubAccess, places: Iterable[Where]) -> Sequence[tuple[Object, str]]:
    return [
        (rule.as_object(), why)
        for place in places
        for rule, why in granted(
            place, None if access.any_name else access.clusters, access.controllers
        )
    ]


def _role(
    access: HubAccess, kind: str, name: str, namespace: str, places: Iterable[Where]
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
