"""Both agents, started once; all cases are run before the first is judged."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.differential.corpus import CASES, FROM_MINOR, NEEDS
from e2e.differential.lane import NODE_COUNT, Lane, cluster_of
from e2e.differential.models import DEFAULT_MODELS
from e2e.differential.play import Result, play
from e2e.lab.api import Api, Object, collection
from e2e.lab.cleanup import NAMESPACES, clean_up
from e2e.lab.lab import CLUSTERS, FAST, Group, Lab
from e2e.lab.real_agent import RealAgent, program_of
from e2e.lab.wait import GONE_S, within

QUICK_RETRIES = ("--rate-limiter-max-delay", "5s", "--rate-limiter-qps", "100")
"""A test that waits for a retry has no time for Karmada's sixteen minutes."""
CASE = "case"
ALLOWED_COUNT = "allowed differences"
LOST_COUNT = "events that karmada-agent lost"
SUITE_TIMEOUT_S = 900
_WIDE_KINDS = (
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("networking.k8s.io/v1", "IngressClass"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("v1", "PersistentVolume"),
)
_WIDE_HUB_KINDS = (
    *_WIDE_KINDS,
    ("policy.karmada.io/v1alpha1", "ClusterOverridePolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(SUITE_TIMEOUT_S), append=False)


@pytest.fixture(scope="session")
def results(
    hub: Api,
    host: Api,
    host2: Api,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Result]]:
    """Play the cases that are asked for; return how each ended."""
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        pytest.fail("the cases are run all at once: run e2e/differential without --numprocesses")
    program = program_of(request.config)
    ours = Lab(hub, host, tmp_path_factory.mktemp("ours"))
    real = Lab(hub, host2, tmp_path_factory.mktemp("real"))
    real.id = ours.id
    selector = {f"{ours.id}/group": "compared"}
    tags = (f"{ours.id}-r", f"{ours.id}-o")
    rivals = (cluster_of(tags[1]), cluster_of(tags[0]))
    real_lane = Lane("karmada-agent", tags[0], rivals[0], hub, host2, selector, is_mapped=False)
    our_lane = Lane("ours", tags[1], rivals[1], hub, host, selector, is_mapped=True)
    selected = _selected(request.session)
    cases = {name: CASES[name] for name in selected if _is_possible(host, name)}
    try:
        with _serving(real, real_lane, program), _ours_serving(ours, our_lane):
            for lab, lane in ((real, real_lane), (ours, our_lane)):
                lab.clusters.add(lane.cluster)
            for lane in (real_lane, our_lane):
                _make_namespace(ours, lane)
            for lane in (real_lane, our_lane):
                within(GONE_S, _has_namespaces, lane, (real_lane.tag, our_lane.tag))
            yield play(cases, real_lane, our_lane)
    finally:
        for lab in (real, ours):
            clean_up(lab)
        _remove_traces(ours.id, hub, host, host2)


def _is_possible(host: Api, case: str) -> bool:
    minor = int(host.get("/version")["minor"].rstrip("+"))
    is_served = case not in NEEDS or host.find(NEEDS[case]) is not None
    return is_served and minor >= FROM_MINOR.get(case, 0)


def _selected(session: pytest.Session) -> list[str]:
    specs = [getattr(item, "callspec", None) for item in session.items]
    return [spec.params[CASE] for spec in specs if spec is not None and CASE in spec.params]


@contextmanager
def _serving(lab: Lab, lane: Lane, program: str) -> Iterator[None]:
    """Run a real agent that joins the whole host, which has the same nodes as our group."""
    _add_nodes(lab, lane)
    within(GONE_S, _is_free, lab)
    flags = QUICK_RETRIES
    agent = RealAgent(
        program, lab.hub, lab.host, lane.cluster, f"{lab.id}-real", lab.directory, *flags
    )
    with agent:
        try:
            lab.wait_ready(lane.cluster)
        except BaseException:
            print(agent.log_tail())
            raise
        yield
        assert agent.is_running(), agent.log_tail()


def _is_free(lab: Lab) -> None:
    """Check that the host is registered nowhere: a real agent ends where it is."""
    uid = lab.host.get(f"{NAMESPACES}/kube-system")["metadata"]["uid"]
    registered = [obj["metadata"]["name"] for obj in lab.hub.list(CLUSTERS) if _id(obj) == uid]
    assert not registered, f"still on the hub: {registered}"


def _id(cluster: Object) -> str:
    return str(cluster["spec"].get("id"))


@contextmanager
def _ours_serving(lab: Lab, lane: Lane) -> Iterator[None]:
    _add_nodes(lab, lane)
    entry: Object = {
        "name": lane.cluster,
        "nodeSelector": {"matchLabels": lane.selector},
        "resourceModels": DEFAULT_MODELS,
    }
    flags = (*FAST, "--rate-limiter-max-delay", "5s")
    agent = lab.serve(entry, flags=flags)
    yield
    assert agent.is_running(), agent.log_tail()


def _add_nodes(lab: Lab, lane: Lane) -> None:
    """Make nodes of the same names on each host."""
    group = Group(f"{lab.id}-node", lane.selector)
    for _ in range(NODE_COUNT):
        lab.add_node(group)


def _make_namespace(lab: Lab, lane: Lane) -> None:
    lab.hub.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lane.tag}})
    lab.namespaces.append(lane.tag)


