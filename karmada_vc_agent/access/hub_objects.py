"""The hub objects that grant an agent its rights, for all of its virtual clusters: roles/hub*.yaml.

Rights on Works are bound in each execution namespace, which `join` creates the way Karmada does
(contract 1.6, 1.9 b).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from karmada_vc_agent.access.templates import Reasons, Values, granted
from karmada_vc_agent.model.domain import HOST_ANNOTATION
from karmada_vc_agent.model.karmada import USER_PREFIX, execution_namespace
from karmada_vc_agent.model.kinds import RBAC_API
from karmada_vc_agent.model.objects import Object

_BY_CONTROLLER = {
    "interpreter": "hub-interpreter",
    "certRotation": "hub-certificate",
    "serviceExport": "hub-services",
    "endpointsliceCollect": "hub-services",
}
OPTIONAL_CONTROLLERS = tuple(sorted(_BY_CONTROLLER))
"""Controllers that need additional rights on the hub."""
_NAMED_OTHERWISE = frozenset(("namespaces", "secrets", "clusterroles"))
"""Resources whose names in rules are those of no virtual cluster."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """The input of the agent's roles on the hub.

    controllers: the enabled ones of OPTIONAL_CONTROLLERS.
    host_id: marks the roles as those of an agent on this host; empty = host unknown.
    objects: whether it removes Clusters that are no longer desired, as those of deleted objects.
    any_name: whether virtual clusters may have any name; RBAC has no prefixes of names, so it has
    its rights over all Clusters and Works then. gateway: whether it publishes endpoints and tokens
    of virtual clusters.
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
        """Name of the ClusterRole that has Karmada send its rules for impersonation."""
        return f"{self.role}:unified-auth"


def hub_objects(access: HubAccess) -> list[Object]:
    """Return all objects for the hub in the order to apply them."""
    made, _ = granted(_files(access))
    if access.host_id:
        for obj in made:
            if obj["apiVersion"] == RBAC_API:
                obj["metadata"]["annotations"] = {HOST_ANNOTATION: access.host_id}
    return made


def hub_reasons(access: HubAccess) -> Reasons:
    """Return the reason of each rule: role -> reasons, in the order of the rules."""
    return granted(_files(access))[1]


def named_clusters(role: Object) -> list[str]:
    """Return the virtual clusters that a ClusterRole created by `join` names."""
    names: dict[str, None] = {}
    for rule in role.get("rules") or []:
        if not _NAMED_OTHERWISE.isdisjoint(rule.get("resources") or ()):
            continue
        names |= dict.fromkeys(rule.get("resourceNames") or ())
    return list(names)


def _files(access: HubAccess) -> Iterator[tuple[str, Values]]:
    """Yield the files, each with its values.

    A rule that would name no virtual cluster is left out, for it would hold for all.
    """
    secrets = (name + suffix for name in access.clusters for suffix in ("", "-impersonator"))
    values = {
        "agent": access.agent,
        "clusters": () if access.any_name else access.clusters or None,
        "listed_clusters": access.clusters or None,
        "token_secrets": () if access.any_name else tuple(secrets) or None,
    }
    by_controller = (file for name, file in _BY_CONTROLLER.items() if name in access.controllers)
    names = {
        "hub": True,
        **dict.fromkeys(by_controller, True),
        "hub-all-works": access.works_cluster_wide,
        "hub-objects": access.objects,
        "hub-gateway": access.gateway,
        "hub-any-name": access.any_name,
    }
    yield from (
        (f"access/roles/{name}.yaml", values) for name, is_needed in names.items() if is_needed
    )
    for cluster in access.clusters:
        namespace = {"execution_namespace": execution_namespace(cluster)}
        yield "access/roles/hub-cluster.yaml", values | namespace
