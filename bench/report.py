"""The table and the JSON file of a run."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from bench.lab import ROOT
from bench.results import (
    AgentResults,
    ObjectsResults,
    Results,
    StatusWrites,
    median,
    percentile,
    percentile_90,
)
from bench.session import say

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Figure = Callable[[AgentResults], float]

_LATENCIES: tuple[tuple[str, Figure], ...] = (
    ("ConfigMap Work -> on host, p50, ms", lambda r: median(r.config_map.on_host_ms)),
    ("ConfigMap Work -> on host, p90, ms", lambda r: percentile_90(r.config_map.on_host_ms)),
    ("ConfigMap Work -> on host, max, ms", lambda r: max(r.config_map.on_host_ms)),
    ("ConfigMap Work -> Applied, p50, ms", lambda r: median(r.config_map.applied_ms)),
    ("ConfigMap Work -> Applied, p90, ms", lambda r: percentile_90(r.config_map.applied_ms)),
    ("ConfigMap Work -> Applied, max, ms", lambda r: max(r.config_map.applied_ms)),
    ("Deployment Work -> on host, p50, ms", lambda r: median(r.deployment.on_host_ms)),
    ("Deployment Work -> Applied, p50, ms", lambda r: median(r.deployment.applied_ms)),
    ("Deployment Work -> Healthy, p50, ms", lambda r: median(r.deployment.healthy_ms)),
)
_BURSTS: tuple[tuple[str, Figure], ...] = (
    ("burst, until all are Applied, s", lambda r: median([b.seconds for b in r.bursts])),
    (
        "burst, until the hub has taken all Works, s",
        lambda r: median([b.posting_s for b in r.bursts]),
    ),
    ("burst, Works a second", lambda r: median([b.works_a_second for b in r.bursts])),
    ("burst, CPU ms a Work", lambda r: median([b.cpu_ms_a_work for b in r.bursts])),
)
_ONE_CLUSTER: tuple[tuple[str, Figure], ...] = (
    ("1 cluster: RSS idle, MB", lambda r: r.idle.rss_kb / 1024),
    ("1 cluster: PSS idle, MB", lambda r: r.idle.pss_kb / 1024),
    ("1 cluster: RSS after the first burst, MB", lambda r: r.after_burst.rss_kb / 1024),
    ("1 cluster: CPU idle, % of a core", lambda r: r.idle_cpu_percent),
)


def table(results: Results) -> str:
    """Return the Markdown table; ratio = ours / karmada-agent."""
    lines = ["| what | karmada-agent | ours | ratio | expected ratio |", "|---|---:|---:|---:|---|"]
    expected = {
        "ConfigMap Work -> Applied, p50, ms": "<= 1",
        "burst, Works a second": ">= 8",
    }
    for what, figure in (*_LATENCIES, *_BURSTS, *_ONE_CLUSTER):
        theirs, ours = figure(results.theirs), figure(results.ours)
        lines.append(_line(what, theirs, ours, expected.get(what, "")))
    fleet, idle_rss_kb = results.fleet, results.theirs.idle.rss_kb
    many = f"{fleet.clusters} clusters"
    rows = (
        (f"{many}: RSS idle, MB", fleet.idle.rss_kb, "< 2"),
        (f"{many}: RSS after a Work in each, MB", fleet.one_work_each.rss_kb, "< 2"),
    )
    for what, rss_kb, limit in rows:
        lines.append(_line(f"{what} (against one idle)", idle_rss_kb / 1024, rss_kb / 1024, limit))
    lines += [
        f"| {many}: PSS idle, MB | | {fleet.idle.pss_kb / 1024:.1f} | | |",
        f"| {many}: CPU idle, % of a core | | {fleet.idle_cpu_percent:.2f} | | |",
        f"| {many}: start -> all Ready, s | | {fleet.all_ready_s:.1f} | | |",
        f"| {many}: one Work in each -> all Applied, s | | {fleet.one_work_each_s:.2f} | | |",
    ]
    return "\n".join(lines)


def neighbours(results: Results) -> str:
    """Return the Markdown table of what a neighbour feels; ratio = to when all is quiet."""
    found = results.neighbour
    quiet = median(found.quiet_ms)
    what = "a ConfigMap Work of the neighbour -> Applied"
    lines = [f"| {what} | p50, ms | p90, ms | ratio | expected ratio |", "|---|---:|---:|---:|---|"]
    for what, times, expected in (
        ("all is quiet", found.quiet_ms, ""),
        ("200 Works hang in a silent webhook", found.beside_silent_ms, "<= 2"),
        ("the host takes 29 s for each write of 200 Works", found.beside_slow_host_ms, "<= 2"),
        ("200 Works of an unknown kind", found.beside_unknown_ms, "<= 2"),
    ):
        p50, p90 = median(times), percentile_90(times)
        lines.append(f"| {what} | {p50:.1f} | {p90:.1f} | {p50 / quiet:.2f} | {expected} |")
    lines += ["", "| the same agent holds, RSS, MB | |", "|---|---:|"]
    for what, rss_kb in (
        ("before 120 Works of 1 MB", found.before_large.rss_kb),
        ("with them; those over the bound of bytes are refused", found.with_large.rss_kb),
        ("started again, at rest", found.after_restart.rss_kb),
        ("started again, at most", found.restart_peak_kb),
    ):
        lines.append(f"| {what} | {rss_kb / 1024:.1f} |")
    return "\n".join(lines)


def objects(results: ObjectsResults) -> str:
    """Return the Markdown tables of what VirtualCluster objects cost."""
    count = results.objects
    lines = [
        f"| a ConfigMap Work -> Applied | without objects | beside {count} | |",
        "|---|---:|---:|---|",
    ]
    for what, figure in (
        ("p50, ms", lambda phase: median(phase.applied_ms)),
        ("p99, ms", lambda phase: percentile(phase.applied_ms, 99)),
        ("burst, CPU ms a Work", lambda phase: median([b.cpu_ms_a_work for b in phase.bursts])),
        ("burst, Works a second", lambda phase: median([b.works_a_second for b in phase.bursts])),
    ):
        for agent, before, after in zip(
            ("the agent that has none", "the agent that has them"),
            map(figure, results.before),
            map(figure, results.beside),
            strict=True,
        ):
            lines.append(f"| {what}: {agent} | {before:.1f} | {after:.1f} | {after / before:.2f} |")
    lines += ["", "| objects | RSS, MB | PSS, MB |", "|---|---:|---:|"]
    for name, held in (
        ("off", results.off),
        ("0", results.none),
        *((str(number), held) for number, held in results.held),
    ):
        lines.append(f"| {name} | {held.rss_kb / 1024:.1f} | {held.pss_kb / 1024:.1f} |")
    idle, change = results.idle_writes, results.writes_under_change
    lines += [
        "",
        f"all objects were registered and Ready {results.registered_s:.0f} s after they came",
        f"idle: {results.idle_cpu_percent:.1f} % of a core; status writes: {_told(idle)}",
        f"objects that change once a second; status writes: {_told(change)}",
    ]
    return "\n".join(lines)


def _told(writes: StatusWrites) -> str:
    gap = f", {writes.shortest_gap_s} s apart at least" if writes.shortest_gap_s else ""
    of_one = f" to {writes.objects} objects, {writes.most_of_one} at most to one{gap}"
    return f"{writes.writes} in {writes.seconds:.0f} s{of_one if writes.writes else ''}"


def notes(machine: dict[str, str]) -> str:
    """Return what one must know of machine and versions to read the table."""
    return "\n".join(f"{key}: {value}" for key, value in machine.items())


def default_path(machine: dict[str, str], suffix: str = "") -> Path:
    """Return where the file of a run belongs."""
    name = f"{machine['date']}-{machine['commit']}{suffix}.json"
    return ROOT / "bench" / "results" / name


def write(results: "DataclassInstance", path: Path) -> None:
    """Write everything that was measured as JSON, samples included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = orjson.dumps(dataclasses.asdict(results), option=orjson.OPT_INDENT_2)
    path.write_bytes(content + b"\n")
    say(f"wrote {os.path.relpath(path)}")


def _line(what: str, theirs: float, ours: float, expected: str) -> str:
    ratio = ours / theirs if theirs else 0.0
    return f"| {what} | {theirs:.1f} | {ours:.1f} | {ratio:.2f} | {expected} |"
