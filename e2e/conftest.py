"""Options, and the lab that each test gets."""

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.escapes.table import ATTEMPTS, BY_PROFILE
from e2e.lab import quarantine, tiers, wait
from e2e.lab.api import Api
from e2e.lab.cleanup import clean_up, wait_until_deleted
from e2e.lab.interpret import Interpreter, cached_program
from e2e.lab.lab import Lab, SharedLab
from e2e.lab.lone_server import lone_karmada
from e2e.lab.node_groups import NodeGroups, serve_node_groups
from e2e.lab.proxy import Proxy

TEST_TIMEOUT_S = 900
"""For what never ends; a story that waits for much takes minutes on a busy machine."""
_COUNTS = ("comparisons", "differences")
_KUBECONFIGS = {
    "hub": "HUB_KUBECONFIG",
    "host": "HOST_KUBECONFIG",
    "host2": "HOST2_KUBECONFIG",
}
_LONGEST = {
    "faults",
    "test_checkpoint_refused.py",
    "test_exec_plugin.py",
    "test_hand_over.py",
    "test_leave.py",
    "test_memory.py",
    "test_rights_lost.py",
    "test_shards.py",
    "test_slow_uplink.py",
    "test_windows.py",
}
"""Folders and files of stories that take minutes: none of them begins last."""
_LABS = pytest.StashKey[list[Lab]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("e2e")
    for name, variable in _KUBECONFIGS.items():
        group.addoption(
            f"--{name}-kubeconfig",
            default=os.environ.get(variable),
            help=f"kubeconfig of the {name} [env {variable}]",
        )
    group.addoption(
        "--share", type=int, default=100, help="run so many of 100 stories [default: all]"
    )
    group.addoption("--share-from", type=int, default=0, help="another number, other stories")
    group.addoption(
        "--more-follow",
        action="store_true",
        help="do not wait at the end until all is deleted: other stories run meanwhile",
    )
    group.addoption(
        "--karmada-agent",
        default=os.environ.get("KARMADA_AGENT"),
        help="program of a real karmada-agent [env KARMADA_AGENT]",
    )
    group.addoption(
        "--kubectl-karmada",
        default=os.environ.get("KUBECTL_KARMADA"),
        help="program of Karmada's kubectl-karmada [env KUBECTL_KARMADA; default: the one "
        "that hack/control-planes build makes]",
    )
    group.addoption(
        "--coredns",
        default=os.environ.get("COREDNS"),
        help="program of CoreDNS [env COREDNS]",
    )


def pytest_configure() -> None:
    """End as on Ctrl-C when told to end: agents are killed and what was made is removed."""
    quarantine.check(quarantine.QUARANTINED)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    tiers.mark(item)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    percent, begin = config.getoption("--share"), config.getoption("--share-from")
    by_share: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        by_share[tiers.is_in_share(item.nodeid, percent, begin)].append(item)
    config.hook.pytest_deselected(items=by_share[False])
    items[:] = by_share[True]
    items.sort(key=lambda item: _LONGEST.isdisjoint(item.path.parts))
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S), append=False)
    quarantine.mark(items, quarantine.QUARANTINED)


@pytest.fixture(scope="session")
def hub(request: pytest.FixtureRequest) -> Api:
    return _api(request, "hub")


@pytest.fixture(scope="session")
def host(request: pytest.FixtureRequest) -> Api:
    return _api(request, "host")


@pytest.fixture(scope="session")
def host2(request: pytest.FixtureRequest) -> Api:
    """Return a second host, for what needs one; it is not there everywhere."""
    if not request.config.getoption("--host2-kubeconfig"):
        pytest.skip("no second host: give --host2-kubeconfig or HOST2_KUBECONFIG")
    return _api(request, "host2")


def _api(request: pytest.FixtureRequest, name: str) -> Api:
    path = request.config.getoption(f"--{name}-kubeconfig")
    if not path:
        pytest.fail(f"give --{name}-kubeconfig, or run hack/e2e, which makes control planes")
    return Api(Path(path).absolute())


@pytest.fixture(scope="session")
def interpreter(request: pytest.FixtureRequest) -> Interpreter:
    """Karmada's own interpreter code; needs no control plane."""
    program = request.config.getoption("--kubectl-karmada")
    return Interpreter(Path(program).absolute() if program else cached_program())


@pytest.fixture(scope="session")
def finished_labs(request: pytest.FixtureRequest) -> Iterator[list[Lab]]:
    """Labs of ended tests; what they made goes in the background, but it must go."""
    labs: list[Lab] = []
    yield labs
    for lab in () if request.config.getoption("--more-follow") else labs:
        wait_until_deleted(lab)


@pytest.fixture
def lab(
    hub: Api,
    host: Api,
    tmp_path: Path,
    finished_labs: list[Lab],
    request: pytest.FixtureRequest,
) -> Iterator[Lab]:
    """Return a lab of the test's own, or that of its file where this is marked `shared_agent`."""
    marks = [mark.name for mark in request.node.iter_markers()]
    if "shared_agent" in marks and "own_agent" not in marks:
        yield request.getfixturevalue("lab_of_the_file")
        return
    with _lab(Lab(hub, _by_profile(host, request), tmp_path), finished_labs, request) as made:
        yield made


