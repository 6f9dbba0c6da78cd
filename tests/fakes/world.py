"""The world a controller lives in: a hub, a host, the stores, who works with whom.

Nothing watches: `look()` makes the stores equal to the servers, as reflectors would in time.
So a test says exactly what is known when.
"""

import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from karmada_vc_agent.apply.default_objects import DefaultObjects
from karmada_vc_agent.apply.held_changes import HeldChanges
from karmada_vc_agent.apply.host_objects import HostObjects
from karmada_vc_agent.apply.manifests import Manifests
from karmada_vc_agent.apply.namespace_rights import NamespaceRights
from karmada_vc_agent.apply.namespace_writer import NAMESPACES, NamespaceWriter
from karmada_vc_agent.apply.reflection import WorkStatus
from karmada_vc_agent.apply.shared_names import NAME_INDEX, SharedNames
from karmada_vc_agent.apply.shared_objects import SharedObjects
from karmada_vc_agent.apply.work_events import WorkEvents
from karmada_vc_agent.apply.work_finalizer import WorkFinalizer
from karmada_vc_agent.controllers.cluster_status import pod_indexes
from karmada_vc_agent.controllers.execution import Collaborators, ExecutionController
from karmada_vc_agent.controllers.namespaces import NamespaceController
from karmada_vc_agent.controllers.quotas import QuotaController
from karmada_vc_agent.interpretation.hooks import HookLevel
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.kube.access_review import REVIEWS_PATH
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec, RawCodec, StructCodec
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.domain import CLUSTER_LABEL, SHARED_LABEL
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace
from karmada_vc_agent.model.objects import GroupVersionKind, Object, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.telemetry.collector import HOST_OBJECT_INDEX, cluster_label
from karmada_vc_agent.translation.context import TranslationContext, TranslationSettings
from karmada_vc_agent.translation.host_wide_names import index_keys
from karmada_vc_agent.translation.rbac_rules import admin_rules
from karmada_vc_agent.views.claims import Claims
from karmada_vc_agent.views.divisions import Divisions
from karmada_vc_agent.views.hub_clusters import CLUSTERS_PATH, ClusterCodec, HubClusters, cluster_id
from karmada_vc_agent.views.membership import Membership
from karmada_vc_agent.views.work_bounds import WorkBounds
from karmada_vc_agent.views.works import Works, is_of_cluster, namespaces_used
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer, written

HOST_UID = "3f2d9c1e-8a47-4c55-9a0b-6b1f0c2d7e11"
NOW = "2026-02-02T00:00:00Z"
AGENT = "karmada-vc-agent"


def fill(store: Store[Any], codec: Codec[Any], server: FakeApiServer, path: str) -> None:
    """Make a store equal to a collection of a server."""
    version = {"resourceVersion": str(server.storage.version)}
    items = server.listed(path)
    content = written({"kind": "List", "metadata": version, "items": items})
    try:
        page = codec.page(content)
    except ValueError:
        page = codec.page_by_items(content)
    store.replace_all(page.items, page.resource_version, page.unreadable)


class _AllRights(NamespaceRights):
    """An agent that runs with rights of its own, which no binding has to give."""

    async def ensure(self, *_: object) -> None:
        pass

    async def give_up(self, *_: object) -> None:
        pass


