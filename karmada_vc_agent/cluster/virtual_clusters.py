"""The registry of virtual clusters: which there are now, and who is to know when that changes.

Its sources, such as the settings file, say what they want; everybody else reads it as a mapping
and keeps no copy.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping

from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)


class VirtualClusters(Mapping[str, VirtualCluster]):
    """Virtual clusters by name, as they are now.

    changed: (old, new) of each that came, changed or went; None = was or is not there. Told once
    all of a change is in place, so that whoever listens sees the same as everybody else.
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
        """Whether virtual clusters share what there is: there is more than one."""
        return len(self._by_name) > 1

    def replace_all(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Have exactly these from now on; listeners hear of the differences only."""
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
