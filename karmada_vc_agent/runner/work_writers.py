"""What writes for Works: host objects, namespaces, and the status and events of Works."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Concatenate, ParamSpec

from karmada_vc_agent.cluster.virtual_clusters import former_names
from karmada_vc_agent.config.presets import WARNINGS
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.kube.flows import FairSlots
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import tenancy
from karmada_vc_agent.model.domain import SHARED_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.switches import WORK_STATUS
from karmada_vc_agent.model.tenancy import SHARED, Guard
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.work_readers import WorkReaders
from karmada_vc_agent.work.host_objects import HostObjects
from karmada_vc_agent.work.hub_works import HubWorks
from karmada_vc_agent.work.manifests import Manifests
from karmada_vc_agent.work.namespaces.default_objects import DefaultObjects
from karmada_vc_agent.work.namespaces.namespace_rights import NamespaceRights
from karmada_vc_agent.work.namespaces.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.noted_objects import NotedObjects
from karmada_vc_agent.work.reflection import WorkStatus
from karmada_vc_agent.work.shared_names import SharedNames
from karmada_vc_agent.work.shared_objects import SharedObjects
from karmada_vc_agent.work.work_applier import LARGE_AT_ONCE
from karmada_vc_agent.work.work_events import WorkEvents
from karmada_vc_agent.work.work_finalizer import WorkFinalizer
from karmada_vc_agent.work.works import WorkKey

P = ParamSpec("P")


class WorkWriters:
    """The writers, by what they write.

    is_busy: whether so much waits that events are held back.
    """

    def __init__(
        self,
        common: Common,
        readers: WorkReaders,
        interpreter: Interpreter,
        is_busy: Callable[[], bool],
    ) -> None:
        self._common = common
        self._readers = readers
        clients = common.clients
        self.recorder = EventRecorder(
            clients.hub_events, is_busy, only_warnings=common.config.hub_events == WARNINGS
        )
        self.events = WorkEvents(self.recorder)
        common.signals.bound_met.subscribe(self.on_cluster(self.events.bound_met))
        common.stores.kept.over.subscribe(self.on_cluster(self.events.kept_less))
        common.held.changed.subscribe(self.on_cluster(self.events.namespace_held))
        former = partial(former_names, common.virtual_clusters)
        self.kept, self.owned = NotedObjects(common.scopes), NotedObjects(common.scopes)
        adoptions = common.hooks.placement_keeper(self.kept)
        self.shared_objects = SharedObjects(
            clients.host,
            self._shared_store_of,
            common.signals.work_affected.emit,
            interpreter,
            former,
            scopes=common.scopes,
        )
        self.shared_informers = InformerSet(
            clients.host,
            {"labelSelector": SHARED_LABEL},
            self.shared_objects.follow,
            supervisor=common.supervisor,
        )
        self.host_objects = HostObjects(
            clients.host,
            readers.store_of,
            interpreter,
            is_strict=common.config.tenancy == tenancy.STRICT,
            former_names=former,
            adoptions=adoptions,
            scopes=common.scopes,
        )
        self.shared_names = SharedNames(
            readers.informers,
            common.discoveries.host,
            common.signals.work_affected.emit,
            self._refuses_shared_hosts,
            former,
            scopes=common.scopes,
        )
        self.namespace_writer = self._namespace_writer()
        self.manifests = Manifests(
            self.host_objects,
            self.shared_objects,
            self.namespace_writer,
            common.discoveries.find,
            common.discoveries.host,
            readers.contexts.context_for,
            common.stores.membership.lost_node,
            self.shared_names,
            common.hooks.window_gate(self.host_objects, self.namespace_writer.may_hold),
            self.owned,
            common.scopes,
        )
        self.large_slots = FairSlots(LARGE_AT_ONCE, common.virtual_clusters.are_several)
        self.finalizer = self._finalizer()
        self.hub_works = HubWorks(
            clients.hub,
            readers.watches.works,
            readers.bounds,
            common.held_changes,
        )
        self.work_status = (
            WorkStatus(self._object_changed, self.events, interpreter)
            if WORK_STATUS in common.switches
            else None
        )

    def _finalizer(self) -> WorkFinalizer:
        common = self._common
        return WorkFinalizer(
            common.clients.hub,
            common.clients.host,
            common.stores.clusters,
            self._readers.watches.works,
            self.manifests,
            common.scopes,
            common.signals.status_due.emit,
            common.signals.work_affected.emit,
            self.events.sync_failed,
        )

    def _namespace_writer(self) -> NamespaceWriter:
        common, host, store_of = self._common, self._common.clients.host, self._readers.store_of
        return NamespaceWriter(
            host,
            common.stores.claims,
            self.host_objects,
            common.settings,
            DefaultObjects(host, store_of, common.settings, common.hooks.shares),
            NamespaceRights(
                host,
                store_of,
                common.config.agent_name,
                follows_kinds=common.config.tenancy == SHARED,
                clock=common.clock.monotonic,
            ),
            common.virtual_clusters,
            common.scopes,
        )

    def _refuses_shared_hosts(self, cluster: str) -> bool:
        """Whether a virtual cluster may not have a host that another one has."""
        config, vc = self._common.config, self._common.virtual_clusters.get(cluster)
        profile = tenancy.STRICT if config.refuse_shared_hosts else config.tenancy
        return vc is not None and tenancy.refuses(profile, vc.allow, Guard.SHARED_HOSTS)

    def _shared_store_of(self, resource: Resource) -> Store[Object] | None:
        return self.shared_informers.store(resource)

    def _object_changed(self, key: WorkKey, obj: Object | None) -> None:
        if key[0] in self._common.virtual_clusters:
            self._common.held_changes.changed(key, obj)

    def on_cluster(
        self, report: Callable[Concatenate[Object, P], None]
    ) -> Callable[Concatenate[str, P], None]:
        """Return what reports on the Cluster of a virtual cluster, if it is there and ours."""

        def reported(cluster: str, /, *args: P.args, **kwargs: P.kwargs) -> None:
            found = self._common.stores.clusters.ours(cluster)
            if found is not None:
                report(found, *args, **kwargs)

        return reported

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what they need running: name -> coroutine; nothing of it writes but events."""
        return {
            "informers of shared objects": self.shared_informers.run,
            "events": self.recorder.run,
        }

    def host_went_back(self) -> None:
        """Forget what was known to be on the host; none of it may be there."""
        self.host_objects.forget_all()
        self.namespace_writer.forget_all()
