"""Enqueues the Works of a virtual cluster when the taints of its nodes change."""

import logging
from collections.abc import Callable

from karmada_vc_agent.cluster.tolerated_taints import NodeTaints
from karmada_vc_agent.work.works import Works

_log = logging.getLogger(__name__)

SETTLES_S = 5.0
"""A node that joins gets its taints shortly after; templates must not roll twice for it."""


class NodeTaintsController:
    """Writes nothing: tolerations are part of the translation of each Work."""

    def __init__(
        self, taints: NodeTaints, works: Works, enqueue: Callable[[tuple[str, str]], None]
    ) -> None:
        self._taints = taints
        self._works = works
        self._enqueue = enqueue

    async def reconcile(self, cluster: str) -> None:
        """Compare the taints of one virtual cluster's nodes with the known ones."""
        if not self._taints.refresh(cluster):
            return
        taints = ", ".join(f"{t.key}={t.value}:{t.effect}" for t in self._taints.of(cluster))
        extra = {"virtual_cluster": cluster, "taints": taints or "none"}
        _log.info("Tolerating the taints of the nodes", extra=extra)
        for name in self._works.names(cluster):
            self._enqueue((cluster, name))
