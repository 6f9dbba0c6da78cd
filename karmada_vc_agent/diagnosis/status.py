"""`karmada-vc-agent status`: the virtual clusters of a running agent."""

import urllib.request
from collections import defaultdict
from datetime import UTC, datetime
from http.client import HTTPException

import click
from prometheus_client.parser import text_string_to_metric_families

from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.kubeconfig import is_http_url
from karmada_vc_agent.model.objects import Object

ANSWERS_WITHIN_S = 10.0
_HUB = "hub"


@click.command(
    "status", epilog=shared.examples("status"), short_help="Show the virtual clusters of an agent."
)
@click.argument("name", required=False, default="")
@shared.options("status")
def status(name: str, metrics_url: str, form: str) -> None:
    """Show which virtual clusters an agent serves, and how old the hub's picture of them is.

    HUB is `now` while the hub accepts what the agent reports. Otherwise it says since when it does
    not: the hub's picture is of that time, and so is what the agent has of the Works. ORPHANED
    counts host objects without a Work; karmada-vc-agent leave --prune lists them. Below are the
    conditions of Clusters that are not normal, such as DeletionsHeld.
    """
    with one_line_errors():
        rows = _rows(metrics_url)
        if name:
            rows = [row for row in rows if row["name"] == name]
            if not rows:
                raise CommandError(f'the agent at {metrics_url} serves no virtual cluster "{name}"')
        click.echo(written(rows, form, datetime.now(UTC)))


def rows_of(text: str) -> list[Object]:
    """Return the virtual clusters of metrics by name, as JSON and YAML have them.

    ready: None before its host was read. hub.lastContact: when the hub last accepted a report, None
    = never; hub.reached: whether it does now. orphanedObjects: those of the host whose Work the hub
    does not list.
    """
    values: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    is_reached = True
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            cluster = sample.labels.get("member_cluster")
            if cluster is not None:
                labels = (sample.labels.get(key) for key in ("state", "server", "condition"))
                values[cluster][sample.name, next(filter(None, labels), "")] = sample.value
            elif sample.name == "api_server_reachable" and sample.labels.get("server") == _HUB:
                is_reached = bool(sample.value)
    return [
        _row(name, own, is_reached=is_reached)
        for name, own in sorted(values.items())
        if ("virtual_cluster_nodes", "") in own
    ]


def _row(name: str, values: dict[tuple[str, str], float], *, is_reached: bool) -> Object:
    def count(metric: str) -> int:
        return int(values.get((metric, ""), 0))

    def by_label(metric: str) -> dict[str, int]:
        return {label: int(value) for (of, label), value in sorted(values.items()) if of == metric}

    ready = values.get(("cluster_ready_state", ""))
    contact = values.get(("virtual_cluster_last_contact_timestamp_seconds", _HUB))
    last_contact = None
    if contact is not None:
        last_contact = datetime.fromtimestamp(contact, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    is_accepted = bool(values.get(("virtual_cluster_reports_accepted", ""), 1))
    return {
        "name": name,
        "ready": None if ready is None else bool(ready),
        "nodes": {
            "total": count("virtual_cluster_nodes"),
            "ready": count("cluster_ready_node_number"),
        },
        "works": by_label("virtual_cluster_works"),
        "orphanedObjects": count("orphaned_objects"),
        "abnormalConditions": list(by_label("virtual_cluster_condition_abnormal")),
        "hub": {"reached": is_reached and is_accepted, "lastContact": last_contact},
    }


def written(rows: list[Object], form: str, now: datetime) -> str:
    """Return the rows as a table, JSON or YAML."""
    if form != "table":
        return shared.written(rows, form)
    head = ("NAME", "READY", "NODES", "WORKS", "FAILED", "WAITING", "ORPHANED", "HUB")
    lines = [head, *(_cells(row, now) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["   ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    key = "abnormalConditions"
    abnormal = [f"{row['name']}: {', '.join(row[key])}" for row in rows if row[key]]
    return "\n".join([*table, *abnormal])


def _cells(row: Object, now: datetime) -> tuple[str, ...]:
    works, nodes = row["works"], row["nodes"]
    ready = "Unknown" if row["ready"] is None else str(row["ready"])
    return (
        row["name"],
        ready,
        f"{nodes['ready']}/{nodes['total']}",
        str(sum(works.values())),
        str(works.get("failed", 0)),
        str(works.get("waiting", 0)),
        str(row["orphanedObjects"]),
        hub_text(row["hub"], now),
    )


def hub_text(hub: Object, now: datetime) -> str:
    """Return how old the hub's picture is: `as of 14:03 UTC, hub not reached since`."""
    if hub["reached"]:
        return "now"
    if hub["lastContact"] is None:
        return "never reached"
    at = datetime.fromisoformat(hub["lastContact"])
    form = "%H:%M" if at.date() == now.date() else "%Y-%m-%d %H:%M"
    return f"as of {at.strftime(form)} UTC, hub not reached since"


def _rows(url: str) -> list[Object]:
    if not is_http_url(url):
        raise ConfigError("flags", "--metrics-url", f'"{url}" is not a valid http(s) URL')
    try:
        with urllib.request.urlopen(url, timeout=ANSWERS_WITHIN_S) as response:  # noqa: S310 - http
            text = str(response.read().decode())
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        problem = (
            f"no metrics at {url}: {reason}; give --metrics-url, or run the command in the agent's "
            "Pod: kubectl -n NAMESPACE exec deploy/karmada-vc-agent -- karmada-vc-agent status"
        )
        raise CommandError(problem) from error
    try:
        return rows_of(text)
    except ValueError as error:
        problem = f"{url} answers, but not with metrics of an agent; give another --metrics-url"
        raise CommandError(problem) from error
