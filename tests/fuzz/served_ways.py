"""Ways in through a running service: hub and host tell it hostile things, a neighbour goes on.

The service is the real one, as the agent builds it; the API servers are the fake ones. After
each batch the process must live, the Works of the neighbour must be applied, and each hostile
Work must have been answered. A batch that fails is halved until one input is left.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from karmada_vc_agent.agent import Agent
from karmada_vc_agent.cluster.hub_clusters import cluster_id
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, copy_object, dig
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, NAMESPACE_LABEL, WORK_ANNOTATION
from karmada_vc_agent.work.works import applied_of
from tests.fakes import objects, served
from tests.fakes.api_server import KUBE_SYSTEM_UID, FakeApiServer
from tests.fakes.served import Served
from tests.fuzz import hostile, samples

TENANT, NEIGHBOUR = "branch-a", "branch-b"
PATIENCE_S = 120.0
POLL_S = 0.1
_CONFIG = "config.karmada.io/v1alpha1"
_HUB = (
    *served.HUB,
    Served(
        _CONFIG,
        "resourceinterpretercustomizations",
        "ResourceInterpreterCustomization",
        namespaced=False,
        is_custom=True,
    ),
    Served(
        _CONFIG,
        "resourceinterpreterwebhookconfigurations",
        "ResourceInterpreterWebhookConfiguration",
        namespaced=False,
        is_custom=True,
    ),
    Served("v1", "services", "Service", has_status=True),
)
_CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
_WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/{}/works"


class SufferedError(AssertionError):
    """The process ended, a neighbour had to wait, or nobody was told."""


class Field:
    """Hub, host and the agent between them."""

    def __init__(self, hub: FakeApiServer, host: FakeApiServer, agent: Agent) -> None:
        self.hub, self.host, self.agent = hub, host, agent
        self.task: asyncio.Task[None] | None = None
        self._probes = 0

    async def neighbour_lives(self) -> None:
        """Change a Work of the neighbour; host and status must follow. Raises SufferedError."""
        self._probes += 1
        number = self._probes
        data = objects.config_map("probe", "shop", str(number))
        probe = objects.work(data, vc=NEIGHBOUR, name="probe")
        self.hub.seed(probe)
        generation = self.hub.live(f"{_WORKS.format('karmada-es-branch-b')}/probe")["metadata"]
        path = "/api/v1/namespaces/shop-v-branch-b/configmaps/probe"

        def is_applied() -> bool:
            live = self.host.find(path)
            work = self.hub.live(f"{_WORKS.format('karmada-es-branch-b')}/probe")
            applied = applied_of(work.get("status"))
            was_reported = applied is not None and applied["status"] == "True"
            # A later probe may have come in between.
            return int(dig(live, "data", "value") or 0) >= number and was_reported

        await self.until(is_applied, f"the neighbour's Work {generation['name']} is not applied")

    async def until(self, is_so: Callable[[], bool], problem: str) -> None:
        """Wait for something. Raises SufferedError where it does not come, or the process ends."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not is_so():
            assert self.task is not None
            if self.task.done():
                error = self.task.exception() or "without an error"
                raise SufferedError(f"the process ended: {error!r}")
            if asyncio.get_running_loop().time() > deadline:
                raise SufferedError(problem)
            await asyncio.sleep(POLL_S)

    def say(self, server: FakeApiServer, plural: str, line: bytes) -> None:
        """Tell every watch of a resource a line, whatever is in it."""
        for watch in server._watches:
            of_tenant = watch.place.namespace in ("", vocabulary.execution_namespace(TENANT))
            if watch.place.served.plural == plural and of_tenant:
                watch.lines.put_nowait(orjson.Fragment(line))  # type: ignore[arg-type]  # as it is

    def heal(self) -> None:
        """Let everybody list again, and get true answers."""
        for server in (self.hub, self.host):
            server.watch_error(410, "Expired")