@pytest.fixture(scope="module")
def lab_of_the_file(
    hub: Api,
    host: Api,
    tmp_path_factory: pytest.TempPathFactory,
    finished_labs: list[Lab],
    request: pytest.FixtureRequest,
) -> Iterator[Lab]:
    """Make one lab, with one agent, for all tests of a file that need nothing else."""
    made = SharedLab(hub, host, tmp_path_factory.mktemp("lab"))
    with _lab(made, finished_labs, request):
        yield made


@pytest.fixture
def own_hub(tmp_path: Path) -> Iterator[Api]:
    """Run a hub with no objects of other stories; `own-hub` below tmp_path has its audit log."""
    with lone_karmada(tmp_path / "own-hub", is_audited=True) as api:
        yield api


@pytest.fixture
def hub_wire(lab: Lab, tmp_path: Path) -> Iterator[Proxy]:
    """Return the way to the hub, for agents that a test cuts off from it."""
    with Proxy(lab.hub.kubeconfig, tmp_path / "hub-wire") as proxy:
        yield proxy


@pytest.fixture
def lab2(
    hub: Api,
    host2: Api,
    tmp_path: Path,
    finished_labs: list[Lab],
    request: pytest.FixtureRequest,
) -> Iterator[Lab]:
    """Return a lab on the second host, for stories of two hosts."""
    directory = tmp_path / "host2"
    directory.mkdir()
    with _lab(Lab(hub, host2, directory), finished_labs, request) as made:
        yield made


@pytest.fixture
def only_edges(host: Api) -> Iterator[None]:
    """Let no other process make a node that is no edge: agents would run there."""
    with wait.turn(host, "edges"):
        yield


@pytest.fixture
def node_groups(lab: Lab) -> Iterator[NodeGroups]:
    """Return what makes NodeGroups for a test; they go when it ends."""
    serve_node_groups(lab.host)
    made = NodeGroups(lab)
    yield made
    made.delete()


@pytest.fixture(scope="module")
def new_lab(
    hub: Api,
    host: Api,
    tmp_path_factory: pytest.TempPathFactory,
    finished_labs: list[Lab],
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[], Lab]]:
    """Return what makes labs that several tests of a file share."""
    with ExitStack() as stack:

        def make() -> Lab:
            directory = tmp_path_factory.mktemp("lab")
            lab = Lab(hub, _by_profile(host, request), directory)
            return stack.enter_context(_lab(lab, finished_labs, request))

        yield make


@pytest.fixture(scope="module")
def shared_lab(new_lab: Callable[[], Lab]) -> Lab:
    """Make one lab for all tests of a file."""
    return new_lab()


def _by_profile(host: Api, request: pytest.FixtureRequest) -> Api:
    """Return the second host for a story marked `strict`: a host's tenants have one profile."""
    is_strict = request.node.get_closest_marker("strict") is not None
    return request.getfixturevalue("host2") if is_strict else host


@contextmanager
def _lab(lab: Lab, finished: list[Lab], request: pytest.FixtureRequest) -> Iterator[Lab]:
    request.node.stash.setdefault(_LABS, []).append(lab)
    try:
        yield lab
    finally:
        clean_up(lab)
        finished.append(lab)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        report.user_properties.extend(("slow wait", text) for text in wait.slow)
        wait.slow.clear()
    if report.failed and report.when == "call":
        labs = [lab for node in item.listchain() for lab in node.stash.get(_LABS, [])]
        for whose, log_tail in [log for lab in labs for log in lab.logs]:
            report.sections.append((f"end of the log of {whose}", log_tail()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what is quarantined, what was compared and what was attempted, as tests recorded it."""
    if quarantined := quarantine.summary(terminalreporter.stats):
        terminalreporter.section("quarantined")
        for line in quarantined:
            terminalreporter.write_line(line)
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    slow = [
        (r.nodeid, text) for r in reports for kind, text in r.user_properties if kind == "slow wait"
    ]
    if slow:
        terminalreporter.section("waits that took more than half of their time")
        for test, text in slow:
            terminalreporter.write_line(f"{test}: {text}")
    recorded = [dict(report.user_properties) for report in reports]
    outcomes = {p["attempt"]: p["outcome"] for p in recorded if "attempt" in p}
    if outcomes:
        terminalreporter.section("attempted escapes")
        for title in sorted(outcomes, key=[row.title for row in (*ATTEMPTS, *BY_PROFILE)].index):
            terminalreporter.write_line(f"{title}: {outcomes[title]}")
    kinds = [properties for properties in recorded if "comparisons" in properties]
    if kinds:
        count, different = (sum(map(int, (k[name] for k in kinds))) for name in _COUNTS)
        outcome = f"{different} different" if different else "all equal"
        line = f"{count} comparisons over {len(kinds)} kinds, {outcome}"
        terminalreporter.write_line(line)
