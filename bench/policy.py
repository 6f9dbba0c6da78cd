"""Where the time of one PropagationPolicy to many clusters passes: on the hub, here, on the host.

A Deployment is made, gets another image, and is deleted. The stages of each are times when the last
cluster reached a milestone, on one clock.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import click

from bench import works
from bench.command import Runs, bench_command, main
from bench.lab import node_groups
from bench.measurements import wait_quiet
from bench.record import Record
from bench.session import Session, say
from bench.watcher import Milestone
from karmada_vc_agent.model.vocabulary import execution_namespace
from karmada_vc_agent.work.works import work_path

START_S = 7200.0
POLL_S = 0.2
NAME = "bench-policy"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{works.NAMESPACE}/deployments"
DEPLOYMENT = f"{DEPLOYMENTS}/{NAME}"
POLICIES = f"/apis/policy.karmada.io/v1alpha1/namespaces/{works.NAMESPACE}/propagationpolicies"
POLICY: works.Object = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": NAME, "namespace": works.NAMESPACE},
    "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}],
        "placement": {
            "clusterAffinity": {},
            "clusterTolerations": [{"operator": "Exists"}],
        },
    },
}


async def measure(session: Session, result: Record, count: int) -> None:
    """Measure one size."""
    clusters = node_groups("policy", count)
    with session.lab.lone_agent(clusters) as agent:
        await session.bench.wait_ready(clusters, agent, START_S)
        await session.bench.make_namespace(clusters)
        await session.hub.create(POLICIES, POLICY)
        for stages in (_create, _update, _delete):
            await wait_quiet(agent)
            used_s = agent.cpu_s()
            await stages(session, result, list(clusters))
            name = stages.__name__.removeprefix("_")
            result.add(f"{name}: CPU of the agent, s", agent.cpu_s() - used_s, at=count)
            agent.check()


async def _create(session: Session, result: Record, clusters: list[str]) -> None:
    watcher, count = session.watcher, len(clusters)
    begin = time.monotonic()
    await session.hub.create(DEPLOYMENTS, works.deployment(NAME))
    name = await _name_of_work(session, clusters[0])
    subjects = [(cluster, name) for cluster in clusters]
    on_hub = await watcher.wait(subjects, Milestone.ON_HUB, START_S)
    applied = await watcher.wait(subjects, Milestone.APPLIED, START_S)
    healthy = await watcher.wait(subjects, Milestone.HEALTHY, START_S)
    done = await _until(session, lambda live: reported(live, "readyReplicas") == count)
    stages = {
        "hub: until the last Work is there": on_hub,
        "agent: until the last is Applied": applied,
        "host: until the last is Healthy": healthy,
        "hub: until the template says so": done,
    }
    _add(result, "create", count, begin, stages)


async def _update(session: Session, result: Record, clusters: list[str]) -> None:
    count = len(clusters)
    subjects = [(cluster, await _name_of_work(session, clusters[0])) for cluster in clusters]
    begin = time.monotonic()
    containers = [{"name": "app", "image": "registry.example/app:2"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    await session.hub.merge_patch(DEPLOYMENT, patch)
    changed = await session.watcher.wait(subjects, Milestone.CHANGED, START_S)
    done = await _until(session, lambda live: _is_updated(live, count))
    stages = {
        "hub: until the last Work is changed": changed,
        "agent, host, hub: until the template says so": done,
    }
    _add(result, "update", count, begin, stages)


async def _delete(session: Session, result: Record, clusters: list[str]) -> None:
    subjects = [(cluster, await _name_of_work(session, clusters[0])) for cluster in clusters]
    begin = time.monotonic()
    await session.hub.delete(DEPLOYMENT)
    deleted = await session.watcher.wait(subjects, Milestone.GONE, START_S)
    stages = {"hub, agent, host: until the last Work is deleted": deleted}
    _add(result, "delete", len(clusters), begin, stages)


def _add(result: Record, what: str, count: int, begin: float, stages: dict[str, float]) -> None:
    before = begin
    for name, at in stages.items():
        result.add(f"{what}: {name}, s", max(0.0, at - before), at=count)
        before = max(before, at)
    result.add(f"{what}: all, s", before - begin, at=count)
    say(f"{what} of {count}: {before - begin:.1f} s")


async def _name_of_work(session: Session, cluster: str) -> str:
    """Return the name that the Works of the Deployment have in all namespaces."""
    path = work_path(execution_namespace(cluster))
    while True:
        for each in (await session.hub.get(path))["items"]:
            name: str = each["metadata"]["name"]
            if name.startswith(f"{NAME}-"):
                return name
        await asyncio.sleep(POLL_S)


async def _until(session: Session, holds: Callable[[works.Object], bool]) -> float:
    begin = time.monotonic()
    while not holds(live := await session.hub.get(DEPLOYMENT)):
        if time.monotonic() - begin > START_S:
            raise TimeoutError(f"the template says {live.get('status')}")
        await asyncio.sleep(POLL_S)
    return time.monotonic()


def reported(live: works.Object, field: str) -> int:
    """Return a number of the status of a Deployment, 0 where it is not reported."""
    return int((live.get("status") or {}).get(field, 0))


def _is_updated(live: works.Object, count: int) -> bool:
    is_seen = reported(live, "observedGeneration") >= live["metadata"]["generation"]
    fields = ("updatedReplicas", "readyReplicas", "replicas")
    return is_seen and all(reported(live, each) == count for each in fields)


@bench_command("policy", axis="clusters")
@click.option("--clusters", "sizes", multiple=True, type=click.IntRange(1), default=(100, 1000))
def command(runs: Runs, *, sizes: tuple[int, ...]) -> None:
    """Measure where the time of one PropagationPolicy to many clusters passes.

    Takes 45 minutes; with --quick 3.
    """
    if runs.is_quick:
        sizes = (2, 10)
    for _ in range(runs.repetitions):
        for count in sizes:
            runs.on_control_planes(partial(measure, count=count), count)


if __name__ == "__main__":
    main(command)
