"""What the agent may do on the hub: one table, what -> rule -> why (contract 1.6).

Least rights: every verb here is one that the agent sends, and names are listed wherever
Kubernetes can restrict by name. It cannot for create (the name is not known yet) nor for list
and watch of a whole collection.
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


@dataclass(frozen=True, slots=True)
class Right:
    """One right. named: only for objects named after the virtual clusters.

    controllers: granted while one of these runs; empty = always. names: only for these objects.
    """

    where: Where
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    named: bool = False
    controllers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def rule(self, clusters: Sequence[str]) -> Rule:
        """Return the RBAC rule for an agent of these virtual clusters."""
        names = tuple(clusters) if self.named else self.names
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
        "register; see deletions and namesakes (neither create nor a whole list has names)",
    ),
    Right(
        Where.EVERYWHERE,
        _CLUSTERS,
        ("clusters",),
        ("get", "patch"),
        "keep the registered Clusters as the settings say",
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
        "see that the hub is not the API server of the host",
        names=("kube-system",),
    ),
    Right(
        Where.EVERYWHERE,
        "",
        ("events",),
        ("create", "patch"),
        "tell templates and Works what became of them, in the namespaces these are in",
    ),
    Right(
        Where.EVERYWHERE,
        "config.karmada.io",
        ("resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"),
        _READ,
        "interpret kinds as Karmada was told to",
        controllers=("interpreter",),
    ),
    Right(
        Where.EVERYWHERE,
        "",
        ("services",),
        ("list", "watch"),
        "find interpreter webhooks that are named by a Service",
        controllers=("interpreter",),
    ),
    Right(
        Where.EVERYWHERE,
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        ("create", "get"),
        "renew the agent's own certificate (the hub approves only the same name again)",
        controllers=("certRotation",),
    ),
    Right(
        Where.LEASES,
        "coordination.k8s.io",
        ("leases",),
        ("create",),
        "begin the heartbeat of a Cluster",
    ),
    Right(
        Where.LEASES,
        "coordination.k8s.io",
        ("leases",),
        ("get", "update"),
        "keep the heartbeats going",
        named=True,
    ),
    Right(
        Where.WORKS,
        _WORKS,
        ("works",),
        (*_READ, "patch"),
        "see what is to run; take the finalizer off a Work whose objects are gone",
    ),
    Right(
        Where.WORKS,
        _WORKS,
        ("works/status",),
        ("update",),
        "report what became of a Work",
    ),
    Right(
        Where.WORKS,
        _WORKS,
        ("works",),
        ("create", "update", "delete"),
        "report EndpointSlices of exported Services, which Karmada takes as Works",
        controllers=_COLLECTED,
    ),
    Right(
        Where.ALL_WORKS,
        _WORKS,
        ("works",),
        ("list", "watch"),
        "one watch for all virtual clusters; opens the Works of every Cluster to reading",
    ),
)

OPTIONAL_CONTROLLERS = tuple(sorted({name for right in RIGHTS for name in right.controllers}))
"""Controllers that need rights of their own on the hub."""


def granted(
    where: Where, clusters: Sequence[str], controllers: Iterable[str]
) -> list[tuple[Rule, str]]:
    """Return the rules that hold somewhere, each with its reason.

    controllers: those of OPTIONAL_CONTROLLERS that run.
    """
    running = set(controllers)
    return [
        (right.rule(clusters), right.why)
        for right in RIGHTS
        if right.where is where and (not right.controllers or running & set(right.controllers))
    ]
