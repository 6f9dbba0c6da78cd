"""What VirtualCluster objects cost the virtual clusters that have Works.

Two agents, each on a host of its own, serve three virtual clusters of their settings files. Both
get the same Works in turns: first without objects, then while the one has many, each of which is
registered as a Cluster. So the one agent shows what hub and machine feel, the other one the rest.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import msgspec
import yaml

from bench import works
from bench.lab import GROUP_LABEL, ROOT, Lab, node_groups
from bench.measurements import Bench, Contestant, idle_cpu_percent, in_turns, memory_now
from bench.process import AgentProcess
from bench.results import AgentResults, ObjectsPhase, ObjectsResults, StatusWrites
from bench.watcher import Watcher
from karmada_vc_agent.cluster.rules.conditions import find_condition
from karmada_vc_agent.features.objects.definitions import API_VERSION, KIND, PATH
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import UnreachableError

ALONE = node_groups("bench-alone", 3)
BESIDE = node_groups("bench-beside", 3)
HOSTS = {**dict.fromkeys(ALONE, "host"), **dict.fromkeys(BESIDE, "host2")}
"""The file's virtual clusters -> their host; the objects are on the second one."""
FIRST = 100
"""How many objects there are when memory is measured first."""
NODES = 12
"""Of each host: those that the file's virtual clusters do not have are the first objects'."""
BURSTS = 2
SETTLE_S = 6.0
REGISTERED_S = 600.0
CHANGES_S = 16.0
CHANGED = 50
"""Objects that change, each once a second."""
WRITERS = 8
_CRD = ROOT / "manifests" / "base" / "crd.yaml"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Say = Callable[[str], None]


class _Event(msgspec.Struct):
    type: str
    object: dict[str, object]


class StatusWatch:
    """Notes when the status of each object was written, in seconds of `time.monotonic`."""

    def __init__(self) -> None:
        self._status: dict[str, object] = {}
        self._writes: list[tuple[float, str]] = []

    async def run(self, host: ApiClient) -> None:
        """Follow the objects until cancelled."""
        decoder = msgspec.json.Decoder(_Event)
        while True:
            with suppress(UnreachableError):
                async for line in host.watch(PATH, {}):
                    self._note(decoder.decode(line).object)

    def _note(self, obj: dict[str, object]) -> None:
        metadata = obj["metadata"]
        assert isinstance(metadata, dict)  # noqa: S101 - as every API server sends it
        name, status = metadata["name"], obj.get("status")
        if status is not None and status != self._status.get(name):
            self._status[name] = status
            self._writes.append((time.monotonic(), name))

    def since(self, begin: float) -> StatusWrites:
        """Return how often statuses were written from a moment on."""
        times: dict[str, list[float]] = defaultdict(list)
        for at, name in self._writes:
            if at >= begin:
                times[name].append(at)
        gaps = [b - a for each in times.values() for a, b in pairwise(each)]
        return StatusWrites(
            seconds=round(time.monotonic() - begin, 1),
            writes=sum(map(len, times.values())),
            objects=len(times),
            most_of_one=max(map(len, times.values()), default=0),
            shortest_gap_s=round(min(gaps), 2) if gaps else None,
        )


async def measure(
    lab: Lab,
    bench: Bench,
    watcher: Watcher,
    clients: dict[str, ApiClient],
    results: ObjectsResults,
    say: Say,
) -> None:
    """Measure both agents without objects, then the one with them. clients: by kubeconfig."""
    host = clients["host2"]
    await host.create(_CRDS, yaml.safe_load(_CRD.read_text()))
    with (
        lab.our_agent(ALONE, "host") as alone,
        lab.our_agent(BESIDE, "host2", objects=True) as beside,
    ):
        pairs = [_contestants(ALONE, alone), _contestants(BESIDE, beside)]
        await bench.wait_ready(ALONE, alone)
        await bench.wait_ready(BESIDE, beside)
        async with _watching(watcher, clients) as statuses:
            await bench.make_namespace(HOSTS)
            await bench.warm_up([one for pair in zip(*pairs, strict=True) for one in pair], _make)
            results.off = await memory_now(alone)
            results.none = await memory_now(beside)
            say(f"without objects: RSS {results.none.rss_kb / 1024:.1f} MB")
            results.before = await _phase(bench, pairs, results)
            for count in sorted({min(FIRST, results.objects), results.objects}):
                results.registered_s += await _create(host, beside, count)
                await asyncio.sleep(SETTLE_S)
                held = await memory_now(beside)
                results.held.append((count, held))
                say(f"{count} objects are registered: RSS {held.rss_kb / 1024:.1f} MB")
            begin = time.monotonic()
            results.idle_cpu_percent = await idle_cpu_percent(beside, results.idle_s)
            results.idle_writes = statuses.since(begin)
            say(
                f"beside {results.objects} objects: {results.idle_writes.writes} status writes idle"
            )
            results.beside = await _phase(bench, pairs, results)
            begin = time.monotonic()
            await _change(host, min(CHANGED, results.objects))
            results.writes_under_change = statuses.since(begin)


