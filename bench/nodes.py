"""How soon a Cluster says what changed on its nodes, and what that takes on a large host."""

import asyncio
import time
from functools import partial

import click

from bench import audit
from bench.command import Runs, bench_command, main
from bench.lab import node_groups
from bench.measurements import LIST_BYTES, make_pods, memory, wait_quiet
from bench.process import AgentProcess
from bench.record import Goal, Record
from bench.session import Session, say
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.client import ApiClient

START_S = 3600.0
RIGHT_S = 300.0
POLL_S = 0.05
NODES = "/api/v1/nodes"
FLAPPING = "node-1"
KWOK_ANNOTATION = "kwok.x-k8s.io/node"
MANAGED_S = 2.0
FLAP = "a node flaps -> its Cluster says so, s"
CHANGE = "pods are made -> all Clusters say so, s"
GOALS = {f"{FLAP}, p99": Goal(2), CHANGE: Goal(2)}


async def measure(
    session: Session, result: Record, clusters: dict[str, str], flaps: int, pods: int
) -> None:
    """Measure one repetition."""
    with session.lab.lone_agent(clusters) as agent:
        await session.bench.wait_ready(clusters, agent, START_S)
        result.add("idle RSS, MB", (await memory(agent)).rss_kb / 1024)
        await _flaps(session, agent, result, flaps)
        await wait_quiet(agent)
        await _pods(session, agent, result, len(clusters), pods)
        result.add("RSS with the pods, MB", (await memory(agent)).rss_kb / 1024)


async def _flaps(session: Session, agent: AgentProcess, result: Record, flaps: int) -> None:
    """Have node-1, which is of node group 1, become unready and ready again."""
    path = f"{CLUSTERS_PATH}/nodes-1"
    ready = (await session.hub.get(path))["status"]["nodeSummary"]["readyNum"]
    await _manage(session.host, None)
    session.requests.skip()
    used_s, times = agent.cpu_s(), []
    for number in range(flaps * 2):
        is_ready = bool(number % 2)
        await _set_ready(session.host, FLAPPING, is_ready=is_ready)
        times.append(await _until_ready(session.hub, path, ready - (not is_ready)))
    others = _writes(session)
    await _manage(session.host, "fake")
    result.add_samples(FLAP, times)
    result.add("a change of a node: writes", len(others) / len(times))
    result.add("a change of a node: CPU, ms", (agent.cpu_s() - used_s) / len(times) * 1000)
    say(f"{len(times)} changes, {max(times):.2f} s at most; writes: {dict(audit.kinds(others))}")


async def _pods(
    session: Session, agent: AgentProcess, result: Record, clusters: int, pods: int
) -> None:
    """Make pods on the nodes of all clusters."""
    nodes = len((await session.host.get(NODES, most_bytes=LIST_BYTES))["items"])
    session.requests.skip()
    used_s = agent.cpu_s()
    await make_pods(session.host, pods, nodes)
    begin = time.monotonic()
    while await _allocated(session.hub) < pods:
        agent.check()
        if time.monotonic() - begin > RIGHT_S:
            raise TimeoutError(f"{await _allocated(session.hub)} of {pods} pods are reported")
        await asyncio.sleep(POLL_S)
    right_s = time.monotonic() - begin
    others = _writes(session)
    result.add(CHANGE, right_s)
    result.add("pods are made: writes a cluster", len(others) / clusters)
    result.add("pods are made: CPU, ms a pod", (agent.cpu_s() - used_s) / pods * 1000)
    say(f"{pods} pods: {right_s:.2f} s; writes: {dict(audit.kinds(others))}")


def _writes(session: Session) -> list[audit.Sent]:
    """Return what ours wrote since the last call, but Leases."""
    sent = session.requests.news(audit.OURS)
    return [each for each in sent if each.write.target.plural != "leases"]


async def _allocated(hub: ApiClient) -> int:
    listed = (await hub.get(CLUSTERS_PATH, most_bytes=LIST_BYTES))["items"]
    clusters = [each for each in listed if each["metadata"]["name"].startswith("nodes-")]
    resources = [(each.get("status") or {}).get("resourceSummary") or {} for each in clusters]
    return sum(int(each.get("allocated", {}).get("pods", 0)) for each in resources)


async def _until_ready(hub: ApiClient, path: str, count: int) -> float:
    begin = time.monotonic()
    while (await hub.get(path))["status"]["nodeSummary"].get("readyNum", 0) != count:
        if time.monotonic() - begin > RIGHT_S:
            raise TimeoutError(f"{path} is not right")
        await asyncio.sleep(POLL_S)
    return time.monotonic() - begin


async def _manage(host: ApiClient, value: str | None) -> None:
    """Have kwok manage node-1, or none: it makes a node Ready at once."""
    patch = {"metadata": {"annotations": {KWOK_ANNOTATION: value}}}
    await host.merge_patch(f"{NODES}/{FLAPPING}", patch)
    await asyncio.sleep(MANAGED_S)


async def _set_ready(host: ApiClient, node: str, *, is_ready: bool) -> None:
    path = f"{NODES}/{node}"
    live = await host.get(path)
    conditions = [
        {**each, "status": str(is_ready)} if each["type"] == "Ready" else each
        for each in live["status"]["conditions"]
    ]
    await host.merge_patch(f"{path}/status", {"status": {"conditions": conditions}})


@bench_command("nodes", GOALS)
@click.option("--clusters", default=10, show_default=True, type=click.IntRange(1))
@click.option("--nodes", "count", default=5000, show_default=True, help="Of all together.")
@click.option("--flaps", default=20, show_default=True, type=click.IntRange(1))
@click.option("--pods", default=1000, show_default=True, type=click.IntRange(1))
def command(runs: Runs, *, clusters: int, count: int, flaps: int, pods: int) -> None:
    """Measure how soon a Cluster says what changed on its nodes.

    Takes 10 minutes; with --quick 2.
    """
    if runs.is_quick:
        clusters, count, flaps, pods = 2, 10, 3, 20
    one = partial(measure, clusters=node_groups("nodes", clusters), flaps=flaps, pods=pods)
    for _ in range(runs.repetitions):
        runs.on_control_planes(one, clusters, each=count // clusters)


if __name__ == "__main__":
    main(command)
