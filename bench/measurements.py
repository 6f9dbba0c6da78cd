"""The measurements; each does the same to either agent."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from bench import works
from bench.process import AgentProcess, Memory
from bench.results import AgentResults, Burst, median
from bench.watcher import Milestone, Subject, Watcher
from bench.works import Object
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.vocabulary import execution_namespace
from karmada_vc_agent.work.works import work_path

PODS = "/api/v1/namespaces/default/pods"
WRITERS = 24
"""POSTs at once in a burst; more made the API server no faster."""
PAUSE_S = (0.15, 0.35)
"""Between single Works: no agent's request budget is spent, and no rhythm fits by chance."""
READY_S = 120.0
POLL_S, POLL_CLUSTER_S = 0.2, 0.0005
"""Between looks at all Clusters, which cost the hub in proportion."""
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
LIST_BYTES = 1 << 30
MADE = ("burst-", "drain-", "first-", "single-")
"""How names of Works begin that are deleted in the end."""
QUIET_CPU = 0.06
QUIET_LOOK_S = 2.0
QUIET_MAX_S = 90.0


Job = tuple[str, Object]
"""A cluster, and the manifest of a Work to it."""


@dataclass(slots=True)
class Contestant:
    """An agent that serves one cluster."""

    cluster: str
    agent: AgentProcess
    results: AgentResults


