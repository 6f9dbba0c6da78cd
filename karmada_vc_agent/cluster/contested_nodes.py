"""Nodes that several virtual clusters select, as the hub and the log are told."""

import logging

from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition
from karmada_vc_agent.cluster.rules.node_overlap import NODE_OVERLAP, node_overlap
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)


class ContestedNodes:
    """Detects nodes that another virtual cluster selects, too; they count for the older one."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._told: dict[str, dict[str, str]] = {}

    def condition(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the condition NodeOverlap where there is one, or was (rewriting-rules 3.1)."""
        overlaps = self._membership.overlaps(vc.name)
        self._log_changes(vc.name, dict(overlaps))
        if overlaps or find_condition(live.get("conditions"), NODE_OVERLAP):
            return [node_overlap(overlaps)]
        return []

    def _log_changes(self, cluster: str, overlaps: dict[str, str]) -> None:
        """Log nodes that newly count for another one, and that none does any more."""
        owner_of = self._membership.owner_of
        lost = {node: other for node, other in overlaps.items() if owner_of(node) != cluster}
        before = self._told.pop(cluster, {})
        if lost:
            self._told[cluster] = lost
        if new := [node for node, other in lost.items() if before.get(node) != other]:
            extra = {"virtual_cluster": cluster, "older": lost[new[0]], "nodes": listed(new)}
            _log.warning(
                "Leaving nodes to an older virtual cluster that also selects them", extra=extra
            )
        elif before and not lost:
            _log.info("No longer sharing nodes", extra={"virtual_cluster": cluster})
