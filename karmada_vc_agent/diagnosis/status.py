"""`karmada-vc-agent status`: the virtual clusters of a host, as hub and host have them."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, agent_of, cluster_id
from karmada_vc_agent.cluster.rules.conditions import READY
from karmada_vc_agent.cluster.virtual_clusters import claim_of
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.diagnosis.faults import connection_fault, mixed_up
from karmada_vc_agent.diagnosis.hub_links import age, conditions_of, lease_of, silence_of
from karmada_vc_agent.diagnosis.servers import Server, mounted, servers
from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.objects import Object, dig, text_at
from karmada_vc_agent.model.user_text import did_you_mean, one_line
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, DOMAIN, execution_namespace, is_report
from karmada_vc_agent.runner.hub_presence import KUBE_SYSTEM_PATH
from karmada_vc_agent.runner.parts import OF_CLUSTER_STATUS, declared_conditions
from karmada_vc_agent.work import works

NAMESPACES_PATH = "/api/v1/namespaces"
OBJECTS_PATH = f"/apis/{DOMAIN}/v1alpha1/virtualclusters"
STATES = ("applied", "refused", "waiting", "suspended", "pending")
WATCH_S = 2.0
_NORMAL = {
    kind.name: kind.normal
    for kind in (*OF_CLUSTER_STATUS, *(spec.type for spec in declared_conditions(FEATURES)))
}


@click.command(
    "status", epilog=shared.examples("status"), short_help="Show the virtual clusters of a host."
)
@click.argument("name", required=False, default="")
@shared.options("status")
def status(name: str, form: str, *, watches: bool, **options: Any) -> None:
    """Show the virtual clusters of a host: nodes, Works by state, and how old their Leases are.

    It reads hub and host, not the agent: Clusters, Leases and Works on the hub, VirtualCluster
    objects on the host. REFUSED counts Works that are not applied, WAITING those that wait for a
    window. Below the table are the conditions that are not normal, and what could not be read.
    """
    with one_line_errors():
        asyncio.run(_show(name, form, mounted(options), watches=watches))


async def _show(name: str, form: str, options: Mapping[str, Any], *, watches: bool) -> None:
    path, last = options["config_path"], ""
    config = load_config(click.get_current_context().obj, path, {}) if path else None
    async with servers(options, config) as (hub, host):
        while True:
            rows, notes = await rows_of(hub, host, name)
            # Ages alone are no change.
            seen = str([{**row, "leaseRenewed": None} for row in rows] + notes)
            if seen != last:
                click.echo(written(rows, notes, form, datetime.now(UTC)))
            last = seen
            if not watches:
                return
            await asyncio.sleep(WATCH_S)
            for each in (hub, host):
                each.unseen.clear()
                await each.connect()


async def rows_of(hub: Server, host: Server, name: str = "") -> tuple[list[Object], list[str]]:
    """Return the virtual clusters as JSON and YAML have them, and what could not be read.

    ready: None where nothing says. works: counts by state. Raises CommandError.
    """
    wrong, *of_each = (mixed_up(hub, host), *map(connection_fault, (hub, host)))
    faults = [f"{each.says}; {each.do}" for each in (wrong, *of_each) if each is not None]
    if wrong is not None or not (hub.is_read or host.is_read):
        raise CommandError(*faults)
    objects = {each["metadata"]["name"]: each for each in await host.seen(OBJECTS_PATH)}
    clusters = await _clusters(hub, host)
    spaces = await host.seen(NAMESPACES_PATH, labelSelector=CLUSTER_LABEL)
    claimed = (claim.cluster for each in spaces if (claim := claim_of(each)))
    names = sorted({*objects, *clusters, *claimed})
    if name and name not in names:
        raise CommandError(f'no virtual cluster "{name}"{did_you_mean(name, names)}', *faults)
    rows = []
    for each in [name] if name else names:
        namespace = execution_namespace(each)
        listed = await hub.seen(works.work_path(namespace)) if each in clusters else None
        lease = await lease_of(hub, each) if each in clusters else None
        rows.append(_row(each, clusters.get(each), objects.get(each), lease, listed))
    return rows, faults or [*hub.unseen, *host.unseen]


async def _clusters(hub: Server, host: Server) -> dict[str, Object]:
    """Return the Clusters that agents of this host serve; of any host where it is not read."""
    try:
        uid = text_at(await host.find(KUBE_SYSTEM_PATH), "metadata", "uid")
    except KubeError:
        uid = ""
    named = {c["metadata"]["name"]: c for c in await hub.seen(CLUSTERS_PATH) if agent_of(c)}
    return {
        name: each
        for name, each in named.items()
        if not uid or dig(each, "spec", "id") == cluster_id(uid, name)
    }


def state_of(work: Object) -> str:
    """Return the state of a Work, one of STATES."""
    applied = works.applied_of(work.get("status"))
    if works.is_suspended(work):
        return "suspended"
    if works.is_waiting(work):
        return "waiting"
    return {"True": "applied", "False": "refused"}.get(text_at(applied, "status"), "pending")


def _row(
    name: str,
    cluster: Object | None,
    obj: Object | None,
    lease: Object | None,
    listed: list[Object] | None,
) -> Object:
    conditions = conditions_of(cluster or obj)
    ready = READY.find(conditions)
    abnormal = {
        each["type"]: f"{each.get('reason', '')}: {each.get('message', '')}"
        for each in conditions
        if each["status"] != _NORMAL.get(each["type"], "True")
    }
    if silence_of(lease, datetime.now(UTC)):
        abnormal["Lease"] = "Overdue: no agent renews it, so nothing here is of now"
    summary, nodes = dig(cluster, "status", "nodeSummary") or {}, dig(obj, "status", "nodes") or {}
    states = Counter(state_of(work) for work in listed or () if not is_report(work))
    counted = dig(obj, "status", "works") or {} if listed is None else states
    return {
        "name": name,
        "ready": {"True": True, "False": False}.get(text_at(ready, "status")),
        "nodes": {
            "total": nodes.get("total", summary.get("totalNum", "-")),
            "ready": nodes.get("ready", summary.get("readyNum", "-")),
        },
        "works": {state: counted.get(state, 0) for state in STATES},
        "leaseRenewed": text_at(lease, "spec", "renewTime") or None,
        "lastHubContact": text_at(obj, "status", "lastHubContact") or None,
        "abnormalConditions": abnormal,
    }


def written(rows: list[Object], notes: list[str], form: str, now: datetime) -> str:
    """Return the rows as a table with what is not normal below, or as JSON or YAML."""
    if form != "table":
        return shared.written(rows, form)
    head = ("NAME", "READY", "NODES", *map(str.upper, STATES), "LEASE")
    lines = [head, *(_cells(row, now) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["   ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    for row in rows:
        conditions = row["abnormalConditions"].items()
        table += [f"{row['name']}: {kind} {one_line(text)}" for kind, text in conditions]
    return "\n".join([*table, *(f"not seen: {one_line(note)}" for note in notes)])


def _cells(row: Object, now: datetime) -> tuple[str, ...]:
    nodes, at = row["nodes"], row["leaseRenewed"]
    contact = age(row["lastHubContact"], now)
    return (
        row["name"],
        "Unknown" if row["ready"] is None else str(row["ready"]),
        f"{nodes['ready']}/{nodes['total']}",
        *(str(row["works"][state]) for state in STATES),
        f"{age(at, now)} ago" if at else f"hub reached {contact} ago" if contact else "-",
    )
