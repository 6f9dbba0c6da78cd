"""`karmada-vc-agent status`: the virtual clusters of a running agent, and how old its reports are.

It reads /metrics of the agent, so that it needs no rights and works while the hub is away.
"""

import urllib.request
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

import click
from prometheus_client.parser import text_string_to_metric_families

from karmada_vc_agent.commands import shared_options
from karmada_vc_agent.commands.command_errors import CommandError, one_line_errors
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.kube.kubeconfig import is_http_url

ANSWERS_WITHIN_S = 10.0
_HUB = "hub"
_EPILOG = """\b
Examples:
  # in the cluster of the agent
  kubectl -n karmada-vc-agent exec deploy/karmada-vc-agent -- karmada-vc-agent status
\b
  # one virtual cluster, for a script
  karmada-vc-agent status branch-a -o json --metrics-url http://127.0.0.1:8080/metrics
"""


@dataclass(frozen=True, slots=True)
class Row:
    """The state of one virtual cluster.

    ready: None before its host was looked at. works: by state. hub_contact: when the hub last
    accepted what the agent reports, in seconds since 1970; None = never. is_hub_reached: whether it
    does now. orphaned: host objects whose Work the hub does not list. abnormal: conditions of its
    Cluster that are not normal.
    """

    name: str
    ready: bool | None
    nodes: int
    ready_nodes: int
    works: dict[str, int]
    hub_contact: float | None
    is_hub_reached: bool
    orphaned: int = 0
    abnormal: tuple[str, ...] = ()


@click.command("status", epilog=_EPILOG, short_help="Show the virtual clusters of an agent.")
@click.argument("name", required=False, default="")
@click.option(
    "--metrics-url",
    default="http://127.0.0.1:8080/metrics",
    show_default=True,
    help="Address of the agent's metrics; only the leader has virtual clusters.",
)
@shared_options.form("table")
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
            rows = [row for row in rows if row.name == name]
            if not rows:
                raise CommandError(f'the agent at {metrics_url} serves no virtual cluster "{name}"')
        click.echo(written(rows, form, datetime.now(UTC)))


def rows_of(text: str) -> list[Row]:
    """Return what metrics say, by name."""
    values: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    reached = 1.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            cluster = sample.labels.get("member_cluster")
            if cluster is not None:
                labels = (sample.labels.get(key) for key in ("state", "server", "condition"))
                label = next(filter(None, labels), "")
                values[cluster][sample.name, label] = sample.value
            elif sample.name == "api_server_reachable" and sample.labels.get("server") == _HUB:
                reached = sample.value
    return [
        _row(name, own, is_reached=bool(reached))
        for name, own in sorted(values.items())
        if ("virtual_cluster_nodes", "") in own
    ]


def _row(name: str, values: dict[tuple[str, str], float], *, is_reached: bool) -> Row:
    ready = values.get(("cluster_ready_state", ""))
    return Row(
        name=name,
        ready=None if ready is None else bool(ready),
        nodes=int(values["virtual_cluster_nodes", ""]),
        ready_nodes=int(values.get(("cluster_ready_node_number", ""), 0)),
        works={
            state: int(count)
            for (family, state), count in sorted(values.items())
            if family == "virtual_cluster_works"
        },
        hub_contact=values.get(("virtual_cluster_last_contact_timestamp_seconds", _HUB)),
        is_hub_reached=is_reached and bool(values.get(("virtual_cluster_reports_accepted", ""), 1)),
        orphaned=int(values.get(("orphaned_objects", ""), 0)),
        abnormal=tuple(
            condition
            for family, condition in sorted(values)
            if family == "virtual_cluster_condition_abnormal"
        ),
    )


def written(rows: list[Row], form: str, now: datetime) -> str:
    """Return the rows as a table, JSON or YAML."""
    if form == "table":
        return _table(rows, now)
    return shared_options.written([_plain(row) for row in rows], form)


def _plain(row: Row) -> dict[str, Any]:
    at = row.hub_contact
    contact = None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "name": row.name,
        "ready": row.ready,
        "nodes": {"total": row.nodes, "ready": row.ready_nodes},
        "works": row.works,
        "orphanedObjects": row.orphaned,
        "abnormalConditions": list(row.abnormal),
        "hub": {"reached": row.is_hub_reached, "lastContact": contact},
    }


def _table(rows: list[Row], now: datetime) -> str:
    head = ("NAME", "READY", "NODES", "WORKS", "FAILED", "WAITING", "ORPHANED", "HUB")
    lines = [head, *(_cells(row, now) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    table = [
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    abnormal = [f"{row.name}: {', '.join(row.abnormal)}" for row in rows if row.abnormal]
    return "\n".join([*table, *abnormal])


def _cells(row: Row, now: datetime) -> tuple[str, ...]:
    ready = "Unknown" if row.ready is None else str(row.ready)
    works = row.works
    return (
        row.name,
        ready,
        f"{row.ready_nodes}/{row.nodes}",
        str(sum(works.values())),
        str(works.get("failed", 0)),
        str(works.get("waiting", 0)),
        str(row.orphaned),
        hub_text(row.hub_contact, now, is_reached=row.is_hub_reached),
    )


def hub_text(contact: float | None, now: datetime, *, is_reached: bool) -> str:
    """Return how old the hub's picture is: `as of 14:03 UTC, hub not reached since`."""
    if is_reached:
        return "now"
    if contact is None:
        return "never reached"
    at = datetime.fromtimestamp(contact, UTC)
    form = "%H:%M" if at.date() == now.date() else "%Y-%m-%d %H:%M"
    return f"as of {at.strftime(form)} UTC, hub not reached since"


def _rows(url: str) -> list[Row]:
    """Return the metrics of the agent. Raises ConfigError, CommandError."""
    text = _metrics(url)
    try:
        return rows_of(text)
    except ValueError as error:
        problem = f"{url} answers, but not with metrics of an agent; give another --metrics-url"
        raise CommandError(problem) from error


def _metrics(url: str) -> str:
    """Return the metrics of the agent. Raises ConfigError, CommandError."""
    if not is_http_url(url):
        raise ConfigError("flags", "--metrics-url", f'"{url}" is not a valid http(s) URL')
    try:
        with urllib.request.urlopen(url, timeout=ANSWERS_WITHIN_S) as response:  # noqa: S310 - http
            return str(response.read().decode())
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        text = (
            f"no metrics at {url}: {reason}; give --metrics-url, or run the command in the agent's "
            "Pod: kubectl -n NAMESPACE exec deploy/karmada-vc-agent -- karmada-vc-agent status"
        )
        raise CommandError(text) from error
