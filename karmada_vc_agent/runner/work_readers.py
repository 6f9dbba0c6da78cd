"""What follows Works on the hub, and on the host what they were made into."""

from collections.abc import Awaitable, Callable

from karmada_vc_agent.cluster.node_groups import NodeGroups
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.informers import IDLE_S, InformerSet
from karmada_vc_agent.kube.namespaced_watches import WatchScope
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.stores import HOST_OBJECT_INDEXES
from karmada_vc_agent.runner.translation_contexts import TranslationContexts
from karmada_vc_agent.translation.host_wide_names import index_keys
from karmada_vc_agent.translation.kind_policy import Policy, policy_for
from karmada_vc_agent.work.namespaces.namespace_writer import NAMESPACES
from karmada_vc_agent.work.served_kinds import ServedKinds
from karmada_vc_agent.work.shared_names import NAME_INDEX
from karmada_vc_agent.work.work_bounds import WorkBounds
from karmada_vc_agent.work.work_watches import WorkWatches
from karmada_vc_agent.work.works import binding_namespace, is_of_cluster


class WorkReaders:
    """Watches, informers, and what translation is told of their content."""

    def __init__(self, common: Common) -> None:
        self._common = common
        signals, hub, host = common.signals, common.clients.hub, common.clients.host
        kinds = common.settings.cluster_scoped_kinds
        self.bounds = WorkBounds(
            common.virtual_clusters,
            lambda gvk: policy_for(gvk, namespaced=False, configured=kinds) is Policy.SHARE,
            signals.work_due.emit,
            signals.bound_met.emit,
            common.stores.kept.take_status,
        )
        self.watches = WorkWatches(
            hub,
            common.virtual_clusters,
            signals.work.emit,
            self.bounds,
            cluster_wide=common.config.works_cluster_wide,
            supervisor=common.supervisor,
        )
        self.scope = WatchScope(host, self._claimed)
        common.stores.namespaces.add_handler(lambda *_: self.scope.changed())
        common.virtual_clusters.changed.subscribe(lambda *_: self.scope.changed())
        self.informers = InformerSet(
            host,
            {"labelSelector": CLUSTER_LABEL},
            signals.host_object.emit,
            {**HOST_OBJECT_INDEXES, NAME_INDEX: index_keys},
            common.supervisor,
            self.scope,
            IDLE_S,
            are_ours=True,
            codec=common.stores.kept,
        )
        self.group_informers = InformerSet(
            host, {}, signals.node_group.emit, supervisor=common.supervisor
        )
        self.served_kinds = ServedKinds(host, common.discoveries.host, signals.served.emit)
        self.contexts = self._contexts()

    def _contexts(self) -> TranslationContexts:
        common = self._common
        node_groups = NodeGroups(
            common.discoveries.known, self.group_informers.store, common.stores.membership
        )
        return TranslationContexts(
            common.settings,
            common.stores,
            self._is_of_cluster,
            lambda work: binding_namespace(self.watches.works.by_id(work)),
            common.discoveries.host,
            node_groups,
            common.signals.admin_rules.emit,
            common.virtual_clusters,
        )

    def _is_of_cluster(self, cluster: str, work: str) -> bool:
        found, owner = self.watches.works.by_id(work), self._common.stores.clusters.ours(cluster)
        return is_of_cluster(found, owner)

    def _claimed(self) -> list[str]:
        """Return the host namespaces of all virtual clusters served."""
        claims = self._common.stores.claims
        return [str(n) for vc in self._common.virtual_clusters for n in claims.of(vc).values()]

    def store_of(self, resource: Resource) -> Store[Object] | None:
        """Return what is known of our labelled objects of a resource."""
        if resource.gvk == NAMESPACES.gvk:
            return self._common.stores.namespaces
        return self.informers.store(resource)

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what reads: name -> coroutine."""
        return {
            "informers": self.informers.run,
            "informers of node groups": self.group_informers.run,
            "work watches": self.watches.run,
            "served kinds": self.served_kinds.run,
        }
