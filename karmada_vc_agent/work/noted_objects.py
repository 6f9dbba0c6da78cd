"""Host objects of which something is to be told on the Cluster, for as long as it lasts.

Such as adopted workloads whose pods keep the placement that they came with.
"""

from collections import defaultdict

from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import ObjectKey


class NotedObjects:
    """By virtual cluster: host object -> what it is called on the hub, `Deployment edge/web`.

    changed: a virtual cluster for which one came, went, or is called otherwise.
    """

    def __init__(self, scopes: Scopes) -> None:
        self._noted: defaultdict[str, dict[ObjectKey, str]] = scopes.keep_each(dict)
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> list[str]:
        """Return what is noted of a virtual cluster, sorted."""
        return sorted(self._noted.get(cluster, {}).values())

    def note(self, cluster: str, key: ObjectKey, text: str) -> None:
        """Remember an object."""
        if self._noted[cluster].get(key) != text:
            self._noted[cluster][key] = text
            self.changed.emit(cluster)

    def settled(self, cluster: str, key: ObjectKey) -> None:
        """Take note of an object of which nothing is to be told any more, or that is gone."""
        if self._noted.get(cluster, {}).pop(key, None) is not None:
            self.changed.emit(cluster)
