"""Says why the leader writes no Works of a virtual cluster: between `Serving` and the first write.

What it waits for is a state of somebody else (the lead, the host, workers), which logs nothing by
itself. Looked at now and then; logged once for as long as it stays, and shown by /readyz?verbose.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.judgements import Judgements
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.works import WorkKey, Works

_log = logging.getLogger(__name__)

LOOK_S = 5.0
"""What stays from one look to the next one is said."""
LATE_S = 30.0
"""How long a key may wait for a worker before that is said: as long as one request may take."""
ALL = "*"
"""Stands for all virtual clusters; no Cluster has such a name."""


class WaitingWrites:
    """Knows what the Works of each virtual cluster wait for.

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
        self._said: dict[str, str] = {}
        self._synced = 0

    @property
    def reasons(self) -> dict[str, str]:
        """Return virtual cluster, or ALL -> why nothing of it is written, as of the last look."""
        return dict(self._said)

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Log what has stayed since the look before, and what has ended."""
        now = dict(self._now())
        lasting = {name: why for name, why in now.items() if name in self._before}
        for name, why in lasting.items():
            if self._said.get(name) != why:
                _log.warning("Writing no Works", extra={"virtual_cluster": name, "reason": why})
        for name in self._said.keys() - now.keys():
            _log.info("Writing Works", extra={"virtual_cluster": name})
        self._before, self._said = now, lasting

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
