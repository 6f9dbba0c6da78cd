"""Adopted workloads whose pods keep the placement that they came with, for now."""

from collections import defaultdict

from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import ObjectKey


class KeptPlacements:
    """By virtual cluster: host object -> what it is called on the hub, `Deployment edge/web`.

    changed: a virtual cluster for which one came or went.
    """

    def __init__(self) -> None:
        self._kept: defaultdict[str, dict[ObjectKey, str]] = defaultdict(dict)
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> list[str]:
        """Return what is kept of a virtual cluster, sorted."""
        return sorted(self._kept.get(cluster, {}).values())

    def note(self, cluster: str, key: ObjectKey, text: str) -> None:
        """Remember an object whose pods keep their placement."""
        if key not in self._kept[cluster]:
            self._kept[cluster][key] = text
            self.changed.emit(cluster)

    def settled(self, cluster: str, key: ObjectKey) -> None:
        """Take note of an object that is placed as its virtual cluster is, or gone."""
        if self._kept.get(cluster, {}).pop(key, None) is not None:
            self.changed.emit(cluster)

    def forget_cluster(self, cluster: str) -> None:
        """Forget a virtual cluster that is gone."""
        self._kept.pop(cluster, None)
