"""How large a binding and the status of its template become with many clusters.

No agent runs: the bench makes the Clusters, and reports in their stead that the Works of one
Deployment are applied, as an agent does. So only the hub is measured.
"""

import asyncio
import time
from datetime import UTC, datetime
from functools import partial

import click
import orjson

from bench import policy, works
from bench.command import Runs, bench_command, main
from bench.measurements import LIST_BYTES, WRITERS, in_turns
from bench.record import Record
from bench.session import Session, say
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import timestamp
from karmada_vc_agent.model.vocabulary import execution_namespace
from karmada_vc_agent.work.work_watches import ALL_WORKS_PATH
from karmada_vc_agent.work.works import work_path

DONE_S = 1800.0
STALLED_S = 120.0
"""Without another cluster in the summary in this time, the hub has reached its limit."""
POLL_S = 1.0
BINDING = (
    f"/apis/work.karmada.io/v1alpha2/namespaces/{works.NAMESPACE}/resourcebindings"
    f"/{policy.NAME}-deployment"
)
STATUS = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "generation": 1,
    "resourceTemplateGeneration": 1,
}


async def measure(session: Session, result: Record, count: int) -> None:
    """Measure one size."""
    hub, names = session.hub, [f"summary-{number}" for number in range(1, count + 1)]
    await in_turns((_cluster(hub, name) for name in names), WRITERS)
    await session.bench.make_namespace(())  # there is no agent that would bring it to hosts
    await hub.create(policy.POLICIES, policy.POLICY)
    begin = time.monotonic()
    await hub.create(policy.DEPLOYMENTS, works.deployment(policy.NAME))
    name = await _works(session, names)
    made_s = time.monotonic() - begin
    say(f"{count} Works after {made_s:.1f} s")
    await in_turns((_report(hub, cluster, name) for cluster in names), WRITERS)
    reported_s = time.monotonic() - begin
    summed, summed_s = await _summed(hub, count, begin)
    live = await hub.get(policy.DEPLOYMENT, most_bytes=LIST_BYTES)
    binding = await hub.get(BINDING, most_bytes=LIST_BYTES)
    result.add("until all Works are there, s", made_s, at=count)
    result.add("last report -> last change of the summary, s", summed_s - reported_s, at=count)
    result.add("clusters in the status of the binding", summed, at=count)
    result.add("ready replicas in the template", policy.reported(live, "readyReplicas"), at=count)
    result.add("binding, KB", len(orjson.dumps(binding)) / 1000, at=count)
    result.add("status of the binding, KB", len(orjson.dumps(binding["status"])) / 1000, at=count)
    result.add("status of the template, KB", len(orjson.dumps(live["status"])) / 1000, at=count)


async def _cluster(hub: ApiClient, name: str) -> None:
    spec = {"syncMode": "Pull", "id": name}
    head = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
    await hub.create(CLUSTERS_PATH, {**head, "metadata": {"name": name}, "spec": spec})
    ready = _condition("Ready", "ClusterReady", "made by hack/bench")
    enabled = {
        "groupVersion": "apps/v1",
        "resources": [{"name": "deployments", "kind": "Deployment"}],
    }
    status = {"conditions": [ready], "apiEnablements": [enabled]}
    await hub.merge_patch(f"{CLUSTERS_PATH}/{name}/status", {"status": status})


async def _works(session: Session, clusters: list[str]) -> str:
    """Wait until the Deployment has a Work for each cluster; return their name."""
    begin, prefix = time.monotonic(), f"{policy.NAME}-"
    while time.monotonic() - begin < DONE_S:
        listed = (await session.hub.get(ALL_WORKS_PATH, most_bytes=LIST_BYTES))["items"]
        names = [each["metadata"]["name"] for each in listed]
        of_deployment = [name for name in names if name.startswith(prefix)]
        if len(of_deployment) >= len(clusters):
            return str(of_deployment[0])
        await asyncio.sleep(POLL_S)
    raise TimeoutError(f"{len(of_deployment)} of {len(clusters)} Works are there")


async def _report(hub: ApiClient, cluster: str, name: str) -> None:
    """Write what an agent reports of the Deployment."""
    identifier = {
        "ordinal": 0,
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
        "resource": "deployments",
        "namespace": works.NAMESPACE,
        "name": policy.NAME,
    }
    message = "Manifest has been successfully applied"
    applied = _condition("Applied", "AppliedSuccessful", message)
    entry = {"identifier": identifier, "health": "Healthy", "status": STATUS}
    status = {"conditions": [applied], "manifestStatuses": [entry]}
    path = f"{work_path(execution_namespace(cluster))}/{name}/status"
    await hub.merge_patch(path, {"status": status})


def _condition(type_: str, reason: str, message: str) -> Condition:
    """Return a condition that is true from now on."""
    return Condition(
        type=type_,
        status="True",
        reason=reason,
        message=message,
        lastTransitionTime=timestamp(datetime.now(UTC)),
    )


async def _summed(hub: ApiClient, count: int, begin: float) -> tuple[int, float]:
    """Wait until the hub has summed all up, or does not get on; return how many, and when."""
    last, changed = (-1, -1), time.monotonic()
    while time.monotonic() - changed < STALLED_S:
        status = (await hub.get(BINDING, most_bytes=LIST_BYTES)).get("status") or {}
        live = await hub.get(policy.DEPLOYMENT, most_bytes=LIST_BYTES)
        items = status.get("aggregatedStatus") or ()
        summed = sum(bool(item.get("status")) for item in items)
        now = (summed, policy.reported(live, "readyReplicas"))
        if now != last:
            last, changed = now, time.monotonic()
        if now == (count, count):
            break
        await asyncio.sleep(POLL_S)
    return last[0], changed - begin


@bench_command("summary", axis="clusters")
@click.option(
    "--clusters", "sizes", multiple=True, type=click.IntRange(1), default=(100, 1000, 5000, 7000)
)
def command(runs: Runs, *, sizes: tuple[int, ...]) -> None:
    """Measure how large bindings and templates become with many clusters, and where the hub ends.

    Takes 20 minutes with one repetition; with --quick 2.
    """
    if runs.is_quick:
        sizes = (2, 10)
    for _ in range(runs.repetitions):
        for count in sizes:
            runs.on_control_planes(partial(measure, count=count), 1)


if __name__ == "__main__":
    main(command)
