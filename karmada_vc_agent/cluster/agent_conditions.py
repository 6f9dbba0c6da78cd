"""Conditions of the agent itself: what it needs of hub and host, and its node."""

from collections.abc import Callable, Iterable, Mapping

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.rules.conditions import agent_apart
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.errors import Need
from karmada_vc_agent.model.karmada import LEASE_NAMESPACE, cluster_of_execution_namespace
from karmada_vc_agent.model.kinds import NAME_FIELD
from karmada_vc_agent.model.objects import labels_of
from karmada_vc_agent.model.texts import JOIN_OF_THIS_VERSION
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


class AgentCondition:
    """The state of a condition that all Clusters of the agent have.

    reason, problem: what fails and what to do; the same text for as long as it lasts, "" = nothing.
    changed: it fails, fails for another reason, or succeeds again.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.problem = ""
        self.changed: Signal[[]] = Signal()

    def fail(self, reason: str, problem: str) -> None:
        """Report a failure."""
        if (self.reason, self.problem) != (reason, problem):
            self.reason, self.problem = reason, problem
            self.changed.emit()

    def succeed(self) -> None:
        """Report that what failed succeeded."""
        self.fail("", "")


HUB = "hub"
_CLUSTERS, _LEASES, _WORKS = "clusters", "leases", "works"
_OF_ALL = {
    "hub": frozenset((_CLUSTERS, _LEASES, _WORKS)),
    "host": frozenset(("nodes", "pods", "namespaces")),
}
"""Without them no virtual cluster is served; only requests without a name and namespace count."""

Lacking = Callable[[], Iterable[tuple[str, Need]]]
"""Returns what is missing for longer: `hub` or `host`, and what a request needed there."""


class MissingRights:
    """Sorts what is missing by virtual cluster.

    home: the agent's own namespace on the host. is_spared: True for a right there without which
    the agent serves all virtual clusters.
    """

    def __init__(
        self,
        lacking: Lacking,
        names: Iterable[str],
        claims: Claims,
        home: str,
        is_spared: Callable[[Need], bool] = lambda _: False,
    ) -> None:
        self._lacking = lacking
        self._names = names
        self._claims = claims
        self._home = home
        self._is_spared = is_spared

    def by_cluster(self) -> Mapping[str, list[str]]:
        """Return the rights that are missing for a single virtual cluster, each as a text."""
        return self._sorted()[0]

    def of_all(self) -> str | None:
        """Return a right without which no virtual cluster is served, None if there is none."""
        concerned, of_all, _ = self._sorted()
        names = tuple(self._names)
        if not of_all and names and all(name in concerned for name in names):
            return concerned[names[0]][0]
        return of_all[0] if of_all else None

    def warnings(self) -> list[str]:
        """Return what else is missing, which fails at most what needs it."""
        concerned, _, others = self._sorted()
        return [*(f"{name}: {texts[0]}" for name, texts in sorted(concerned.items())), *others]

    def _sorted(self) -> tuple[dict[str, list[str]], list[str], list[str]]:
        """Return the texts for single virtual clusters, for all of them, and for neither."""
        concerned: dict[str, list[str]] = {}
        of_all: list[str] = []
        others: list[str] = []
        for server, need in self._lacking():
            text = f"{server}: the agent lacks rule {need}; {JOIN_OF_THIS_VERSION}"
            if cluster := self._concerned(server, need):
                concerned.setdefault(cluster, []).append(text)
            else:
                (of_all if self._is_of_all(server, need) else others).append(text)
        return concerned, of_all, others

    def _concerned(self, server: str, need: Need) -> str:
        """Return the virtual cluster that alone needs something, "" if it is not a single one."""
        if server != HUB:
            claim = self._claims.on(need.namespace) if need.namespace else None
            return claim.cluster if claim is not None else ""
        if cluster := cluster_of_execution_namespace(need.namespace):
            return cluster
        kind = need.resource.partition("/")[0]
        is_named = kind == _CLUSTERS or (kind == _LEASES and need.namespace == LEASE_NAMESPACE)
        return need.name if is_named and need.name in set(self._names) else ""

    def _is_of_all(self, server: str, need: Need) -> bool:
        if server != HUB and need.namespace:
            return need.namespace == self._home and not self._is_spared(need)
        return not need.name and need.resource in _OF_ALL[server]


NODE_VARIABLE = "NODE_NAME"
"""Set by the manifest through the downward API; without it the node is unknown."""


async def check_apart_from_tenants(
    host: ApiClient, node: str, virtual_clusters: Iterable[VirtualCluster]
) -> None:
    """Reject a node of a group and an edge node. Raises ConfigError, KubeError.

    node: "" = unknown, nothing is rejected.
    """
    if not node:
        return
    listed = await host.get("/api/v1/nodes", {"fieldSelector": f"{NAME_FIELD}={node}"})
    for live in listed.get("items") or ():
        if live["metadata"]["name"] != node:
            continue
        labels = labels_of(live)
        owner = next((vc.name for vc in virtual_clusters if vc.selects(node, labels)), None)
        condition = agent_apart(node, labels, owner)
        if condition["status"] != "True":
            problem = f"{condition['message']}. With tenancy Strict the agent does not start there"
            raise ConfigError("environment", NODE_VARIABLE, problem)
