"""Enqueues the Works of a virtual cluster when the taints of its nodes change."""

import logging
from collections.abc import Callable

from karmada_vc_agent.cluster.tolerated_taints import NodeTaints
from karmada_vc_agent.work.works import WorkKey, Works

_log = logging.getLogger(__name__)

SETTLES_S = 5.0
"""A node that joins gets its taints shortly after; templates must not roll twice for it."""


async def follow_taints(
    taints: NodeTaints, works: Works, enqueue: Callable[[WorkKey], None], cluster: str
) -> None:
    """Enqueue the Works of a virtual cluster if the taints of its nodes changed.

    Writes nothing: tolerations are part of the translation of each Work.
    """
    if not taints.refresh(cluster):
        return
    names = ", ".join(f"{t.key}={t.value}:{t.effect}" for t in taints.of(cluster))
    extra = {"virtual_cluster": cluster, "taints": names or "none"}
    _log.info("Tolerating the taints of the nodes", extra=extra)
    for name in works.names(cluster):
        enqueue((cluster, name))
