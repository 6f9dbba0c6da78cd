"""Makes the queues of controllers: fair among virtual clusters, with back-off."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.kube.rate_limit import TokenBucket
from karmada_vc_agent.kube.work_queue import WorkQueue

K = TypeVar("K", bound=Hashable)

MAX_DELAY_S = 30.0
FEW_WORKERS = 4


class Queues:
    """Makes queues; of several virtual clusters none has more than half of the workers."""

    def __init__(self, virtual_clusters: VirtualClusters, base_delay_s: float) -> None:
        self._virtual_clusters = virtual_clusters
        self._base_delay_s = base_delay_s
        self._shared: list[tuple[WorkQueue[Any], int]] = []
        virtual_clusters.changed.subscribe(self._share)

    def by_name(self, max_delay_s: float = MAX_DELAY_S) -> WorkQueue[str]:
        """Return a queue whose keys are names, of virtual clusters or of the only thing to do.

        Each is a group of its own, so a slow one does not count among the workers.
        """
        return WorkQueue(lambda name: name, self._base_delay_s, max_delay_s, at_once=1)

    def by_cluster(
        self,
        cluster_of: Callable[[K], str],
        workers: int = FEW_WORKERS,
        max_delay_s: float = MAX_DELAY_S,
        new_retries: Callable[[], TokenBucket] | None = None,
        base_delay_s: float | None = None,
    ) -> WorkQueue[K]:
        """Return a queue that is fair among virtual clusters; each has several keys.

        base_delay_s: the first pause of a key that fails; None = that of the settings.
        """
        first_s = self._base_delay_s if base_delay_s is None else base_delay_s
        made = WorkQueue(cluster_of, first_s, max_delay_s, new_retries)
        self._shared.append((made, half(workers)))
        self._share()
        return made

    def _share(self, *_change: object) -> None:
        is_shared = self._virtual_clusters.are_several()
        for queue, at_once in self._shared:
            queue.at_once = at_once if is_shared else 0


def half(workers: int) -> int:
    """Return how many of so many workers one virtual cluster may have."""
    return (workers + 1) // 2


def first(key: tuple[Any, ...]) -> str:
    """Return the virtual cluster of a key that begins with it."""
    return str(key[0])
