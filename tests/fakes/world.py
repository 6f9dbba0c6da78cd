"""The world a controller lives in: a hub, a host, and the agent between them, as it is built.

`world.parts` are those of the agent; only the clients and the clock are others. Nothing watches:
`look()` makes the stores equal to the servers, as reflectors would in time, and some time passes.
So a test says exactly what is known when.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

from karmada_vc_agent.cluster.hub_clusters import AgentState, Clock, cluster_id
from karmada_vc_agent.cluster.lease import Lead
from karmada_vc_agent.cluster.registration import LiveSettings
from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.feature_list import CONFIG, FEATURES
from karmada_vc_agent.features.quota import feature
from karmada_vc_agent.features.quota.feature import Divisions
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, Requeue
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner import controllers
from karmada_vc_agent.runner.clients import Clients
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.runner.service import Service
from karmada_vc_agent.telemetry.metrics import Metrics
from karmada_vc_agent.work.namespace_writer import BINDINGS
from karmada_vc_agent.work.works import work_path
from tests.fakes import objects, served
from tests.fakes.api_server import KUBE_SYSTEM_UID, FakeApiServer, written
from tests.fakes.storage import Change
from tests.fakes.watches import Watch, selects, tell

HOST_UID = KUBE_SYSTEM_UID
NOW = "2026-02-02T00:00:00Z"
AGENT = "karmada-vc-agent"
AGENT_NAMESPACE = "agents"
HUB_JUDGES = "-clusterStatus,*"
"""A Cluster is Ready where the hub has it so: a test says it with a condition."""
LOOKS_EVERY_S = 0.05
LOOK_S = 60.0
"""Passes with each look, so that every sync asks anew what is served."""

Setup = Callable[[Parts], ControllerSpec[Any] | None]


def fill(store: Store[Any], server: FakeApiServer, path: str, selector: str = "") -> None:
    """Make a store equal to a collection of a server, or to what a label selector selects."""
    version = {"resourceVersion": str(server.storage.version)}
    items = [obj for obj in server.listed(path) if selects(selector, obj)]
    content = written({"kind": "List", "metadata": version, "items": items})
    try:
        page = store.codec.page(content)
    except ValueError:
        page = store.codec.page(content, is_odd=True)
    store.replace_all(page.items, page.resource_version, page.unreadable)


def _receive(store: Store[Any], watch: Watch) -> None:
    """Take what a watch was told."""
    while not watch.lines.empty():
        event = store.codec.event(written(watch.lines.get_nowait()))
        assert event.obj is not None
        (store.remove if event.type == "DELETED" else store.apply)(event.obj)


class Watched(NamedTuple):
    """A store, and what of which server is in it."""

    store: Store[Any]
    server: FakeApiServer
    path: str
    selector: str = ""


class World:
    """Hub and host with two virtual clusters, branch-a and branch-b, unless told otherwise.

    status_due: virtual clusters whose status somebody wanted computed anew. enqueued: Works that
    something enqueued, whether it changed them or they share something with what changed.
    """

    def __init__(
        self,
        hub: FakeApiServer,
        host: FakeApiServer,
        virtual_clusters: Iterable[VirtualCluster],
        **settings: Any,
    ) -> None:
        self.hub, self.host = hub, host
        self.hub_client: ApiClient = hub.client("hub")
        self.host_client: ApiClient = host.client("host")
        host.answer(
            b'{"status": {"allowed": true}}', 201, path=SELF_ACCESS_REVIEWS_PATH, times=10_000
        )
        self.virtual_clusters = VirtualClusters(virtual_clusters)
        self.settings = settings
        self.skipped_s, self.now = 0.0, NOW
        self._begin(())

    def restart(
        self,
        *,
        reregister: Iterable[str] = (),
        **settings: Any,
    ) -> None:
        """Go on as another process, with these settings instead of those it had."""
        self.settings |= settings
        self.virtual_clusters = VirtualClusters(self.virtual_clusters.values())
        self._begin(reregister)
        self.look()

    def _begin(self, reregister: Iterable[str]) -> None:
        """Build the agent, as its process does."""
        config = CONFIG(
            **{
                "agent_name": AGENT,
                "agent_namespace": AGENT_NAMESPACE,
                "controllers": HUB_JUDGES,
                "virtual_clusters": tuple(self.virtual_clusters.values()),
                **self.settings,
            }
        )
        hub, host = self.hub_client, self.host_client
        self.common = Common(
            config,
            LiveSettings(config),
            Clients(hub, hub, hub, hub, host, host, host, host),
            AgentState(host, config.agent_namespace, config.agent_name),
            HOST_UID,
            self.virtual_clusters,
            Lead("this-process", lambda: True),
            Metrics(each.metrics for each in FEATURES),
            frozenset(reregister),
            clock=Clock(self.monotonic, lambda: self.now),
        )
        self._use(Parts(self.common, FEATURES))

    def serve(self) -> Service:
        """Return what a leader runs; the parts are its parts from now on."""
        service = Service(replace(self.common), FEATURES)
        self._use(service._parts)
        return service

    def _use(self, parts: Parts) -> None:
        self.parts = parts
        self._specs: dict[Setup, ControllerSpec[Any]] = {}
        self.enqueued: list[tuple[str, str]] = []
        self.status_due: list[str] = []
        signals, affected = self.parts.common.signals, self.parts.works.affected
        signals.work_due.subscribe(self.enqueued.append)
        signals.work_status.subscribe(lambda key, _: self.enqueued.append(key))
        signals.work_affected.subscribe(lambda work: self.enqueued.extend(affected.by_id(work)))
        signals.status_due.subscribe(self.status_due.append)
        # Listed before anything is claimed, so that it is known that no binding gives our rights.
        self.parts.works.store_of(BINDINGS)
        self._names()

    def _names(self) -> None:
        """Give short names to what tests work with."""
        common, works = self.parts.common, self.parts.works
        self.clusters, self.membership = common.stores.clusters, common.stores.membership
        self.claims, self.divisions = common.stores.claims, common.part(Divisions)
        self.nodes, self.pods = common.stores.nodes, common.stores.pods
        self.namespace_store = common.stores.namespaces
        self.host_discovery, self.hub_discovery = common.discoveries.host, common.discoveries.hub
        self.find_resource, self.held_changes = common.discoveries.find, common.held_changes
        self.works, self.bounds = works.watches.works, works.bounds
        self.store_of, self.recorder = works.store_of, works.recorder
        self.interpreter = works.interpreter
        self.levels = works.rules.levels
        self.context_for = works.contexts.context_for
        self.memory, self.finalizer, self.manifests = works.memory, works.finalizer, works.manifests
        self.host_objects, self.shared_objects = works.host_objects, works.shared_objects
        self.shared_names, self.namespace_writer = works.shared_names, works.namespace_writer

    def monotonic(self) -> float:
        """Return the time of the loop, and what was skipped of it."""
        return asyncio.get_running_loop().time() + self.skipped_s

    def spec(self, setup: Setup) -> ControllerSpec[Any]:
        """Return what the setup of a controller declares; it is set up once."""
        if setup not in self._specs:
            made = setup(self.parts)
            assert made is not None, "it is switched off"
            self._specs[setup] = made
        return self._specs[setup]

    @property
    def execution(self) -> ControllerSpec[tuple[str, str]]:
        """Return execution; each sync also has the status written that it told."""
        spec, writes = (
            self.spec(controllers.execution),
            self.spec(controllers.work_status),
        )

        async def reconcile(key: tuple[str, str]) -> Requeue | None:
            try:
                return await spec.reconcile(key)
            finally:
                await writes.reconcile(key)

        return replace(spec, reconcile=reconcile)

    @property
    def namespaces(self) -> ControllerSpec[Any]:
        return self.spec(controllers.namespaces)

    @property
    def quotas(self) -> ControllerSpec[str]:
        return self.spec(feature.setup)

    def look(self) -> None:
        """Make the stores equal to the servers."""
        self.skipped_s += LOOK_S
        for watched in self._watched():
            fill(*watched)

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Look again and again meanwhile, as for whoever waits until something is listed."""

        async def look() -> None:
            while True:
                await asyncio.sleep(LOOKS_EVERY_S)
                self.look()

        task = asyncio.ensure_future(look())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def follow(self) -> None:
        """Have the stores told of each change from now on, by watches faster than the answers."""
        self.hub.storage.listener = lambda change: self._tell(self.hub, change)
        self.host.storage.listener = lambda change: self._tell(self.host, change)

    def _tell(self, server: FakeApiServer, change: Change) -> None:
        for watched in self._watched():
            place = server.storage.place(watched.path) if watched.server is server else None
            if place is not None:
                watch = Watch(place, {"labelSelector": watched.selector})
                tell(watch, change)
                _receive(watched.store, watch)

    def _watched(self) -> Iterator[Watched]:
        """Yield the stores; those of Works once it is known which Clusters are there."""
        works, stores = self.parts.works, self.parts.common.stores
        for reflector in stores.reflectors:
            server = self.hub if reflector.store is stores.clusters.store else self.host
            yield Watched(reflector.store, server, reflector.path)
        for name in self.virtual_clusters:
            store = self.works.store(name)
            if store is not None:
                yield Watched(store, self.hub, work_path(vocabulary.execution_namespace(name)))
        for informers in (works.informers, works.shared_informers, works.group_informers):
            selector = informers.query.get("labelSelector", "")
            for path, store in informers.stores().items():
                yield Watched(store, self.host, path, selector)

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
async def new_world(*virtual_clusters: VirtualCluster, **settings: Any) -> AsyncIterator[World]:
    """Start a hub and a host; the namespaces that exist anyway are there. settings: CONFIG."""
    given = virtual_clusters or (
        objects.virtual_cluster("branch-a"),
        objects.virtual_cluster("branch-b"),
    )
    async with FakeApiServer(served.HUB) as hub, FakeApiServer(served.HOST) as host:
        hub.seed(objects.namespace("karmada-cluster"), objects.namespace("edge"))
        hub.seed(objects.namespace("default"))
        for vc in given:
            hub.seed(objects.namespace(vocabulary.execution_namespace(vc.name)))
        world = World(hub, host, given, **settings)
        world.look()
        yield world