@asynccontextmanager
async def field(**settings: Any) -> AsyncIterator[Field]:
    """Start an agent that serves a tenant and a neighbour; the neighbour's Work is applied.

    settings: of CONFIG, besides those that make it quick.
    """
    async with FakeApiServer(_HUB) as hub, FakeApiServer(served.HOST) as host:
        _furnish(hub, host)
        config = CONFIG(
            agent_namespace="agents",
            install_policies=False,
            cluster_success_threshold=Duration(0),
            rate_limiter_max_delay=Duration(5),
            virtual_clusters=tuple(map(objects.virtual_cluster, (TENANT, NEIGHBOUR))),
            **settings,
        )
        ends = [Credentials(server.url, None, "a test") for server in (hub, host)]
        made = Field(hub, host, Agent(config, ends[0], ends[1]))
        stop = asyncio.Event()
        made.task = asyncio.create_task(made.agent.run(stop))
        try:
            await made.neighbour_lives()
            yield made
        finally:
            stop.set()
            with contextlib.suppress(Exception):
                await asyncio.wait_for(made.task, 10)


def _furnish(hub: FakeApiServer, host: FakeApiServer) -> None:
    for server in (hub, host):
        server.answer(
            b'{"status": {"allowed": true}}', 201, path=SELF_ACCESS_REVIEWS_PATH, times=10**9
        )
    hub.seed(objects.namespace(vocabulary.LEASE_NAMESPACE), objects.namespace("default"))
    host.seed(objects.namespace("kube-system", uid=KUBE_SYSTEM_UID), objects.namespace("default"))
    for name in (TENANT, NEIGHBOUR):
        hub.seed(objects.namespace(vocabulary.execution_namespace(name)))
        hub.seed(objects.cluster(name, cluster_id(KUBE_SYSTEM_UID, name)))
        host.seed(objects.node(f"node-{name}", {"branch": name.removeprefix("branch-")}))
    hub.seed(objects.work(objects.namespace_manifest("shop"), vc=NEIGHBOUR, name="shop"))
    hub.seed(objects.work(objects.config_map("mine"), vc=TENANT, name="mine"))


# --- what is told -----------------------------------------------------------------------

Told = tuple[str, Any]
"""How it is told, and what: work, hub or host line, hub or host object, list, answer."""


@dataclass(frozen=True)
class ServedWay:
    """A way in through the running service; spoiled: makes one input."""

    name: str
    spoiled: Callable[[random.Random], Told]


def _work(rng: random.Random) -> Told:
    """Return a Work with good metadata and manifests of any shape."""
    number = rng.randrange(1, 4)
    manifests = [hostile.mutated(rng, rng.choice(_MANIFESTS)) for _ in range(number)]
    work = objects.work(*manifests, name="x")
    if rng.random() < 0.1:
        work["spec"] |= {"suspendDispatching": hostile.value(rng)}
    return "work", work


def _line(side: str, plural: str, made: Callable[[], Sequence[Object]]) -> Any:
    """Return what makes lines of a watch."""

    def spoiled(rng: random.Random) -> Told:
        found = made()
        kind = rng.choice(("ADDED", "MODIFIED", "MODIFIED", "DELETED"))
        event = {"type": kind, "object": hostile.mutated(rng, rng.choice(found))}
        line = hostile.encoded(event)
        if rng.random() < 0.02:
            line = hostile.torn(rng, line).replace(b"\n", b" ")
        if rng.random() < 0.02:
            depth = rng.randrange(200, 4000)
            line = line.replace(b'"name"', b'"d":' + b"[" * depth + b"]" * depth + b',"name"', 1)
        if b"branch-b" in line:  # a lie about the neighbour itself is another matter
            line = b'{"type":"MODIFIED","object":{}}'
        return f"{side} {plural}", line

    return spoiled


def _edited(rng: random.Random) -> Told:
    """Return an object of the host as somebody edited it: our marks and all else."""
    live = copy_object(rng.choice(_LIVE))
    metadata = live["metadata"]
    changed = hostile.mutated(rng, {k: v for k, v in live.items() if k != "metadata"})
    live |= changed if isinstance(changed, dict) else {}
    for field_ in ("labels", "annotations"):
        for key in list(metadata.get(field_) or {}):
            if rng.random() < 0.4:
                text = hostile.value(rng)
                metadata[field_][key] = text if isinstance(text, str) else str(text)
    kept = {"apiVersion": "example.com/v1", "kind": "Widget"}
    name = f"w{rng.randrange(10**9)}"
    made = {**live, **kept, "metadata": {**metadata, "name": name, "namespace": _TENANTS}}
    return "host object", made


