"""The registry of virtual clusters, and its signal of changes.

Its sources, such as the settings file, define them; all others read it as a mapping and keep no
copy.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping

from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)


class VirtualClusters(Mapping[str, VirtualCluster]):
    """Virtual clusters by name, as they are now.

    changed: (old, new) of each that was added, changed or removed; None = was or is not there.
    Emitted once all of a change is in place, so that listeners see the same as all others.
    """

    def __init__(self, virtual_clusters: Iterable[VirtualCluster] = ()) -> None:
        self._by_name = {vc.name: vc for vc in virtual_clusters}
        self.changed: Signal[[VirtualCluster | None, VirtualCluster | None]] = Signal()

    def __getitem__(self, name: str) -> VirtualCluster:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        """Iterate over a copy of the names, so that the registry may change meanwhile."""
        return iter(tuple(self._by_name))

    def __len__(self) -> int:
        return len(self._by_name)

    def are_several(self) -> bool:
        """Return True if there is more than one, which share what there is."""
        return len(self._by_name) > 1

    def replace_all(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Have exactly these from now on; listeners are notified of the differences only."""
        self._have({vc.name: vc for vc in virtual_clusters})

    def put(self, vc: VirtualCluster) -> None:
        """Have this one, instead of an earlier one of its name."""
        self._have({**self._by_name, vc.name: vc})

    def _have(self, by_name: dict[str, VirtualCluster]) -> None:
        before, self._by_name = self._by_name, by_name
        for name in dict.fromkeys((*before, *self._by_name)):
            old, new = before.get(name), self._by_name.get(name)
            if old is new or old == new:  # of many, most are the same
                continue
            try:
                self.changed.emit(old, new)
            except Exception:  # noqa: BLE001 - one virtual cluster must not cost the others
                _log.exception(
                    "Failed to handle a changed virtual cluster", extra={"virtual_cluster": name}
                )


def former_names(virtual_clusters: Mapping[str, VirtualCluster], cluster: str) -> tuple[str, ...]:
    """Return the earlier names of a virtual cluster that are free: none of them is served."""
    vc = virtual_clusters.get(cluster)
    names = vc.former_names if vc is not None else ()
    return tuple(name for name in names if name not in virtual_clusters)


def name_of_change(old: VirtualCluster | None, new: VirtualCluster | None) -> str:
    """Return the name of the virtual cluster that a change of the registry is about."""
    vc = new or old
    return vc.name if vc is not None else ""
