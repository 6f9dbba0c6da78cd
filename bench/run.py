"""One run: both agents with one cluster in turns, ours with many, then two as neighbours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench import neighbours, objects, works
from bench.lab import Lab, node_groups
from bench.measurements import Bench, Contestant, idle_cpu_percent, memory, wait_quiet
from bench.results import ObjectsResults, Results
from bench.session import client, machine_of, say
from bench.watcher import Watcher
from karmada_vc_agent.kube.client import ApiClient

THEIR_CLUSTER = "bench-theirs"
OUR_CLUSTER = "bench-ours"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    works: int
    singles: int
    clusters: int
    our_bursts: int
    their_bursts: int
    idle_s: float


@dataclass(frozen=True, slots=True)
class Servers:
    """The API servers, as seen from outside."""

    hub: ApiClient
    host: ApiClient
    host2: ApiClient


async def run(lab: Lab, plan: Plan) -> Results:
    """Measure everything."""
    results = Results()
    async with open_servers(lab) as servers, asyncio.TaskGroup() as group:
        results.machine = await _describe(servers, plan)
        watcher = Watcher()
        bench = Bench(servers.hub, watcher)
        watches = _watch(watcher, servers, group)
        with (
            lab.karmada_agent(THEIR_CLUSTER) as theirs,
            lab.our_agent({OUR_CLUSTER: ""}) as ours,
        ):
            contestants = [
                Contestant(THEIR_CLUSTER, theirs, results.theirs),
                Contestant(OUR_CLUSTER, ours, results.ours),
            ]
            await _one_cluster(plan, bench, contestants)
        await _many_clusters(lab, plan, bench, results)
        say("a neighbour that gives trouble")
        await neighbours.measure(
            lab, bench, (servers.hub, servers.host2), plan.singles, results.neighbour
        )
        for watch in watches:
            watch.cancel()
    return results


async def run_objects(lab: Lab, results: ObjectsResults) -> ObjectsResults:
    """Measure what VirtualCluster objects cost."""
    async with open_servers(lab) as servers:
        version = (await servers.hub.get("/version"))["gitVersion"]
        results.machine = machine_of(version)
        clients = {"hub": servers.hub, "host": servers.host, "host2": servers.host2}
        watcher = Watcher()
        await objects.measure(lab, Bench(servers.hub, watcher), watcher, clients, results, say)
    return results


async def _one_cluster(plan: Plan, bench: Bench, contestants: list[Contestant]) -> None:
    theirs, ours = contestants
    for one in contestants:
        await bench.wait_ready([one.cluster], one.agent)
    say("both Clusters are Ready; waiting for quiet")
    for one in contestants:
        one.results.idle = await memory(one.agent)
        one.results.idle_cpu_percent = await idle_cpu_percent(one.agent, plan.idle_s)
    await bench.make_namespace([one.cluster for one in contestants])
    for make in (works.config_map, works.deployment):
        say(f"single Works: {make.__name__}")
        await bench.warm_up(contestants, make)
        await bench.singles(contestants, make, plan.singles)
    for number in range(max(plan.our_bursts, plan.their_bursts)):
        for one, bursts in ((ours, plan.our_bursts), (theirs, plan.their_bursts)):
            if number < bursts:
                await _burst(bench, contestants, one, plan.works)
        if number == 0:
            for one in contestants:
                one.results.after_burst = await memory(one.agent)
    for one in contestants:
        one.results.after_all_bursts = await memory(one.agent)
    # What is left of this part must not be in the memory of the next.
    say("deleting our Works")
    await bench.delete_works(OUR_CLUSTER)


async def _burst(bench: Bench, contestants: list[Contestant], one: Contestant, count: int) -> None:
    for each in contestants:
        await wait_quiet(each.agent)
    await bench.burst(one, count)
    done = one.results.bursts[-1]
    say(
        f"burst of {count} to {one.cluster}: {done.seconds:.1f} s "
        f"(posting {done.posting_s:.1f} s), {done.cpu_s:.1f} s CPU"
    )


async def _many_clusters(lab: Lab, plan: Plan, bench: Bench, results: Results) -> None:
    fleet = results.fleet
    fleet.clusters = plan.clusters
    clusters = node_groups("bench", plan.clusters)
    with lab.our_agent(clusters) as agent:
        fleet.all_ready_s = round(await bench.wait_ready(clusters, agent), 1)
        say(f"{plan.clusters} Clusters are Ready")
        fleet.idle = await memory(agent)
        fleet.idle_cpu_percent = await idle_cpu_percent(agent, plan.idle_s)
        fleet.one_work_each_s = round(await bench.one_work_each(list(clusters)), 2)
        fleet.one_work_each = await memory(agent)


@asynccontextmanager
async def open_servers(lab: Lab) -> AsyncIterator[Servers]:
    """Open clients of the hub and of both hosts for the time of a block."""
    async with (
        client(lab, "hub") as hub,
        client(lab, "host") as host,
        client(lab, "host2") as host2,
    ):
        yield Servers(hub, host, host2)


def _watch(
    watcher: Watcher, servers: Servers, group: asyncio.TaskGroup
) -> list[asyncio.Task[None]]:
    watches = [watcher.watch_works(servers.hub)]
    for cluster, host, namespace in (
        (THEIR_CLUSTER, servers.host, works.NAMESPACE),
        (OUR_CLUSTER, servers.host2, f"{works.NAMESPACE}-v-{OUR_CLUSTER}"),
        (
            neighbours.NEIGHBOUR,
            servers.host2,
            f"{works.NAMESPACE}-v-{neighbours.NEIGHBOUR}",
        ),
    ):
        for resources in ("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments"):
            path = f"{resources[0]}/namespaces/{namespace}/{resources[1]}"
            watches.append(watcher.watch_objects(host, path, cluster))
    return [group.create_task(watch) for watch in watches]


async def _describe(servers: Servers, plan: Plan) -> dict[str, str]:
    version = (await servers.hub.get("/version"))["gitVersion"]
    return {
        **machine_of(version),
        "Works in a burst": str(plan.works),
        "bursts": f"{plan.their_bursts} karmada-agent, {plan.our_bursts} ours",
        "single Works of each kind": str(plan.singles),
        "nodes of each host": str(plan.clusters),
    }