def _lease(rng: random.Random) -> Told:
    """Return the Lease of the tenant's Cluster as somebody edited it."""
    lease = hostile.mutated(rng, samples.leases()[2])
    spec = dig(lease, "spec")
    annotations = dig(lease, "metadata", "annotations")
    metadata: Object = {"name": TENANT, "namespace": vocabulary.LEASE_NAMESPACE}
    if isinstance(annotations, dict):
        metadata["annotations"] = {str(key): str(text) for key, text in annotations.items()}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return "hub object", {**kind, "metadata": metadata, "spec": spec}


def _discovery(rng: random.Random) -> Told:
    """Return what the host says that it serves."""
    root = rng.choice(("/api", "/apis"))
    document = served.discovery(root, served.HOST, aggregated=True, stale=frozenset())
    spoiled = hostile.encoded(hostile.mutated(rng, document))
    return f"answer {root}", hostile.torn(rng, spoiled) if rng.random() < 0.3 else spoiled


_LISTS: tuple[tuple[str, str, Callable[[], Sequence[Object]]], ...] = (
    ("hub", _WORKS.format(vocabulary.execution_namespace(TENANT)), samples.works),
    ("hub", _CLUSTERS, samples.clusters),
    ("host", "/api/v1/nodes", samples.nodes),
    ("host", "/api/v1/namespaces", samples.namespaces),
    ("host", "/api/v1/pods", samples.pods),
    ("host", "/api/v1/configmaps", samples.host_objects),
)


def _list(rng: random.Random) -> Told:
    """Return the seed of what is done to the next list of a collection."""
    side, path, _ = rng.choice(_LISTS)
    return f"{side} list {path}", rng.randrange(2**63)


def spoiled_list(listed: Object, path: str, of_seed: int) -> bytes:
    """Spoil the true answer to a list, but tell no lie about the neighbour.

    Items of the tenant change, others come in between, the page's own fields change, or the
    bytes are torn so that they are no JSON at all.
    """
    rng = random.Random(of_seed)  # noqa: S311 - no secret
    (made,) = [made for _, each, made in _LISTS if each == path]
    items = [
        item if b"branch-b" in orjson.dumps(item) else hostile.mutated(rng, item)
        for item in listed["items"]
    ]
    for _ in range(rng.randrange(3)):
        stranger = hostile.mutated(rng, rng.choice(made()))
        if b"branch-b" not in orjson.dumps(stranger):
            items.insert(rng.randrange(len(items) + 1), stranger)
    listed = {**listed, "items": items}
    match rng.randrange(8):
        case 0:
            listed["metadata"] = hostile.mutated(rng, listed["metadata"])
        case 1:
            listed["kind"] = hostile.value(rng)
        case 2:
            listed["items"] = rng.choice(("x", 7, True, {"a": 1}))
        case 3:
            return hostile.unreadable(rng, hostile.encoded(listed))
    return hostile.encoded(listed)


_TENANTS = "edge-v-branch-a"
_MANIFESTS = samples.manifests()
_LIVE = [
    {
        **live,
        "metadata": {
            **{k: v for k, v in live["metadata"].items() if k in ("labels", "annotations")},
            "name": "x",
        },
    }
    for live in samples.host_objects()
]
_WIDGETS = [
    {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": "one",
            "namespace": _TENANTS,
            "uid": "u",
            "resourceVersion": "99999",
            "labels": {CLUSTER_LABEL: TENANT, NAMESPACE_LABEL: "edge"},
            "annotations": {WORK_ANNOTATION: "karmada-es-branch-a/mine"},
        },
        "spec": {"a": [1]},
        "status": {"ready": True},
    }
]

