"""The hub objects that grant an agent its rights, for all of its virtual clusters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from karmada_vc_agent.access.templates import Reasons, Values, granted
from karmada_vc_agent.model.domain import HOST_ANNOTATION
from karmada_vc_agent.model.karmada import USER_PREFIX, execution_namespace
from karmada_vc_agent.model.kinds import RBAC_API
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.setting import CERT_ROTATION, ENDPOINT_SLICE_COLLECT, SERVICE_EXPORT

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

    controllers: the enabled ones of OPTIONAL_CONTROLLERS.
    host_id: marks the roles as those of an agent on this host; empty = host unknown.
    objects: whether it removes Clusters that are no longer desired, as those of deleted objects.
    any_name: whether virtual clusters may have any name; RBAC has no prefixes of names, so it has
    its rights over all Clusters and Works then. gateway: whether it publishes endpoints and tokens
    of virtual clusters. of_features: files of the package with what features need, by the
    controller that they are granted with, or GATEWAY.
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
    """Return all objects for the hub in the order to apply them.

    Rights on Works are bound in each execution namespace, which `join` creates the way Karmada does
    (contract 1.6, 1.9 b).
    """
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
    yield from ((path, values) for path in dict.fromkeys(_roles(access)))
    for cluster in access.clusters:
        namespace = {"execution_namespace": execution_namespace(cluster)}
        yield "access/roles/hub-cluster.yaml", values | namespace


def _roles(access: HubAccess) -> Iterator[str]:
    """Yield the files for all virtual clusters together."""
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