def _has_namespaces(lane: Lane, names: tuple[str, ...]) -> None:
    for name in names:
        host_name = lane.host_name(name)
        account = f"{NAMESPACES}/{host_name}/serviceaccounts/default"
        assert lane.host.find(account) is not None, f"{account} is not on the host"


def _remove_traces(run: str, hub: Api, host: Api, host2: Api) -> None:
    """Remove what has no namespace, and the namespaces of the host that was joined whole."""
    for api, kinds in ((hub, _WIDE_HUB_KINDS), (host, _WIDE_KINDS), (host2, _WIDE_KINDS)):
        for kind in kinds:
            _remove_named(api, collection(*kind), run)
    _remove_named(hub, NAMESPACES, run)
    for api in (host, host2):
        for obj in api.list("/api/v1/configmaps"):  # one case leaves a finalizer
            metadata = obj["metadata"]
            if run in metadata["namespace"] and metadata.get("finalizers"):
                path = collection("v1", "ConfigMap", metadata["namespace"])
                api.patch(f"{path}/{metadata['name']}", {"metadata": {"finalizers": None}})
    for namespace in host2.list(NAMESPACES, "karmada.io/managed=true"):
        name, annotations = namespace["metadata"]["name"], namespace["metadata"]["annotations"]
        if run in annotations.get("work.karmada.io/namespace", ""):
            host2.delete(f"{NAMESPACES}/{name}/pods", force=True)
            host2.delete(f"{NAMESPACES}/{name}")
    _remove_named(host2, NAMESPACES, run)


def _remove_named(api: Api, path: str, run: str) -> None:
    for obj in api.list(path):
        if run in obj["metadata"]["name"]:
            api.delete(f"{path}/{obj['metadata']['name']}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how the agents compare."""
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "call":
                continue
            for name, value in getattr(report, "user_properties", ()):
                if name == ALLOWED_COUNT:
                    counts["cases"] += 1
                    counts["equal"] += report.passed and value == 0
                    counts["allowed"] += value
                if name == LOST_COUNT:
                    counts["lost"] += value
    if counts["cases"]:
        terminalreporter.write_line(
            f"{counts['cases']} cases, {counts['equal']} equal, "
            f"{counts['allowed']} allowed differences"
        )
        if counts["lost"]:
            terminalreporter.write_line(f"not compared: {counts['lost']} {LOST_COUNT}")
