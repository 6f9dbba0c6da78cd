"""Host objects that are reported on the Cluster, for as long as it lasts.

Such as adopted workloads whose pods keep the placement that they had.
"""

from collections import defaultdict

from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import ObjectKey


class NotedObjects:
    """By virtual cluster: host object -> its name on the hub, `Deployment edge/web`.

    changed: a virtual cluster for which one was added, removed or renamed.
    """

    def __init__(self, scopes: Scopes) -> None:
        self._objects: defaultdict[str, dict[ObjectKey, str]] = scopes.keep_each(dict)
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> list[str]:
        """Return what is recorded of a virtual cluster, sorted."""
        return sorted(self._objects.get(cluster, {}).values())

    def note(self, cluster: str, key: ObjectKey, text: str) -> None:
        """Remember an object."""
        if self._objects[cluster].get(key) != text:
            self._objects[cluster][key] = text
            self.changed.emit(cluster)

    def settled(self, cluster: str, key: ObjectKey) -> None:
        """Drop an object that is no longer reported, or was deleted."""
        if self._objects.get(cluster, {}).pop(key, None) is not None:
            self.changed.emit(cluster)
