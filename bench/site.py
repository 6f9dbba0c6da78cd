"""A small site: a host that stores its objects in SQLite, and its agent, in 1 GB and 2 CPUs.

kine, kube-apiserver, kube-controller-manager, kube-scheduler and the agent run in one memory
cgroup; the hub, and kwok, which simulates the nodes, run outside. Prints what each takes, and
checks that the site serves through a cut of its uplink, and after a reboot without it.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from urllib3.exceptions import HTTPError

from bench.lab import CONTROL_PLANES, GROUP_LABEL, ROOT, Lab, node_groups
from bench.process import cpu_s, pss_kb
from bench.record import OURS, THEIRS
from bench.report import default_path
from bench.session import machine_of
from e2e.lab import lab, objects
from e2e.lab.api import Api, ApiError, Object, path_of
from e2e.lab.proxy import Proxy
from e2e.lab.works import condition, execution_namespace, hand_written, works_path

SITE = ("host-kine", "host-kube-apiserver", "host-kube-controller-manager", "host-kube-scheduler")
AGENT = "karmada-vc-agent"
CLUSTERS, WORKS = 3, 20
IDLE_S = 60.0
TIMEOUT_S = 300.0


@dataclass
class SiteResults:
    """memory_mb: PSS of each process when all was idle. cpu: of one core, in that time."""

    machine: dict[str, str]
    limit_mb: int
    memory_mb: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    peak_mb: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)


class MemoryGroup:
    """A memory cgroup, of version 1 or 2; needs root."""

    def __init__(self, limit_mb: int) -> None:
        top = Path("/sys/fs/cgroup")
        self._is_first = (top / "memory").is_dir()
        self.path = (top / "memory" if self._is_first else top) / f"karmada-vc-site-{os.getpid()}"
        self.path.mkdir()
        limit = "memory.limit_in_bytes" if self._is_first else "memory.max"
        (self.path / limit).write_text(str(limit_mb << 20))

    def peak_mb(self) -> float:
        name = "memory.max_usage_in_bytes" if self._is_first else "memory.peak"
        return int((self.path / name).read_text()) / (1 << 20)

    def command(self, *arguments: str) -> list[str]:
        """Return a command that runs another one in this group."""
        script = f'echo $$ > {self.path}/cgroup.procs && exec "$@"'
        return ["sh", "-c", script, "sh", *arguments]

    def close(self) -> None:
        _until("the group is empty", self.path.rmdir)


class Run(NamedTuple):
    """A process of the site, and how it was started."""

    command: Sequence[str]
    environment: Mapping[str, str] | None
    process: subprocess.Popen[bytes]


class Site:
    """The processes of the site; each can be started again as it was."""

    def __init__(self, directory: Path, group: MemoryGroup, hub: Path) -> None:
        self._lab, self._group, self._hub = Lab(directory, CLUSTERS), group, hub
        records = [directory / "processes" / f"{name}.json" for name in SITE]
        self._pids = {path.stem: int(json.loads(path.read_text())["pid"]) for path in records}
        self._commands = {name: _command(pid) for name, pid in self._pids.items()}
        self._runs: dict[str, Run] = {}

    def reboot(self) -> None:
        """Kill all at once, and start it again within the limit."""
        self.kill()
        for name, command in self._commands.items():
            self._start(name, command)
        names = node_groups("branch", CLUSTERS)
        command, environment = self._lab.our_command(names, "host", hub=self._hub)
        self._start(AGENT, command, environment)

    def until(self, what: str, look: Callable[[], object]) -> float:
        """Call until it succeeds; return after how many seconds.

        A process that ended meanwhile is started again, as a supervisor does: those of Kubernetes
        end where what they need is not up yet.
        """

        def look_and_restart() -> None:
            for name, run in list(self._runs.items()):
                if (code := run.process.poll()) is not None:
                    print(f"hack/bench site: {name} ended with {code}; starting it", flush=True)
                    self._start(name, run.command, run.environment)
            look()

        return _until(what, look_and_restart)

    def kill(self) -> None:
        """Kill what runs of the site."""
        for pid in self._pids.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for run in self._runs.values():
            run.process.wait()
        self._runs.clear()

    def _start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        with (self._lab.directory / f"site-{name}.log").open("ab") as log:
            process = subprocess.Popen(
                self._group.command(*command),
                env=environment,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )
        self._runs[name] = Run(command, environment, process)
        self._pids[name] = process.pid

    def measure(self, results: SiteResults) -> None:
        """Record memory and CPU of each process over a time in which nothing happens."""
        before = {name: cpu_s(pid) for name, pid in self._pids.items()}
        time.sleep(IDLE_S)
        for name, pid in self._pids.items():
            results.memory_mb[name] = round(pss_kb(pid) / 1024, 1)
            results.cpu[name] = round((cpu_s(pid) - before[name]) / IDLE_S, 3)


def _command(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def _until(what: str, look: Callable[[], object]) -> float:
    """Call until it succeeds; return after how many seconds."""
    began = time.monotonic()
    while True:
        try:
            look()
        except (AssertionError, ApiError, OSError, HTTPError) as error:
            if time.monotonic() - began > TIMEOUT_S:
                raise SystemExit(f"hack/bench site: not in time: {what}: {error}") from error
            time.sleep(0.2)
        else:
            return round(time.monotonic() - began, 1)


@dataclass
class Scene:
    """What the administrator of the hub sees, and what runs on the host."""

    hub: Api
    host: Api

    def create_nodes(self) -> None:
        for number in range(1, 2 * CLUSTERS + 1):
            labels = {GROUP_LABEL: str((number - 1) // 2 + 1)}
            self.host.create(objects.node(f"edge-{number}", labels))

    def create_works(self, site: Site) -> None:
        for cluster in _clusters():
            space = f"/api/v1/namespaces/{execution_namespace(cluster)}"
            site.until(f"{cluster} is registered", partial(self.hub.get, space))
            for number in range(WORKS):
                name = f"app-{number}"
                manifest = objects.deployment("shop", name) if number % 2 else _map(name)
                self.hub.create(hand_written(cluster, name, manifest))

    def all_is_applied(self) -> None:
        for cluster in _clusters():
            for work in self.hub.list(works_path(cluster)):
                if work["metadata"]["name"].startswith("app-"):
                    _must_be_true(work, "Applied")
            _must_be_true(self.hub.get(f"{lab.CLUSTERS}/{cluster}"), "Ready")
        pods = self.host.list("/api/v1/pods")
        running = sum(pod["status"].get("phase") == "Running" for pod in pods)
        if running < CLUSTERS * WORKS // 2:
            raise AssertionError(f"{running} pods run")

    def repairs(self, site: Site) -> float:
        """Delete an object of each virtual cluster; return how long until all are back."""
        paths = [path_of(_map("app-0"), f"shop-v-{cluster}") for cluster in _clusters()]
        for path in paths:
            self.host.delete(path)
        return site.until("objects are back", lambda: [self.host.get(path) for path in paths])

    def answers(self) -> None:
        self.host.list("/api/v1/nodes")


def _must_be_true(obj: Object, kind: str) -> None:
    seen = condition(obj, kind)
    if seen["status"] != "True":
        raise AssertionError(f"{obj['metadata']['name']}: {seen}")


def _map(name: str) -> Object:
    return objects.config_map("shop", name, key="1")


def _clusters() -> list[str]:
    return [f"branch-{number}" for number in range(1, CLUSTERS + 1)]


async def _machine() -> dict[str, str]:
    return machine_of("of hack/tools, on kine")


def run(directory: Path, limit_mb: int) -> SiteResults:
    """Measure in control planes that were made for it."""
    results = SiteResults(asyncio.run(_machine()), limit_mb)
    scene = Scene(Api(directory / "hub.kubeconfig"), Api(directory / "host.kubeconfig"))
    scene.create_nodes()
    group = MemoryGroup(limit_mb)
    with Proxy(directory / "hub.kubeconfig", directory / "wire") as wire:
        site = Site(directory, group, wire.kubeconfig)
        try:
            site.reboot()
            site.until("the host answers", scene.answers)
            scene.create_works(site)
            results.seconds["all applied and ready"] = site.until(
                "all applied", scene.all_is_applied
            )
            site.measure(results)
            wire.cut()
            time.sleep(5)
            results.seconds["repaired during the cut"] = scene.repairs(site)
            site.reboot()
            began = time.monotonic()
            site.until("the host answers", scene.answers)
            scene.repairs(site)
            seconds = round(time.monotonic() - began, 1)
            results.seconds["repaired after a reboot during the cut"] = seconds
            wire.restore()
            back = site.until("all applied", scene.all_is_applied)
            results.seconds["ready after the end of the cut"] = back
            results.peak_mb = round(group.peak_mb(), 1)
        finally:
            site.kill()
            group.close()
    return results


def table(results: SiteResults) -> str:
    """Return the results as a page."""
    rows = [
        f"| {name.removeprefix('host-')} | {memory:.0f} | {results.cpu[name]:.1%} |"
        for name, memory in results.memory_mb.items()
    ]
    total, cpu = sum(results.memory_mb.values()), sum(results.cpu.values())
    times = [f"| {what} | {seconds:.1f} |" for what, seconds in results.seconds.items()]
    return "\n".join(
        (
            "| process | memory, MB | CPU, of one core, idle |",
            "|---|---|---|",
            *rows,
            f"| **all** | **{total:.0f}** | **{cpu:.1%}** |",
            "",
            f"The cgroup was charged {results.peak_mb:.0f} of {results.limit_mb} MB at most, but",
            "not for pages of programs that processes outside it had read before.",
            "",
            "| what | seconds |",
            "|---|---|",
            *times,
        )
    )


PAGE = ROOT / "docs" / "sizing.md"
_HEAD = """\
# Sizing

