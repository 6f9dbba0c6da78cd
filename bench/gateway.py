"""What the gateway adds to a request, and what many watches through it cost.

Direct requests and those through the gateway take turns on connections that are kept open, so that
both meet the same machine.
"""

import asyncio
import http.client
import json
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import click

from e2e.lab.api import Api
from e2e.lab.lone_gateway import LoneGateway, config_map, pod
from e2e.lab.lone_server import lone_api_server
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig

WATCH_S = 32
"""How often Karmada cuts its watches."""
CONFIG_MAPS = 50
GOALS = {"added_p50_ms": 3.0, "list_share": 0.5, "memory_mb": 150.0}


@dataclass
class Latency:
    """Milliseconds of direct requests and of those through the gateway."""

    direct_p50: float
    direct_p99: float
    gateway_p50: float
    gateway_p99: float

    @property
    def added_p50(self) -> float:
        return self.gateway_p50 - self.direct_p50

    @property
    def added_p99(self) -> float:
        return self.gateway_p99 - self.direct_p99


@dataclass
class Measured:
    """All that is measured; memory in MB."""

    get: Latency
    list: Latency
    pods: int
    list_direct_s: float
    list_gateway_s: float
    list_mb: float
    idle_memory_mb: float
    watches: int
    watch_memory_mb: float
    watches_opened: int
    events: int
    cpu_share: float
    busy_get_p50_ms: float


class Client:
    """One connection that is kept open."""

    def __init__(self, url: str, tls: ssl.SSLContext, headers: dict[str, str]) -> None:
        parts = urlsplit(url)
        self._prefix = parts.path.rstrip("/")
        self._headers = headers
        self._connection = http.client.HTTPSConnection(parts.netloc, context=tls, timeout=120)
        self._connection.connect()

    def get(self, path: str) -> bytes:
        self._connection.request("GET", self._prefix + path, headers=self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:300]!r}")
        return content

    def took_ms(self, path: str) -> float:
        started = time.perf_counter()
        self.get(path)
        return (time.perf_counter() - started) * 1000


def direct(host: Api) -> Client:
    """Return a client of the API server itself."""
    credentials = read_kubeconfig(host.kubeconfig)
    tls = credentials.ssl_context or ssl.create_default_context()
    return Client(credentials.server, tls, {"Accept": "application/json"})


def through(gateway: LoneGateway, cluster: str) -> Client:
    """Return a client of the gateway."""
    headers = {
        "Accept": "application/json",
        "Authorization": f"Bearer {gateway.tokens[cluster, 'access']}",
    }
    return Client(gateway.url(cluster), trust(gateway), headers)


def trust(gateway: LoneGateway) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(gateway.ca))


def compare(first: Callable[[], float], second: Callable[[], float], count: int) -> Latency:
    """Let both take turns."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(count + 20):
        for into, measure in zip(found, (first, second), strict=True):
            took = measure()
            if number >= 20:
                into.append(took)
    cut = [statistics.quantiles(values, n=100) for values in found]
    return Latency(cut[0][49], cut[0][98], cut[1][49], cut[1][98])


def memory_mb(pid: int) -> float:
    """Return the RSS of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@dataclass
class Watching:
    opened: int = 0
    events: int = 0


async def watch(
    gateway: LoneGateway, clusters: tuple[str, ...], for_s: float, seen: Watching
) -> None:
    """Keep watches on pods and nodes open for each cluster, cut as Karmada cuts them."""
    connector = aiohttp.TCPConnector(limit=0, ssl=trust(gateway))
    end = time.monotonic() + for_s
    async with aiohttp.ClientSession(connector=connector) as session:

        async def one(cluster: str, resource: str, wait_s: float) -> None:
            await asyncio.sleep(wait_s)
            headers = {"Authorization": f"Bearer {gateway.tokens[cluster, 'access']}"}
            url = f"{gateway.url(cluster)}api/v1/{resource}?watch=true&allowWatchBookmarks=true"
            url += "&resourceVersion=0"
            while time.monotonic() < end:
                seen.opened += 1
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(WATCH_S, end - time.monotonic())):
                        async with session.get(url, headers=headers) as answer:
                            answer.raise_for_status()
                            async for _ in answer.content:
                                seen.events += 1

        async with asyncio.TaskGroup() as group:
            for number, cluster in enumerate(clusters):
                for resource in ("pods", "nodes"):
                    group.create_task(one(cluster, resource, WATCH_S * number / len(clusters)))


def _tell(text: str) -> None:
    print(f"hack/bench: {text}", file=sys.stderr)


def _fill(host: Api, cluster: str, pods: int) -> None:
    for number in range(CONFIG_MAPS):
        host.create(config_map(f"edge-v-{cluster}", f"m{number}", pad="x" * 200))
    with ThreadPoolExecutor(8) as pool:
        each = (pod(f"shop-v-{cluster}", f"p{n}", f"node-{cluster}") for n in range(pods))
        list(pool.map(host.create, each))


@contextmanager
def _field(clusters: int) -> Iterator[tuple[Api, LoneGateway]]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-gateway-") as folder,
        lone_api_server(Path(folder, "host")) as host,
    ):
        names = tuple(f"vc-{number}" for number in range(clusters))
        gateway = LoneGateway(host, Path(folder), names)
        _tell(f"preparing {clusters} virtual clusters")
        gateway.prepare()
        gateway.start(audit=False)
        try:
            yield host, gateway
        finally:
            gateway.stop()


