"""What a start with many virtual clusters costs hub and host, and that it logs a line of it."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import pytest

from karmada_vc_agent.agent import Agent
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH, SELF_RULES_REVIEWS_PATH
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, dig
from tests.fakes import objects
from tests.fakes.api_server import KUBE_SYSTEM_UID, FakeApiServer, Request, written
from tests.fakes.served import HOST
from tests.fakes.storage import Place
from tests.fuzz.served_ways import _HUB

NAMES = [f"branch-{number:03}" for number in range(100)]
N = len(NAMES)
TAKEN_AFTER_S = 0.02
"""Karmada adds its finalizer to a new Cluster, and makes its execution namespace."""
SETTLED_S = 15.0
"""All are Ready and in the checkpoint by then, and each Lease was renewed at most twice."""
MOST: Mapping[str, Mapping[str, int]] = {
    "hub": {
        "POST selfsubjectaccessreviews": 0,
        "POST selfsubjectrulesreviews": 1,
        "POST clusters": N,
        "PATCH clusters": 0,
        "PATCH clusters/status": 3 * N // 2,
        "GET leases": 0,
        "POST leases": N,
        "PUT leases": 2 * N,
        "GET works": 2 * N,
        "POST events": N,  # the host serves no admission policies
    },
    "host": {
        "POST selfsubjectaccessreviews": 10,
        "POST selfsubjectrulesreviews": 4,
        "POST namespaces": N + 1,
        "PATCH configmaps": 20,
        "GET secrets": 64,
        "POST secrets": 32,
        "PATCH secrets": 40,
        "PATCH nodes": 0,
    },
}
"""Requests by verb and resource."""
OTHERS = 110
"""All others of one side together, however many virtual clusters there are."""


@asynccontextmanager
async def started() -> AsyncIterator[tuple[FakeApiServer, FakeApiServer]]:
    """Start an agent with many virtual clusters; yields hub and host."""
    async with FakeApiServer(_HUB) as hub, FakeApiServer(HOST) as host:
        _furnish(hub, host)
        config = CONFIG(
            agent_namespace="agents",
            virtual_clusters=tuple(map(objects.virtual_cluster, NAMES)),
        )
        ends = [Credentials(server.url, None, "a test") for server in (hub, host)]
        stop = asyncio.Event()
        task = asyncio.create_task(Agent(config, ends[0], ends[1]).run(stop))
        try:
            yield hub, host
        finally:
            stop.set()
            with suppress(Exception):
                await asyncio.wait_for(task, 10)


def _furnish(hub: FakeApiServer, host: FakeApiServer) -> None:
    """Give rights by name on the hub, as `join` does, and all of them on the host."""
    by_name = {
        "verbs": ["patch"],
        "apiGroups": ["cluster.karmada.io"],
        "resources": ["clusters/status"],
        "resourceNames": NAMES,
    }
    everything = {key: ["*"] for key in ("verbs", "apiGroups", "resources")}
    for server, rule in ((hub, by_name), (host, everything)):
        rules, allowed = {"resourceRules": [rule]}, {"allowed": True}
        server.answer(written({"status": rules}), 201, path=SELF_RULES_REVIEWS_PATH, times=9)
        server.answer(written({"status": allowed}), 201, path=SELF_ACCESS_REVIEWS_PATH, times=N)

    def take(name: str) -> None:
        live = hub.live(f"{CLUSTERS_PATH}/{name}")
        live["metadata"]["finalizers"] = [vocabulary.CLUSTER_FINALIZER]
        hub.seed(live, objects.namespace(vocabulary.execution_namespace(name)))

    def admit(place: Place, body: Object) -> Object:
        if place.served.kind == "Cluster" and not place.name:
            asyncio.get_running_loop().call_later(TAKEN_AFTER_S, take, body["metadata"]["name"])
        return body

    hub.admission.append(admit)
    hub.seed(objects.namespace(vocabulary.LEASE_NAMESPACE), objects.namespace("default"))
    host.seed(objects.namespace("kube-system", uid=KUBE_SYSTEM_UID))
    for name in NAMES:
        host.seed(objects.node(f"node-{name}", {"branch": name.removeprefix("branch-")}))


def _is_ready(cluster: Object) -> bool:
    conditions = dig(cluster, "status", "conditions") or []
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _sort(request: Request) -> str:
    """Return verb and resource of a request."""
    parts = request.path.strip("/").split("/")
    parts = parts[2 if parts[0] == "api" else 3 :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    subresource = f"/{parts[2]}" if len(parts) > 2 else ""
    return f"{request.method} {parts[0] if parts else ''}{subresource}"


async def test_start_costs_few_requests_for_each_virtual_cluster(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with started() as (hub, host):
        await asyncio.sleep(SETTLED_S)
        assert sum(map(_is_ready, hub.listed(CLUSTERS_PATH))) == N
        for side, server in (("hub", hub), ("host", host)):
            counts = Counter(map(_sort, server.requests))
            over = {what: counts[what] for what, most in MOST[side].items() if counts[what] > most}
            assert not over, side
            others = {what: count for what, count in counts.items() if what not in MOST[side]}
            assert sum(others.values()) <= OTHERS, (side, others)
    (serving,) = (record for record in caplog.records if record.getMessage() == "Serving")
    assert vars(serving)["virtual_clusters"].endswith("branch-009 and 90 more")
