"""What one virtual cluster costs its neighbour: in time, and in the memory that both share.

The neighbour gets single Works while the other one is quiet, while 200 of its Works hang in an
interpreter webhook that never answers, while the host takes 29 s for each write of 200 others, and
while 200 are of a kind that the host does not serve.
"""

import asyncio
import base64
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from bench import works
from bench.lab import Lab
from bench.measurements import Bench, Contestant, memory
from bench.process import AgentProcess
from bench.results import AgentResults, NeighbourResults
from bench.works import Object
from e2e.lab.webhook_server import VALIDATING, WebhookServer, validating
from karmada_vc_agent.kube.client import ApiClient

NEIGHBOUR = "bench-neighbour"
LOUD = "bench-loud"
LOUD_NAMESPACE = f"{works.NAMESPACE}-v-{LOUD}"
SLOW_S = 29.0
"""Less than the longest time-out of an admission webhook."""
TROUBLES = 200
"""Works that hang or fail."""
LARGE = 120
LARGE_BYTES = 1_000_000
LARGE_WRITERS = 2
"""More of them at once, and Karmada's own webhook takes too long for the API server."""
_WEBHOOKS = "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations"
_ANSWER_S = 10
"""What Karmada's webhooks are given by default."""


async def measure(
    lab: Lab,
    bench: Bench,
    servers: tuple[ApiClient, ApiClient],
    singles: int,
    results: NeighbourResults,
) -> None:
    """Measure one virtual cluster beside another that gives trouble. servers: hub and host."""
    hub, host = servers
    groups = {NEIGHBOUR: "1", LOUD: "2"}
    with lab.our_agent(groups) as agent:
        await bench.wait_ready(groups, agent)
        await bench.wait_namespace(groups)
        one = Contestant(NEIGHBOUR, agent, AgentResults())
        await bench.warm_up([one], works.config_map)
        results.quiet_ms = await _latencies(bench, one, singles)
        with _silent_webhook() as configuration:
            await hub.create(_WEBHOOKS, configuration)
            await bench.create_all((LOUD, works.service(f"silent-{n}")) for n in range(TROUBLES))
            results.beside_silent_ms = await _latencies(bench, one, singles)
            await hub.delete(f"{_WEBHOOKS}/{configuration['metadata']['name']}")
        async with slow_host(host):
            await bench.create_all((LOUD, works.config_map(f"slow-{n}")) for n in range(TROUBLES))
            results.beside_slow_host_ms = await _latencies(bench, one, singles)
        await _wait_written(host)
        await bench.create_all((LOUD, works.widget(f"unknown-{n}")) for n in range(TROUBLES))
        results.beside_unknown_ms = await _latencies(bench, one, singles)
        await _large(bench, agent, results)
    with lab.our_agent(groups) as agent:
        await bench.wait_ready(groups, agent)
        results.after_restart = await memory(agent)
        results.restart_peak_kb = agent.peak_rss_kb()


async def _latencies(bench: Bench, one: Contestant, singles: int) -> list[float]:
    """Return the milliseconds until each of so many single Works was applied."""
    one.results = AgentResults()
    await bench.singles([one], works.config_map, singles)
    return one.results.config_map.applied_ms


async def _large(bench: Bench, agent: AgentProcess, results: NeighbourResults) -> None:
    """Create large Works; those beyond the bound of bytes are refused."""
    results.before_large = await memory(agent)
    text = "x" * LARGE_BYTES
    await bench.create_all(
        ((LOUD, works.config_map(f"large-{number}", text)) for number in range(LARGE)),
        LARGE_WRITERS,
    )
    results.with_large = await memory(agent)


@asynccontextmanager
async def slow_host(host: ApiClient, namespace: str = LOUD_NAMESPACE) -> AsyncIterator[None]:
    """Have the host take long for each ConfigMap of a namespace."""
    released = threading.Event()

    def wait(_request: Object) -> Object:
        released.wait(SLOW_S)
        return {"allowed": True}

    with tempfile.TemporaryDirectory() as directory:
        server = WebhookServer(Path(directory), wait)
        configuration = validating("bench-slow", namespace, server)
        try:
            await host.create(VALIDATING, configuration)
            yield
            await host.delete(f"{VALIDATING}/bench-slow")
        finally:
            released.set()
            server.close()


async def _wait_written(host: ApiClient) -> None:
    """Wait until all that the host was slow with is there."""
    path = f"/api/v1/namespaces/{LOUD_NAMESPACE}/configmaps"
    while True:
        names = [each["metadata"]["name"] for each in (await host.get(path))["items"]]
        if sum(name.startswith("slow-") for name in names) == TROUBLES:
            return
        await asyncio.sleep(1.0)


@contextmanager
def _silent_webhook() -> Iterator[Object]:
    """Run a webhook for Services that answers nobody; yield its configuration for the hub."""
    released = threading.Event()

    def wait(_request: Object) -> Object:
        released.wait()
        return {"successful": True, "healthy": True}

    with tempfile.TemporaryDirectory() as directory:
        server = WebhookServer(Path(directory), wait)
        try:
            yield _configuration(server)
        finally:
            released.set()
            server.close()


def _configuration(server: WebhookServer) -> Object:
    rule = {
        "operations": ["InterpretHealth"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "kinds": ["Service"],
    }
    hook = {
        "name": "silent.bench.example",
        "rules": [rule],
        "clientConfig": {
            "url": server.url,
            "caBundle": base64.b64encode(server.ca_bundle).decode(),
        },
        "timeoutSeconds": _ANSWER_S,
        "interpreterContextVersions": ["v1alpha1"],
    }
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "bench-silent"},
        "webhooks": [hook],
    }
