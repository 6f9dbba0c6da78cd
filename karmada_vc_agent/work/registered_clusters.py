"""Which virtual clusters have a Cluster on the hub that is ours, from when until when."""

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters, name_of_change
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.work_watches import WorkWatches


class RegisteredClusters:
    """Watches the Works of registered virtual clusters, and reports what else depends on it.

    The scope of a virtual cluster ends when its Cluster is deleted or no longer ours, or when it is
    served no more. became: one whose Ready on the
    hub changed. disputed: a node that several select, and whose owner may be another one now.
    """

    def __init__(
        self,
        virtual_clusters: VirtualClusters,
        clusters: HubClusters,
        membership: Membership,
        watches: WorkWatches,
        scopes: Scopes,
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._clusters = clusters
        self._membership = membership
        self._watches = watches
        self._scopes = scopes
        self._ready: dict[str, str | None] = scopes.keep()
        self.became: Signal[[str]] = Signal()
        self.disputed: Signal[[str]] = Signal()
        clusters.store.add_handler(self._changed)
        virtual_clusters.changed.subscribe(self._settings_changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        cluster = new or old
        name = cluster["metadata"]["name"] if cluster else ""
        if name not in self._virtual_clusters:
            return
        if self._clusters.ours(name) is None:
            self._end(name)
            return
        self._watches.start(name)
        if old is None:
            self._reconsider()
        # Not compared with `old`: after our own write that is what we wrote (Store.observe).
        if self._ready.get(name) != _ready_status(new):
            self._ready[name] = _ready_status(new)
            self.became.emit(name)

    def _settings_changed(self, old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        name = name_of_change(old, new)
        if new is None:
            self._watches.leave(name)
            self._end(name)
        elif old is None:
            self._changed(None, self._clusters.store.get("", name))
        elif old.bounds != new.bounds and self._clusters.ours(name) is not None:
            self._watches.restart(name)  # of what was out, not all is cached

    def _end(self, name: str) -> None:
        self._watches.stop(name)
        self._scopes.end(name)
        self._reconsider()

    def _reconsider(self) -> None:
        for node in self._membership.reconsider():
            self.disputed.emit(node)


def _ready_status(cluster: Object | None) -> str | None:
    for condition in dig(cluster, "status", "conditions") or ():
        if condition["type"] == "Ready":
            return str(condition["status"])
    return None