class Bench:
    """Writes Works to the hub and waits for what the watcher sees."""

    def __init__(self, hub: ApiClient, watcher: Watcher) -> None:
        self._hub = hub
        self._watcher = watcher
        self._numbers = iter(range(1_000_000))

    async def wait_ready(
        self, clusters: Iterable[str], agent: AgentProcess, timeout_s: float = READY_S
    ) -> float:
        """Wait until all Clusters are Ready on the hub; return how long it took."""
        begin, missing = time.monotonic(), set(clusters)
        while missing:
            agent.check()
            if time.monotonic() - begin > timeout_s:
                raise TimeoutError(f"Clusters not Ready: {', '.join(sorted(missing))}")
            rows = await self._clusters()
            missing -= {name for name, ready in rows if ready == "True"}
            await asyncio.sleep(POLL_S + POLL_CLUSTER_S * len(rows))
        return time.monotonic() - begin

    async def _clusters(self) -> list[tuple[str, str]]:
        """Return name and Ready of all Clusters: 1,000 are 13 MB with all their fields."""
        query = {"includeObject": "None"}
        answer = await self._hub.request("GET", CLUSTERS_PATH, query=query, accept=TABLE)
        table = orjson.loads(answer)
        columns = [column["name"] for column in table["columnDefinitions"]]
        name, ready = columns.index("Name"), columns.index("Ready")
        return [(row["cells"][name], row["cells"][ready]) for row in table["rows"]]

    async def make_namespace(self, clusters: Iterable[str]) -> None:
        """Create the namespace on the hub; Karmada's own Works bring it to the hosts."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": works.NAMESPACE}}
        await self._hub.create("/api/v1/namespaces", namespace)
        await self.wait_namespace(clusters)

    async def end_namespace(self) -> None:
        """Have Karmada bring the namespace to no further Cluster."""
        labels = {"namespace.karmada.io/skip-auto-propagation": "true"}
        path = f"/api/v1/namespaces/{works.NAMESPACE}"
        await self._hub.merge_patch(path, {"metadata": {"labels": labels}})

    async def wait_namespace(self, clusters: Iterable[str]) -> None:
        """Wait until the namespace is on the hosts of these clusters."""
        for cluster in clusters:
            while not await self._has_namespace(cluster):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.2)

    async def _has_namespace(self, cluster: str) -> bool:
        listed = await self._hub.get(work_path(execution_namespace(cluster)))
        prefix = f"{works.NAMESPACE}-"
        of_namespace = [w for w in listed["items"] if w["metadata"]["name"].startswith(prefix)]
        return any(_is_true(work, "Applied") for work in of_namespace)

    async def singles(
        self, contestants: list[Contestant], make: Callable[[str], Object], count: int
    ) -> None:
        """Create Works one after another, in turns between the agents."""
        for number in range(count):
            turn = contestants if number % 2 else contestants[::-1]
            for contestant in turn:
                manifest = make(self.new_name("single"))
                await self._single(contestant, manifest)
                await asyncio.sleep(random.uniform(*PAUSE_S))  # noqa: S311 - no secret

    async def warm_up(
        self, contestants: list[Contestant], make: Callable[[str], Object], count: int = 3
    ) -> None:
        """Do the same unmeasured, so that both watch this kind of object."""
        kept = [(c, c.results) for c in contestants]
        for contestant in contestants:
            contestant.results = AgentResults()
        await self.singles(contestants, make, count)
        for contestant, results in kept:
            contestant.results = results

    async def _single(self, contestant: Contestant, manifest: Object) -> None:
        is_deployment = manifest["kind"] == "Deployment"
        subject = await self.create(contestant.cluster, manifest)
        created = await self._watcher.wait([subject], Milestone.ON_HUB)
        on_host = await self._watcher.wait([subject], Milestone.ON_HOST)
        applied = await self._watcher.wait([subject], Milestone.APPLIED)
        results = contestant.results
        times = results.deployment if is_deployment else results.config_map
        times.on_host_ms.append(_ms(on_host - created))
        times.applied_ms.append(_ms(applied - created))
        if is_deployment:
            healthy = await self._watcher.wait([subject], Milestone.HEALTHY)
            times.healthy_ms.append(_ms(healthy - created))

    async def burst(self, contestant: Contestant, count: int) -> None:
        """Create many ConfigMap Works for one cluster as fast as the hub takes them."""
        jobs = self.jobs([contestant.cluster], count, "burst")
        used_s, begin = contestant.agent.cpu_s(), time.monotonic()
        posting_s = await self.create_all(jobs)
        end = await self._watcher.wait(subjects(jobs), Milestone.APPLIED)
        cpu_s = contestant.agent.cpu_s() - used_s
        burst = Burst(count, round(end - begin, 3), round(posting_s, 3), round(cpu_s, 2))
        contestant.results.bursts.append(burst)

    def jobs(
        self,
        clusters: Sequence[str],
        count: int,
        prefix: str,
        make: Callable[[str], Object] = works.config_map,
    ) -> list[Job]:
        """Return so many manifests under new names, for the clusters in turns."""
        return [
            (clusters[number % len(clusters)], make(self.new_name(prefix)))
            for number in range(count)
        ]

    async def create_all(self, jobs: Iterable[Job], writers: int = WRITERS) -> float:
        """Create Works, several at once; return the seconds until the last was answered."""
        begin = time.monotonic()
        await in_turns((self.create(cluster, manifest) for cluster, manifest in jobs), writers)
        return time.monotonic() - begin

    async def one_work_each(self, clusters: list[str]) -> float:
        """Create one Work in each cluster; return the seconds until all are applied."""
        jobs = self.jobs(clusters, len(clusters), "each")
        begin = time.monotonic()
        await self.create_all(jobs)
        return await self._watcher.wait(subjects(jobs), Milestone.APPLIED) - begin

    async def delete_works(self, cluster: str) -> None:
        """Delete the Works made here and wait until their finalizers are gone."""
        path = work_path(execution_namespace(cluster))
        listed = (await self._hub.get(path))["items"]
        names = [item["metadata"]["name"] for item in listed]
        ours = [name for name in names if name.startswith(MADE)]
        await in_turns((self._hub.delete(f"{path}/{name}") for name in ours), WRITERS)
        await self._watcher.wait([(cluster, name) for name in ours], Milestone.GONE)

    async def create(self, cluster: str, manifest: Object) -> Subject:
        """Create a Work of one manifest; return what it is for the watcher."""
        body = works.work(cluster, manifest)
        await self._hub.request("POST", work_path(execution_namespace(cluster)), body=body)
        subject = (cluster, manifest["metadata"]["name"])
        # The answer, or the watch if it was faster.
        self._watcher.mark(subject, Milestone.ON_HUB)
        return subject

    async def latencies(self, cluster: str, count: int) -> list[float]:
        """Return the milliseconds until each of so many single Works was applied."""
        latencies = []
        for _ in range(count):
            subject = await self.create(cluster, works.config_map(self.new_name("single")))
            created = await self._watcher.wait([subject], Milestone.ON_HUB)
            applied = await self._watcher.wait([subject], Milestone.APPLIED)
            latencies.append(_ms(applied - created))
            await asyncio.sleep(random.uniform(*PAUSE_S))  # noqa: S311 - no secret
        return latencies

    def new_name(self, prefix: str) -> str:
        """Return a name that no other object of this bench has."""
        return f"{prefix}-{next(self._numbers)}"


def subjects(jobs: Iterable[Job]) -> list[Subject]:
    """Return what the Works of jobs are for the watcher."""
    return [(cluster, manifest["metadata"]["name"]) for cluster, manifest in jobs]


async def in_turns(calls: Iterable[Coroutine[Any, Any, object]], writers: int) -> None:
    """Await calls, so many at once: a request that waits for a connection could time out."""
    rest = iter(calls)

    async def work() -> None:
        for call in rest:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(work())


async def make_pods(host: ApiClient, count: int, nodes: int) -> None:
    """Create pods on the first nodes of a host, which have numbers from 1 on, in turns."""
    bodies = (works.pod(number, number % nodes + 1) for number in range(count))
    await in_turns((host.create(PODS, body) for body in bodies), WRITERS)


async def wait_quiet(agent: AgentProcess) -> float:
    """Wait until an agent has nothing to do any more; return its last share of a core, in %."""
    deadline = time.monotonic() + QUIET_MAX_S
    while True:
        used_s, begin = agent.cpu_s(), time.monotonic()
        await asyncio.sleep(QUIET_LOOK_S)
        share = (agent.cpu_s() - used_s) / (time.monotonic() - begin)
        if share < QUIET_CPU or time.monotonic() > deadline:
            return share * 100


async def idle_cpu_percent(agent: AgentProcess, seconds: float) -> float:
    """Return the share of a core that a quiet agent takes."""
    used_s, begin = agent.cpu_s(), time.monotonic()
    await asyncio.sleep(seconds)
    return round((agent.cpu_s() - used_s) / (time.monotonic() - begin) * 100, 2)


async def memory(agent: AgentProcess) -> Memory:
    """Return the median of a few looks at a quiet agent."""
    await wait_quiet(agent)
    return await memory_now(agent)


async def memory_now(agent: AgentProcess) -> Memory:
    """Return the median of a few looks."""
    looks = []
    for _ in range(5):
        looks.append(agent.memory())
        await asyncio.sleep(0.5)
    rss, pss = ([float(getattr(look, name)) for look in looks] for name in ("rss_kb", "pss_kb"))
    return Memory(int(median(rss)), int(median(pss)))


def _is_true(obj: Object, condition: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
