"""The table and the JSON file of a run."""

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path

import orjson

from bench.lab import ROOT
from bench.results import AgentResults, Results, median, percentile_90

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
    lines = ["| what | karmada-agent | ours | ratio | expected |", "|---|---:|---:|---:|---|"]
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
    lines = [
        "| a ConfigMap Work of the neighbour -> Applied | p50, ms | p90, ms | ratio | expected |"
    ]
    lines.append("|---|---:|---:|---:|---|")
    for what, times, expected in (
        ("all is quiet", found.quiet_ms, ""),
        ("200 Works hang in a silent webhook", found.beside_silent_ms, "<= 2"),
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


def notes(results: Results) -> str:
    """Return what one must know of machine and versions to read the table."""
    return "\n".join(f"{key}: {value}" for key, value in results.machine.items())


def revision() -> str:
    """Return the short id of the commit that is measured."""
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout.strip() or "unknown"


def default_path(results: Results) -> Path:
    """Return where the file of a run belongs."""
    name = f"{results.machine['date']}-{results.machine['commit']}.json"
    return ROOT / "bench" / "results" / name


def write(results: Results, path: Path) -> None:
    """Write everything that was measured, samples included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = orjson.dumps(dataclasses.asdict(results), option=orjson.OPT_INDENT_2)
    path.write_bytes(content + b"\n")


def _line(what: str, theirs: float, ours: float, expected: str) -> str:
    ratio = ours / theirs if theirs else 0.0
    return f"| {what} | {theirs:.1f} | {ours:.1f} | {ratio:.2f} | {expected} |"
