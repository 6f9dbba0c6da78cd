"""Whether the host has the nodes in `nodeNames`."""

import logging

from cachetools import LRUCache

from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition
from karmada_vc_agent.cluster.rules.nodes_missing import NODES_MISSING, nodes_missing
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)

REMEMBERED = 4096
"""Virtual clusters of which it is known what was said last."""


class NamedNodes:
    """Detects names without a node: the node may join later, or the name is misspelt."""

    def __init__(self, nodes: Store[Node]) -> None:
        self._nodes = nodes
        self._told: LRUCache[str, frozenset[str]] = LRUCache(REMEMBERED)

    def condition(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the condition NodesMissing while some are missing, or were."""
        missing = [name for name in vc.node_names if self._nodes.get("", name) is None]
        self._log_changes(vc.name, missing)
        if missing or find_condition(live.get("conditions"), NODES_MISSING):
            return [nodes_missing(missing)]
        return []

    def _log_changes(self, cluster: str, missing: list[str]) -> None:
        """Log names that are newly missing, and that none is missing any more."""
        before = self._told.pop(cluster, frozenset())
        if missing:
            self._told[cluster] = frozenset(missing)
        if new := [name for name in missing if name not in before]:
            extra = {"virtual_cluster": cluster, "nodes": listed(new)}
            _log.warning("No nodes have these names", extra=extra)
        elif before and not missing:
            _log.info("All named nodes exist", extra={"virtual_cluster": cluster})