class World:
    """Hub and host with two virtual clusters, branch-a and branch-b, unless told otherwise."""

    def __init__(
        self, hub: FakeApiServer, host: FakeApiServer, virtual_clusters: Iterable[VirtualCluster]
    ) -> None:
        self.hub, self.host = hub, host
        self.hub_client: ApiClient = hub.client("hub")
        self.host_client: ApiClient = host.client("host")
        self.virtual_clusters = {vc.name: vc for vc in virtual_clusters}
        host.answer(b'{"status": {"allowed": true}}', 201, path=REVIEWS_PATH, times=10_000)
        self.settings = TranslationSettings(agent_name=AGENT)
        self.cluster_store: Store[Object] = Store(ClusterCodec())
        self.clusters = HubClusters(self.cluster_store, HOST_UID, self.virtual_clusters)
        self.nodes: Store[Node] = Store(StructCodec(Node))
        self.pods: Store[Pod] = Store(StructCodec(Pod), pod_indexes())
        self.namespace_store: Store[Object] = Store(RawCodec())
        self.claims = Claims(self.namespace_store, AGENT)
        self.membership = Membership(
            self.virtual_clusters.values(), self.nodes, self.clusters.created_at
        )
        self.work_store: Store[Object] = Store(RawCodec(), {Works.NAMESPACE_INDEX: namespaces_used})
        self.works = Works(dict.fromkeys(self.virtual_clusters, self.work_store))
        self.informers: dict[str, Store[Object]] = {}
        self.shared_informers: dict[str, Store[Object]] = {}
        self.recorder = EventRecorder(self.hub_client)
        self.barred: list[str] = []
        self.enqueued: list[tuple[str, str]] = []
        self.levels: list[HookLevel] = []
        self.interpreter = Interpreter(self.levels, lambda: 0.0)
        self.host_objects = HostObjects(self.host_client, self.store_of, self.interpreter)
        self.shared_objects = SharedObjects(
            self.host_client, self.shared_store_of, self.enqueue_id, self.interpreter
        )
        self.namespace_writer = NamespaceWriter(
            self.host_client,
            self.claims,
            self.host_objects,
            self.settings,
            DefaultObjects(self.host_client, self.store_of, self.settings),
            _AllRights(self.host_client, self.store_of, AGENT, follows_kinds=True),
        )
        self.namespaces = NamespaceController(
            self.namespace_writer,
            self.claims,
            self.virtual_clusters,
            lambda name: self.clusters.ours(name) is not None,
        )
        self.seconds = 0.0
        self.divisions = Divisions(lambda: self.seconds)
        self.looked_at: list[str] = []
        self.quotas = QuotaController(
            self.host_client,
            self.store_of,
            self.claims,
            self.membership,
            self.virtual_clusters,
            self.divisions,
            self.looked_at.append,
        )
        # An hour passes between two looks, so that every sync asks anew.
        hours = itertools.count(step=3600.0)
        self.host_discovery = Discovery(self.host_client, lambda: next(hours))
        self.hub_discovery = Discovery(self.hub_client)
        self.refuses_shared_hosts = False
        self.bounds = WorkBounds({})
        self.lists_in_time = True
        self.execution = self._execution()

    def bound(self, bounds: WorkBounds) -> None:
        """Have Works carried out within bounds."""
        self.bounds = bounds
        self.execution = self._execution()

    def refuse_shared_hosts(self) -> None:
        """Turn the setting on; what stands on the host stays."""
        self.refuses_shared_hosts = True
        self.execution = self._execution()

    def _execution(self) -> ExecutionController:
        events = WorkEvents(self.recorder)
        self.shared_names = SharedNames(
            self, self.enqueue_id, lambda _cluster: self.refuses_shared_hosts
        )
        self.manifests = manifests = Manifests(
            self.host_objects,
            self.shared_objects,
            self.namespace_writer,
            self.find_resource,
            self.context_for,
            self.membership.lost_node,
            self.shared_names,
        )
        self.finalizer = WorkFinalizer(
            self.hub_client,
            self.host_client,
            self.clusters,
            self.works,
            manifests,
            self.barred.append,
        )
        self.held_changes = HeldChanges(self.enqueued.append)
        self.work_status = WorkStatus(self.held_changes.changed, events, self.interpreter)
        self.collaborators = Collaborators(
            hub=self.hub_client,
            clusters=self.clusters,
            works=self.works,
            manifests=manifests,
            finalizer=self.finalizer,
            work_status=self.work_status,
            held_changes=self.held_changes,
            events=events,
            now=lambda: NOW,
            bounds=self.bounds,
        )
        return ExecutionController(self.virtual_clusters, self.collaborators)

    def store_of(self, resource: Resource) -> Store[Object] | None:
        if resource.gvk == NAMESPACES.gvk:
            return self.namespace_store
        indexes = {HOST_OBJECT_INDEX: cluster_label, NAME_INDEX: index_keys}
        return self.informers.setdefault(resource.path(), Store(RawCodec(), indexes))

    def known(self) -> Iterable[Store[Object]]:
        return self.informers.values()

    def needed(self) -> Iterable[Store[Object]]:
        if self.lists_in_time:
            self.look()
        return self.informers.values()

    def shared_store_of(self, resource: Resource) -> Store[Object] | None:
        return self.shared_informers.setdefault(resource.path(), Store(RawCodec()))

    def enqueue_id(self, work: str) -> None:
        namespace, _, name = work.partition("/")
        self.enqueued.append((cluster_of_execution_namespace(namespace) or "", name))

    async def find_resource(self, gvk: GroupVersionKind) -> Resource | None:
        return await self.host_discovery.find(gvk) or await self.hub_discovery.find(gvk)

    def context_for(self, vc: VirtualCluster, work: str) -> TranslationContext:
        return TranslationContext(
            vc=vc,
            settings=self.settings,
            claims=self.claims.of(vc.name),
            owns_node=lambda node: self.membership.owner_of(node) == vc.name,
            work=work,
            is_of_cluster=is_of_cluster(self.works.by_id(work), self.clusters.ours(vc.name)),
            admin_rules=admin_rules(self.host_discovery.served.namespaced),
        )

    def look(self) -> None:
        """Make the stores equal to the servers."""
        fill(self.cluster_store, ClusterCodec(), self.hub, CLUSTERS_PATH)
        fill(self.work_store, RawCodec(), self.hub, "/apis/work.karmada.io/v1alpha1/works")
        fill(self.namespace_store, RawCodec(), self.host, "/api/v1/namespaces")
        fill(self.nodes, StructCodec(Node), self.host, "/api/v1/nodes")
        fill(self.pods, StructCodec(Pod), self.host, "/api/v1/pods")
        for path, store in self.informers.items():
            items = self.host.listed(path)
            mine = [obj for obj in items if CLUSTER_LABEL in labels_of(obj)]
            store.replace_all(mine, str(self.host.storage.version))
        for path, store in self.shared_informers.items():
            items = self.host.listed(path)
            shared = [obj for obj in items if SHARED_LABEL in labels_of(obj)]
            store.replace_all(shared, str(self.host.storage.version))

    def vc(self, name: str = "branch-a") -> VirtualCluster:
        return self.virtual_clusters[name]

    def register(self, name: str = "branch-a", ready: str | None = "True", **fields: Any) -> Object:
        """Put a registered Cluster of ours on the hub."""
        conditions = [] if ready is None else [objects.ready(ready)]
        cluster = objects.cluster(name, cluster_id(HOST_UID, name), conditions=conditions)
        cluster["metadata"] |= fields
        return self.hub.seed(cluster)

    async def events(self) -> list[tuple[str, str, str]]:
        """Return (kind, reason, message) of all events on the hub, in order of writing."""
        await self.recorder.drain(10.0)
        found = sorted(
            self.hub.listed("/api/v1/events"), key=lambda e: int(e["metadata"]["resourceVersion"])
        )
        return [(e["involvedObject"]["kind"], e["reason"], e["message"]) for e in found]

    def forget_requests(self) -> None:
        self.hub.requests.clear()
        self.host.requests.clear()


@asynccontextmanager
async def new_world(*virtual_clusters: VirtualCluster) -> AsyncIterator[World]:
    """Start a hub and a host; the namespaces that exist anyway are there."""
    given = virtual_clusters or (
        objects.virtual_cluster("branch-a"),
        objects.virtual_cluster("branch-b"),
    )
    async with FakeApiServer(served.HUB) as hub, FakeApiServer(served.HOST) as host:
        hub.seed(objects.namespace("karmada-cluster"), objects.namespace("edge"))
        hub.seed(objects.namespace("default"))
        for vc in given:
            hub.seed(objects.namespace(karmada.execution_namespace(vc.name)))
        world = World(hub, host, given)
        world.look()
        yield world