def _contestants(clusters: Iterable[str], agent: AgentProcess) -> list[Contestant]:
    """Return one contestant for each virtual cluster of an agent; they share their results."""
    results = AgentResults()
    return [Contestant(cluster, agent, results) for cluster in clusters]


def _make(name: str) -> works.Object:
    return works.config_map(name)


@asynccontextmanager
async def _watching(watcher: Watcher, clients: dict[str, ApiClient]) -> AsyncIterator[StatusWatch]:
    statuses = StatusWatch()
    watches = [watcher.watch_works(clients["hub"]), statuses.run(clients["host2"])]
    for cluster, host in HOSTS.items():
        path = f"/api/v1/namespaces/{works.NAMESPACE}-v-{cluster}/configmaps"
        watches.append(watcher.watch_objects(clients[host], path, cluster))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch) for watch in watches]
        try:
            yield statuses
        finally:
            for task in tasks:
                task.cancel()


async def _phase(
    bench: Bench, pairs: list[list[Contestant]], results: ObjectsResults
) -> list[ObjectsPhase]:
    """Return what each agent took for the same Works."""
    for pair in pairs:
        shared = AgentResults()
        for one in pair:
            one.results = shared
    turns = [one for pair in zip(*pairs, strict=True) for one in pair]
    await bench.singles(turns, _make, -(-results.singles // len(pairs[0])))
    for number in range(BURSTS):
        for pair in pairs if number % 2 else pairs[::-1]:
            await asyncio.sleep(2.0)
            await bench.burst(pair[number], results.works)
    return [
        ObjectsPhase(pair[0].results.config_map.applied_ms, pair[0].results.bursts)
        for pair in pairs
    ]


async def _create(host: ApiClient, agent: AgentProcess, count: int) -> float:
    """Create the objects that are not there yet; return when all are registered, in seconds."""
    begin = time.monotonic()
    there = {each["metadata"]["name"] for each in (await host.get(PATH))["items"]}
    wanted = [
        each for each in map(_object, range(1, count + 1)) if each["metadata"]["name"] not in there
    ]
    await in_turns((host.create(PATH, each) for each in wanted), WRITERS)
    while True:
        agent.check()
        live = (await host.get(PATH))["items"]
        if sum(map(_is_registered, live)) >= count:
            return round(time.monotonic() - begin, 1)
        if time.monotonic() - begin > REGISTERED_S:
            raise TimeoutError(f"{sum(map(_is_registered, live))} of {count} objects registered")
        await asyncio.sleep(1.0)


async def _change(host: ApiClient, count: int) -> None:
    """Change objects once a second each, then wait for their last status."""
    begin = time.monotonic()
    for turn in range(int(CHANGES_S)):
        spec = {"region": f"r{turn}"}
        await in_turns(
            (host.merge_patch(f"{PATH}/{_name(n)}", {"spec": spec}) for n in range(1, count + 1)),
            WRITERS,
        )
        await asyncio.sleep(max(0.0, begin + turn + 1 - time.monotonic()))
    await asyncio.sleep(6.0)


def _name(number: int) -> str:
    return f"bench-object-{number}"


def _object(number: int) -> works.Object:
    spec = {"nodeSelector": {"matchLabels": {GROUP_LABEL: str(len(BESIDE) + number)}}}
    head = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": _name(number)}}
    return {**head, "spec": spec}


def _is_registered(obj: works.Object) -> bool:
    found = find_condition((obj.get("status") or {}).get("conditions") or (), "Ready")
    return found is not None and found["status"] == "True"
