"""Metrics, health and flags: true on real control planes, and those of a real karmada-agent."""

import re
import subprocess
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object
from e2e.lab.endpoints import Endpoints, Scrape, help_defaults
from e2e.lab.lab import CLUSTERS, FAST, QUICK_LEASE, Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.real_agent import joined_whole, program_of
from e2e.lab.wait import GONE_S, STARTED_S, within
from karmada_vc_agent.model.quantity import parse_duration_s

FLAGS = Path(__file__).parents[1] / "docs" / "flags.md"
SAME_BY_NAME = re.compile(
    r"cluster_|work_sync_|workqueue_|controller_runtime_|rest_client_|leader_"
)
NOT_HERE = {
    "controller_runtime_conversion_webhook_panics",
    "controller_runtime_reconcile_timeouts",
    "controller_runtime_terminal_reconcile_errors",
    "controller_runtime_webhook_panics",
}
"""Families of a real agent that nothing here moves; docs/metrics.md."""
CPU = "4"


@pytest.fixture
def program(request: pytest.FixtureRequest) -> str:
    return program_of(request.config)


def _start(
    lab: Lab, *groups: Group, hub: Path | None = None, host: Path | None = None
) -> tuple[Agent, Endpoints]:
    endpoints = Endpoints.new()
    agent = lab.new_agent(*groups, flags=(*FAST, *endpoints.flags()), hub=hub, host=host)
    agent.start()
    return agent, endpoints


def _group(lab: Lab, letter: str) -> Group:
    """Make a group of one node; nobody simulates it, so this needs no kwok."""
    group = Group(f"{lab.id}-{letter}", {lab.label: letter})
    lab.clusters.add(group.name)
    lab.add_node(group, is_simulated=False)
    return group


@pytest.mark.smoke
def test_metrics_say_what_hub_and_host_have(lab: Lab) -> None:
    groups = [_group(lab, "a"), _group(lab, "b")]
    agent, endpoints = _start(lab, *groups)
    lab.wait_serving(agent)
    group = groups[0]
    good = objects.config_map(lab.namespace(), "good")
    bad = objects.deployment(lab.id, "bad", node_selector={lab.label: "b"})
    lab.wait_applied(lab.create_work(group, "good", good))
    lab.wait_applied(lab.create_work(group, "bad", bad), "False")

    def look() -> Scrape:
        scrape = endpoints.scrape()
        name = group.name
        states = scrape.values("virtual_cluster_works")
        works = lab.works(group)
        assert sum(states[name, s] for s in ("applied", "failed")) == len(works)
        assert states[name, "failed"] == 1
        refused = scrape.values("virtual_cluster_refused_manifests")
        assert refused == {("NodeSelectorConflict", name): 1}
        assert scrape.values("virtual_cluster_nodes")[name,] == 1
        assert scrape.values("virtual_cluster_node_overlaps")[name,] == 0
        made = "virtualcluster.kubeedge.io/cluster=" + name
        counted = sum(
            len(lab.host.list(path, made)) for path in ("/api/v1/namespaces", "/api/v1/configmaps")
        )
        assert scrape.values("virtual_cluster_host_objects")[name,] >= counted > 1
        synced = "work_sync_workload_duration_seconds_count"
        assert scrape.values(synced)["error",] >= 1
        assert scrape.values(synced)["success",] >= 1
        return scrape

    scrape = within(STARTED_S, look)
    for each in groups:
        _assert_numbers_of(lab.cluster(each.name)["status"], scrape, each.name)
        for server in ("hub", "host"):
            assert (each.name, server) in scrape.values(
                "virtual_cluster_last_contact_timestamp_seconds"
            )
    assert scrape.values("api_server_reachable") == {("hub",): 1, ("host",): 1}
    assert scrape.values("leader_election_master_status") == {(agent.name,): 1}
    assert not [line for line in scrape.text.splitlines() if "_created" in line]

    lab.hub.delete(f"{CLUSTERS}/{groups[1].name}")
    within(GONE_S, _was_deleted, lab, endpoints, groups[1].name)


def _assert_numbers_of(status: Object, scrape: Scrape, name: str) -> None:
    """Compare the gauges with the status on the hub, for nodes of a known size without pods."""
    summary = status["resourceSummary"]
    assert summary["allocatable"]["cpu"] == CPU, summary
    assert status["nodeSummary"] in ({"totalNum": 1}, {"totalNum": 1, "readyNum": 1})
    ready = status["nodeSummary"].get("readyNum", 0)
    memory = _bytes(summary["allocatable"]["memory"])
    expected = {
        "cluster_ready_state": 1,
        "cluster_node_number": 1,
        "cluster_ready_node_number": ready,
        "cluster_cpu_allocatable_number": 4,
        "cluster_memory_allocatable_bytes": memory,
        "cluster_pod_allocatable_number": float(summary["allocatable"]["pods"]),
        "cluster_cpu_allocated_number": 0,
        "cluster_memory_allocated_bytes": 0,
        "cluster_pod_allocated_number": 0,
    }
    assert {family: scrape.values(family)[name,] for family in expected} == expected


def _bytes(text: str) -> int:
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    return int(text[:-2]) * units[text[-2:]]


def _was_deleted(lab: Lab, endpoints: Endpoints, name: str) -> None:
    assert lab.hub.find(f"{CLUSTERS}/{name}") is None
    assert name not in endpoints.scrape().text


