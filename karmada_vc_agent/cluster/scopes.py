"""State by virtual cluster, which is kept while its Cluster is ours."""

from collections import defaultdict
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, TypeVar

from karmada_vc_agent.kube.signal import Signal

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Scopes:
    """The scopes of all virtual clusters: the end of one drops all that is kept in it.

    ended: a virtual cluster whose scope ended, for what is not kept by its name. A scope that is
    empty may end, too.
    """

    def __init__(self) -> None:
        self.ended: Signal[[str]] = Signal()

    def end(self, cluster: str) -> None:
        """Drop all that is kept of a virtual cluster; what is kept later is in a new scope."""
        self.ended.emit(cluster)

    def keep(self) -> dict[str, V]:
        """Return a mapping by virtual cluster."""
        kept: dict[str, V] = {}
        self._drop_from(kept)
        return kept

    def keep_each(self, factory: Callable[[], V]) -> defaultdict[str, V]:
        """Return a mapping by virtual cluster in which each has a value from the start."""
        kept: defaultdict[str, V] = defaultdict(factory)
        self._drop_from(kept)
        return kept

    def keep_by(self, cluster_of: Callable[[K], str]) -> dict[K, V]:
        """Return a mapping of which each key belongs to a virtual cluster."""
        kept: dict[K, V] = {}

        def drop(cluster: str) -> None:
            for key in [key for key in kept if cluster_of(key) == cluster]:
                del kept[key]

        self.ended.subscribe(drop)
        return kept

    def _drop_from(self, kept: MutableMapping[str, Any]) -> None:
        self.ended.subscribe(lambda cluster: kept.pop(cluster, None))