SERVED_WAYS: dict[str, ServedWay] = {
    way.name: way
    for way in (
        ServedWay("served-works", _work),
        ServedWay("served-work-events", _line("hub", "works", samples.works)),
        ServedWay("served-clusters", _line("hub", "clusters", samples.clusters)),
        ServedWay(
            "served-customizations",
            _line("hub", "resourceinterpretercustomizations", samples.customizations),
        ),
        ServedWay(
            "served-webhooks",
            _line(
                "hub", "resourceinterpreterwebhookconfigurations", samples.webhook_configurations
            ),
        ),
        ServedWay("served-nodes", _line("host", "nodes", samples.nodes)),
        ServedWay("served-pods", _line("host", "pods", samples.pods)),
        ServedWay("served-namespaces", _line("host", "namespaces", samples.namespaces)),
        ServedWay("served-host-events", _line("host", "widgets", lambda: _WIDGETS)),
        ServedWay("served-edited-objects", _edited),
        ServedWay("served-leases", _lease),
        ServedWay("served-discovery", _discovery),
        ServedWay("served-lists", _list),
    )
}
"""The ways in that take a running service, by name."""


# --- telling it -------------------------------------------------------------------------


async def endure(batch: Sequence[Told]) -> None:
    """Tell a running service all of a batch at once, and look who suffers. Raises SufferedError."""
    async with field() as here:
        await tell(here, batch)


async def tell(here: Field, batch: Sequence[Told]) -> None:
    """Tell all of a batch, and look who suffers. Raises SufferedError."""
    works: list[str] = []
    lists: dict[tuple[FakeApiServer, str], list[int]] = {}
    for number, (how, what) in enumerate(batch):
        side, _, where = how.partition(" ")
        server = here.host if side == "host" else here.hub
        if how == "work":
            name = f"hostile-{number}"
            here.hub.seed({**what, "metadata": {**what["metadata"], "name": name}})
            works.append(name)
        elif side == "answer":
            here.host.answer(what, path=where)
            unknown = {"apiVersion": "un.known/v1", "kind": f"K{number}", "metadata": {"name": "x"}}
            here.hub.seed(objects.work(unknown, name=f"unknown-{number}"))
        elif where == "object":
            server.seed(what)
        elif where.startswith("list "):
            lists.setdefault((server, where.removeprefix("list ")), []).append(what)
        else:
            here.say(server, where, what)
    await here.neighbour_lives()
    # A spoiled Cluster may end the tenant, and nobody lists its Works then.
    of_clusters = lists.pop((here.hub, _CLUSTERS), [])
    told = [_spoil_lists(here, server, where, seeds) for (server, where), seeds in lists.items()]
    await asyncio.gather(*told)
    await _spoil_lists(here, here.hub, _CLUSTERS, of_clusters)
    path = _WORKS.format(vocabulary.execution_namespace(TENANT))

    def silent() -> list[str]:
        found = {work["metadata"]["name"]: work for work in here.hub.listed(path)}
        return [name for name in works if not dig(found.get(name), "status", "conditions")]

    await here.until(lambda: not silent(), f"no condition on {silent()[:3]}")
    for name in works:
        here.hub.remove(f"{path}/{name}")
    here.heal()
    await here.neighbour_lives()


async def _spoil_lists(here: Field, server: FakeApiServer, path: str, seeds: Sequence[int]) -> None:
    """Let a collection be listed again, spoiled each time, and look who suffers."""
    for of_seed in seeds:
        told = asyncio.Event()

        def spoil(listed: Object, told: asyncio.Event = told, of_seed: int = of_seed) -> bytes:
            told.set()
            return spoiled_list(listed, path, of_seed)

        server.spoil_list(path, spoil)
        server.watch_error(410, "Expired")
        await here.until(told.is_set, f"{path} is not listed again")
        await here.neighbour_lives()


async def culprit(batch: Sequence[Told], run: Callable[[Sequence[Told]], Awaitable[None]]) -> Told:
    """Return one input of a batch that fails by itself, or the first where none does."""
    while len(batch) > 1:
        half = len(batch) // 2
        try:
            await run(batch[:half])
        except SufferedError:
            batch = batch[:half]
        else:
            batch = batch[half:]
    return batch[0]
