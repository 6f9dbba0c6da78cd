"""The agent's rights on the hub in one table: resource, rule, reason (contract 1.6).

Least rights: the agent uses every verb here, and rules list names wherever Kubernetes can restrict
by name. It cannot for create (the name is not known yet) nor for list and watch of a whole
collection.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from karmada_vc_agent.model.rbac_rule import Rule


class Where(Enum):
    """Where a right holds on the hub."""

    EVERYWHERE = "cluster-wide"
    LEASES = "in namespace karmada-cluster"
    WORKS = "in each execution namespace"
    ALL_WORKS = "cluster-wide, with --works-cluster-wide"
    OBJECTS = "cluster-wide, with objects"
    TOKENS = "in namespace karmada-cluster, with gateway"


@dataclass(frozen=True, slots=True)
class Right:
    """One right.

    named: only for objects named after the virtual clusters. names: only for these objects.
    suffixes: what follows the virtual cluster in these names. controllers: granted if one of these
    is enabled; empty = always.
    """

    where: Where
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    named: bool = False
    controllers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ("",)

    def rule(self, clusters: Sequence[str]) -> Rule:
        """Return the RBAC rule for an agent of these virtual clusters."""
        own = tuple(name + suffix for name in clusters for suffix in self.suffixes)
        names = own if self.named else self.names
        return Rule((self.group,), self.resources, self.verbs, names)


_CLUSTERS = "cluster.karmada.io"
_WORKS = "work.karmada.io"
_READ = ("get", "list", "watch")
_COLLECTED = ("serviceExport", "endpointsliceCollect")

RIGHTS = (
    Right(
        Where.EVERYWHERE,
        _CLUSTERS,
        ("clusters",),
        ("create", "list", "watch"),
        "register; notice deletions and name conflicts (create and list cannot be restricted "
        "by name)",
    ),
    Right(
        Where.EVERYWHERE,
        _CLUSTERS,
        ("clusters",),
        ("get", "patch"),
        "keep registered Clusters in line with the settings",
        named=True,
    ),
    Right(
        Where.EVERYWHERE,
        _CLUSTERS,
        ("clusters/status",),
        ("patch",),
        "report Ready, nodes, resources and APIs",
        named=True,
    ),
    Right(
        Where.EVERYWHERE,
        "",
        ("namespaces",),
        ("get",),
        "verify that the hub is not the API server of the host",
        names=("kube-system",),
    ),
    Right(
        Where.EVERYWHERE,
        "",
        ("events",),
        ("create", "patch"),
        "write events about templates and Works, in their namespaces",
    ),
    Right(
        Where.EVERYWHERE,
        "config.karmada.io",
        ("resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"),
        _READ,
        "read Karmada's interpreter customizations",
        controllers=("interpreter",),
    ),
    Right(
        Where.EVERYWHERE,
        "",
        ("services",),
        ("list", "watch"),
        "find interpreter webhooks that refer to a Service",
        controllers=("interpreter",),
    ),
    Right(
        Where.EVERYWHERE,
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        ("create", "get"),
        "renew the agent's own certificate (the hub approves only the same user again)",
        controllers=("certRotation",),
    ),
    Right(
        Where.EVERYWHERE,
        "certificates.k8s.io",
        ("certificatesigningrequests/selfclusteragent",),
        ("create",),
        "have Karmada's agentcsrapproving approve that renewal, on hubs too that grant it to no "
        "group of agents (karmada-operator)",
        controllers=("certRotation",),
    ),
    Right(
        Where.LEASES,
        "coordination.k8s.io",
        ("leases",),
        ("create",),
        "create the Lease of a Cluster",
    ),
    Right(
        Where.LEASES,
        "coordination.k8s.io",
        ("leases",),
        ("get", "update"),
        "renew the Leases of the Clusters",
        named=True,
    ),
    Right(
        Where.WORKS,
        _WORKS,
        ("works",),
        (*_READ, "patch"),
        "read Works; remove the finalizer of a Work whose objects are deleted",
    ),
    Right(
        Where.WORKS,
        _WORKS,
        ("works/status",),
        ("update",),
        "report the status of Works",
    ),
    Right(
        Where.WORKS,
        _WORKS,
        ("works",),
        ("create", "update", "delete"),
        "report EndpointSlices of exported Services, which Karmada expects as Works",
        controllers=_COLLECTED,
    ),
    Right(
        Where.ALL_WORKS,
        _WORKS,
        ("works",),
        ("list", "watch"),
        "one watch for all virtual clusters; grants read access to the Works of every Cluster",
    ),
    Right(
        Where.OBJECTS,
        _CLUSTERS,
        ("clusters",),
        ("delete",),
        "remove the Cluster of an object that is deleted, or of what is found no more",
        named=True,
    ),
    Right(
        Where.TOKENS,
        "",
        ("secrets",),
        ("create",),
        "create the Secrets with the tokens of a virtual cluster",
    ),
    Right(
        Where.TOKENS,
        "",
        ("secrets",),
        ("get", "patch", "delete"),
        "replace the tokens of a virtual cluster, and remove them",
        named=True,
        suffixes=("", "-impersonator"),
    ),
)

OPTIONAL_CONTROLLERS = tuple(sorted({name for right in RIGHTS for name in right.controllers}))
"""Controllers that need additional rights on the hub."""


def granted(
    where: Where, clusters: Sequence[str] | None, controllers: Iterable[str]
) -> list[tuple[Rule, str]]:
    """Return the rules of one scope, each with its reason.

    clusters: None = all there are; a rule that would name none is left out, for it would hold for
    all. controllers: the enabled ones of OPTIONAL_CONTROLLERS.
    """
    running = set(controllers)
    return [
        (right.rule(clusters or ()), right.why)
        for right in RIGHTS
        if right.where is where
        and (not right.controllers or running & set(right.controllers))
        and (clusters is None or clusters or not right.named)
    ]