def test_families_are_those_of_a_real_agent(lab: Lab, program: str) -> None:
    group = _group(lab, "a")
    agent, endpoints = _start(lab, group)
    lab.wait_serving(agent)
    settings = objects.config_map(lab.namespace())
    lab.wait_applied(lab.create_work(group, "settings", settings))
    real = Endpoints.new()
    elects = ("--leader-elect=true", "--leader-elect-resource-namespace", lab.id)
    flags = (*elects, *real.flags())
    with joined_whole(lab, program, f"{lab.id}-whole", *flags):
        within(
            STARTED_S,
            _has,
            real,
            "cluster_cpu_allocatable_number",
            "work_sync_workload_duration_seconds",
        )
        theirs, ours = real.scrape(), endpoints.scrape()
    names = {n for n in theirs.families if SAME_BY_NAME.match(n) and theirs.families[n].samples}
    assert names > NOT_HERE
    compared = sorted(names - NOT_HERE)
    assert {n: ours.shape(n) for n in compared} == {n: theirs.shape(n) for n in compared}
    for name in compared:
        if theirs.families[name].type == "histogram":
            assert ours.bounds(name) == pytest.approx(theirs.bounds(name)), name


def _has(endpoints: Endpoints, *families: str) -> None:
    found = endpoints.scrape().families
    assert all(name in found and found[name].samples for name in families), sorted(found)


def test_health_reports_cut_servers_without_requiring_a_restart(lab: Lab) -> None:
    group = _group(lab, "a")
    with (
        Proxy(lab.hub.kubeconfig, lab.directory / "hub") as to_hub,
        Proxy(lab.host.kubeconfig, lab.directory / "host") as to_host,
    ):
        to_hub.cut()
        agent, endpoints = _start(lab, group, hub=to_hub.kubeconfig, host=to_host.kubeconfig)
        within(STARTED_S, _has_check, endpoints, 500, "[-]hub failed", "[-]phase failed: starting")
        assert endpoints.ask("/healthz") == (200, "ok")

        to_hub.restore()
        lab.wait_serving(agent)
        within(STARTED_S, _is_ready, endpoints)
        status, text = endpoints.ask("/healthz?verbose")
        assert (status, text) == (
            200,
            "[+]ping ok\n[+]tasks ok\n[+]leases ok\nhealthz check passed\n",
        )
        for server, proxy, state in (
            ("hub", to_hub, (200, "[+]hub ok: the API server")),  # the checkpoint serves
            ("host", to_host, (500, "[-]host failed: the API server")),
        ):
            proxy.cut()
            within(STARTED_S, _has_check, endpoints, *state)
            assert endpoints.ask("/healthz") == (200, "ok")
            assert endpoints.scrape().values("api_server_reachable")[server,] == 0
            proxy.restore()
            within(STARTED_S, _is_ready, endpoints)


def test_standby_is_ready_and_says_that_it_does_not_lead(lab: Lab) -> None:
    group = _group(lab, "a")
    leader = lab.new_agent(group, flags=(*FAST, *QUICK_LEASE)).start()
    lab.wait_serving(leader)
    with Proxy(lab.hub.kubeconfig, lab.directory / "hub") as to_hub:
        _, endpoints = _start(lab, group, hub=to_hub.kubeconfig)

        def is_on_standby() -> None:
            scrape = endpoints.scrape()
            assert scrape.values("leader_election_master_status") == {(leader.name,): 0}
            assert group.name not in scrape.text
            _is_ready(endpoints)

        within(STARTED_S, is_on_standby)
        to_hub.cut()
        within(STARTED_S, _has_check, endpoints, 200, "[+]hub ok: the API server")
        assert endpoints.ask("/livez") == (200, "ok")
        to_hub.restore()
        within(STARTED_S, _is_ready, endpoints)


def _is_ready(endpoints: Endpoints) -> None:
    assert endpoints.ask("/readyz") == (200, "ok")


def _has_check(endpoints: Endpoints, code: int, *lines: str) -> None:
    status, text = endpoints.ask("/readyz?verbose")
    assert status == code, text
    assert all(line in text for line in lines), text


def test_flags_declared_the_same_have_a_real_agents_defaults(program: str) -> None:
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    theirs = help_defaults(shown.stdout + shown.stderr)
    rows = re.findall(r"^\| `(--[\w-]+)` \| ([\w ]+) \|([^|]*)\|", FLAGS.read_text(), re.MULTILINE)
    table = {flag: (relation, cell.strip(" `")) for flag, relation, cell in rows}
    not_own = {flag for flag, (relation, _) in table.items() if relation != "own"}
    assert not_own <= set(theirs)
    same = {flag: default for flag, (relation, default) in table.items() if relation == "same"}
    assert len(same) > 20
    different = {
        flag: (default, theirs[flag])
        for flag, default in same.items()
        if _value(default) != _value(theirs[flag])
    }
    assert different == {}
    changed = {flag for flag, (relation, _) in table.items() if relation == "other default"}
    assert not {flag for flag in changed if _value(table[flag][1]) == _value(theirs[flag])}


def _value(text: str) -> float | str:
    """Return what a default means: seconds of a duration, a number, else the text."""
    text = text.removeprefix("[").removesuffix("]")  # a list, as a Go program prints it
    if text in ("", "false", "0s"):
        return ""  # a Go program tells no default that is zero
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return parse_duration_s(text)
    except ValueError:
        return text
