"""Rights that the agent lacks, and whom that concerns: one virtual cluster, or all."""

from collections.abc import Callable, Iterable, Mapping

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.karmada import LEASE_NAMESPACE, cluster_of_execution_namespace
from karmada_vc_agent.model.texts import JOIN_OF_THIS_VERSION

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
        texts: dict[str, list[str]] = {}
        for server, need in self._lacking():
            if cluster := self._concerned(server, need):
                texts.setdefault(cluster, []).append(_text(server, need))
        return texts

    def of_all(self) -> str | None:
        """Return a right without which no virtual cluster is served, None if there is none."""
        for server, need in self._lacking():
            if not self._concerned(server, need) and self._is_of_all(server, need):
                return _text(server, need)
        concerned, names = self.by_cluster(), tuple(self._names)
        if names and all(name in concerned for name in names):
            return concerned[names[0]][0]
        return None

    def remarks(self) -> list[str]:
        """Return what else is missing, which fails at most what needs it."""
        named = [f"{name}: {texts[0]}" for name, texts in sorted(self.by_cluster().items())]
        others = (
            _text(server, need)
            for server, need in self._lacking()
            if not self._concerned(server, need) and not self._is_of_all(server, need)
        )
        return [*named, *others]

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


def _text(server: str, need: Need) -> str:
    return f"{server}: the agent lacks rule {need}; {JOIN_OF_THIS_VERSION}"