def measure(clusters: int, pods: int, count: int, for_s: float) -> Measured:
    """Run it all."""
    with _field(clusters) as (host, gateway):
        first = gateway.clusters[0]
        idle = memory_mb(gateway.pid)
        _tell(f"creating {pods} pods")
        _fill(host, first, pods)
        straight, shown = direct(host), through(gateway, first)
        _tell("taking turns")
        get = compare(
            lambda: straight.took_ms(f"/api/v1/namespaces/edge-v-{first}/configmaps/m1"),
            lambda: shown.took_ms("/api/v1/namespaces/edge/configmaps/m1"),
            count,
        )
        lists = compare(
            lambda: straight.took_ms(f"/api/v1/namespaces/edge-v-{first}/configmaps"),
            lambda: shown.took_ms("/api/v1/namespaces/edge/configmaps"),
            count,
        )
        large = len(json.loads(shown.get("/api/v1/pods"))["items"])
        if large != pods:
            raise RuntimeError(f"{large} pods are shown of {pods}")
        size = len(straight.get("/api/v1/pods")) / 1e6
        whole = compare(
            lambda: straight.took_ms("/api/v1/pods"), lambda: shown.took_ms("/api/v1/pods"), 5
        )
        _tell(f"watching for {for_s:.0f} s")
        seen = Watching()
        used, started = cpu_s(gateway.pid), time.monotonic()
        busy = asyncio.run(_watch_and_ask(gateway, for_s, seen, shown))
        spent = (cpu_s(gateway.pid) - used) / (time.monotonic() - started)
        return Measured(
            get=get,
            list=lists,
            pods=pods,
            list_direct_s=whole.direct_p50 / 1000,
            list_gateway_s=whole.gateway_p50 / 1000,
            list_mb=size,
            idle_memory_mb=idle,
            watches=2 * clusters,
            watch_memory_mb=memory_mb(gateway.pid),
            watches_opened=seen.opened,
            events=seen.events,
            cpu_share=spent,
            busy_get_p50_ms=busy,
        )


async def _watch_and_ask(
    gateway: LoneGateway, for_s: float, seen: Watching, client: Client
) -> float:
    """Watch, and return how long a get takes meanwhile, in ms."""
    took: list[float] = []

    async def ask() -> None:
        await asyncio.sleep(WATCH_S)
        while True:
            path = "/api/v1/namespaces/edge/configmaps/m1"
            took.append(await asyncio.to_thread(client.took_ms, path))
            await asyncio.sleep(0.1)

    asking = asyncio.create_task(ask())
    await watch(gateway, gateway.clusters, for_s, seen)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    return statistics.median(took)


def table(found: Measured) -> str:
    """Return what was measured, beside its goals."""
    share = found.list_direct_s / found.list_gateway_s
    rows: list[tuple[str, str, str]] = [
        ("get, added p50 / p99, ms", f"{found.get.added_p50:.1f} / {found.get.added_p99:.1f}", "3"),
        ("  direct p50 / p99", f"{found.get.direct_p50:.1f} / {found.get.direct_p99:.1f}", ""),
        (
            "list of 50, added p50 / p99, ms",
            f"{found.list.added_p50:.1f} / {found.list.added_p99:.1f}",
            "3",
        ),
        ("  direct p50 / p99", f"{found.list.direct_p50:.1f} / {found.list.direct_p99:.1f}", ""),
        (
            f"list of {found.pods} pods ({found.list_mb:.1f} MB), s",
            f"{found.list_gateway_s:.2f}, direct {found.list_direct_s:.2f}",
            "",
        ),
        ("  throughput of direct", f"{share:.2f}", "0.5"),
        ("memory, idle, MB", f"{found.idle_memory_mb:.0f}", ""),
        (f"memory, {found.watches} watches, MB", f"{found.watch_memory_mb:.0f}", "150"),
        ("  watches opened, events", f"{found.watches_opened}, {found.events}", ""),
        ("  CPU, of a core", f"{found.cpu_share:.2f}", ""),
        ("  get p50 meanwhile, ms", f"{found.busy_get_p50_ms:.1f}", ""),
    ]
    lines = [f"| {name} | {value} | {goal} |" for name, value, goal in rows]
    return "\n".join(["| | measured | goal |", "|---|---|---|", *lines])


def results(found: Measured) -> dict[str, Any]:
    """Return what is written to a file."""
    return {"gateway": asdict(found), "goals": GOALS}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Small numbers: does it work at all?")
@click.option("--clusters", default=100, show_default=True, type=click.IntRange(1, 500))
@click.option("--pods", default=5000, show_default=True, type=click.IntRange(1, 20_000))
@click.option("--requests", "count", default=400, show_default=True, type=click.IntRange(10))
@click.option("--seconds", default=96.0, show_default=True, help="How long watches are kept open.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write, too.")
def command(
    *, quick: bool, clusters: int, pods: int, count: int, seconds: float, output: Path | None
) -> None:
    r"""Measure what the gateway adds to requests, and what watches through it cost.

    Starts an API server of its own. Direct requests and those through the gateway take turns.

    \b
    Examples:
      hack/bench gateway
      hack/bench gateway --quick
    """
    if quick:
        clusters, pods, count, seconds = 5, 300, 50, 40.0
    found = measure(clusters, pods, count, seconds)
    print(table(found))
    if output is not None:
        output.write_text(json.dumps(results(found), indent=2) + "\n")


if __name__ == "__main__":
    command(prog_name="hack/bench gateway")
