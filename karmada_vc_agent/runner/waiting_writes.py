"""Reports why the leader writes no Works of a virtual cluster after `Serving`."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.judgements import Judgements
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.works import WorkKey, Works

_log = logging.getLogger(__name__)

LOOK_S = 5.0
"""A reason is logged if two checks in a row have it."""
LATE_S = 30.0
"""How long a key may wait for a worker before that is a reason: as long as one request may take."""
ALL = "*"
"""In place of all virtual clusters; no Cluster has such a name."""


class WaitingWrites:
    """Determines why the leader writes no Works of a virtual cluster.

    Nothing else logs these states (of the lead, the host, workers). Logged once for as long as one
    stays, and shown by /readyz?verbose.

    is_leading: whether the lead is certain. execution: the controller of Works.
    """

    def __init__(
        self,
        virtual_clusters: Mapping[str, VirtualCluster],
        clusters: HubClusters,
        judgements: Judgements,
        works: Works,
        is_leading: Callable[[], bool],
        execution: Controller[WorkKey],
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._clusters = clusters
        self._judgements = judgements
        self._works = works
        self._is_leading = is_leading
        self._execution = execution
        self._before: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        """Virtual cluster, or ALL -> why nothing of it is written, as of the last check."""
        self._once = LogOnce(_log)
        self._synced = 0

    async def run(self) -> None:
        """Check at intervals, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Log what has stayed since the check before, and what has ended."""
        now = dict(self._now())
        lasting = {name: why for name, why in now.items() if name in self._before}
        for name, why in lasting.items():
            self._once.warning("Writing no Works", about=name, virtual_cluster=name, reason=why)
        for name in self.reasons.keys() - now.keys():
            self._once.ended(name)
            _log.info("Writing Works", extra={"virtual_cluster": name})
        self._before, self.reasons = now, lasting

    def _now(self) -> Iterator[tuple[str, str]]:
        synced, self._synced = self._synced, self._execution.succeeded
        if not self._is_leading():
            yield ALL, "the lead is in doubt: the host does not confirm the leader Lease"
            return
        waiting = self._execution.queue.waiting()
        for name, vc in self._virtual_clusters.items():
            if vc.paused or self._clusters.ours(name) is None:
                continue
            _, oldest_s = waiting.get(name, (0, 0.0))
            if not self._clusters.is_ready(name):
                if self._works.of(name):
                    yield name, self._host(name)
            elif oldest_s >= LATE_S:
                yield name, f"its Works wait for a worker for more than {LATE_S:g} s"
        if self._execution.failed_by and synced == self._execution.succeeded:
            yield ALL, self._execution.failed_by

    def _host(self, name: str) -> str:
        judged = self._judgements.of(name)
        if judged is None or judged["status"] == "True":
            return "the Cluster is not judged Ready yet: no probe of the host has ended"
        return f"the host is not ready ({judged['reason']}): {judged['message']}"