## A small site

`hack/bench site` runs what a site of one machine runs: kine on SQLite in place of etcd,
kube-apiserver, kube-controller-manager, kube-scheduler and the agent, all in one memory cgroup of
{limit} MB, with {clusters} virtual clusters, {nodes} nodes and {works} Works. The nodes are
simulated, the hub is elsewhere. Measured {date} at {commit} with {cores} cores.

"""
_TAIL = """

## A large host

5,000 nodes in 10 virtual clusters and 20,000 pods, then karmada-agent on the same host, in one run
of `hack/bench fleet --clusters 10 --nodes 500 --pods 20000 --works 0 --repetitions 1` at {commit}:

| what | karmada-agent | ours | ratio |
|---|---:|---:|---:|
{rows}

[performance.md](performance.md) compares with karmada-agent in one run: memory of 1 to 1,000
virtual clusters, bursts, CPU for each Work. What tenants make the agent keep is bounded by
`bounds.bytes` for each virtual cluster ([ADR 63](adr/0063-memory-is-counted-as-it-is-held.md)); the
memory limit of the Deployment, 512 Mi, has to grow with what they fill of it. The gateway has the
same limit; give it 1280 Mi where tenants may try all they can at once
([what to request](performance.md#what-to-request)).
"""


def page(results: SiteResults, large: Mapping[str, Any]) -> str:
    """Return docs/sizing.md; large: the JSON of the `fleet` that its text names."""
    head = _HEAD.format(
        limit=results.limit_mb,
        clusters=CLUSTERS,
        nodes=2 * CLUSTERS,
        works=CLUSTERS * WORKS,
        **{key: results.machine[key] for key in ("date", "commit", "cores")},
    )
    both = [each for each in large["figures"] if {OURS, THEIRS} <= each["values"].keys()]
    rows = []
    for figure in both:
        theirs, ours = (median(figure["values"][name]) for name in (THEIRS, OURS))
        rows.append(f"| {figure['what']} | {theirs:.1f} | {ours:.1f} | {ours / theirs:.2f} |")
    tail = _TAIL.format(commit=large["machine"]["commit"], rows="\n".join(rows))
    return head + table(results) + tail


def write_page() -> None:
    """Write docs/sizing.md from the newest results of each kind."""
    PAGE.write_text(page(SiteResults(**newest("-site")), newest("-5000-nodes")))


def newest(suffix: str) -> dict[str, Any]:
    """Return the newest of the results that are kept under a suffix."""
    paths = (ROOT / "bench" / "results").glob(f"*{suffix}.json")
    return json.loads(max(paths).read_text())  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(prog="hack/bench site", description=__doc__)
    parser.add_argument("--limit-mb", type=int, default=1024)
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="karmada-vc-site.") as folder:
        directory = Path(folder) / "control-planes"
        up = ["up", str(directory), "--hosts", "1", "--datastore", "kine"]
        subprocess.run([CONTROL_PLANES, *up], check=True)
        try:
            results = run(directory, options.limit_mb)
        finally:
            subprocess.run([CONTROL_PLANES, "down", directory], check=False)
    path = options.output or default_path(results.machine, "-site")
    path.write_text(json.dumps(asdict(results), indent=2) + "\n")
    if options.output is None:
        write_page()
    print(table(results), f"\nwritten: {path}")


if __name__ == "__main__":
    main()
