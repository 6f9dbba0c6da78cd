"""Pages answer in place of hub or host: nothing is forgotten, erased, deleted or ended.

A page is what a proxy, a load balancer or half an API server responds with.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import collection
from e2e.lab.checkpoint import KEPT, is_saved, manifest_saved, secrets_of
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import QUICK_LEASE, Lab
from e2e.lab.page_front import Fault, PageFront
from e2e.lab.wait import BACKED_OFF_S, STARTED_S, within
from e2e.lab.works import works_path
from tests.fakes.pages import PAGES

FLAGS = (
    *QUICK_LEASE,
    *("--cluster-status-update-frequency", "1s"),
    *("--cluster-failure-threshold", "3s"),
    *("--cluster-success-threshold", "1s"),
)
GROUPS = ("cluster.karmada.io", "work.karmada.io")
OF_GROUPS = tuple(f"/apis/{group}/" for group in GROUPS)
CHOSEN = (
    *("404 plain", "404 Status", "401 Status", "403 Status", "403 page", "502 page"),
    *("503 plain", "200 HTML", "200 list of version 0"),
)
FAULTS = {name: Fault(PAGES[name]) for name in CHOSEN}
GROUPS_AWAY = {
    "groups: 404": Fault(PAGES["404 page not found"], OF_GROUPS),
    "groups: 404 Status": Fault(PAGES["404 Status"], OF_GROUPS),
    "groups not listed": Fault(PAGES["404 page not found"], OF_GROUPS, GROUPS),
}
"""What an APIService or a CRD of Karmada's that is missing for a moment makes of the hub."""
FEW = ("404 plain", "401 Status", "503 plain", "200 list of version 0")
"""Of those that cost a start each; a unit test has all of them."""
OTHERS = pytest.param([name for name in FAULTS if name not in FEW], marks=pytest.mark.nightly)
STARTING = "Starting | hub="
LASTS_S = 7.0
"""Longer than the checkpoint waits for its next write."""
REPAIRED_S = 30.0
TAKEOVER_S = 4.0 + 25.0
"""From the last renewal of the leader: the duration of its Lease, and less than what first lists of
a hub that lists may take (LISTS_S)."""
RECOVERS_S = 180.0


class Served:
    """An agent that serves two Works through proxies before hub and host."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab, self.group = lab, lab.group("a")
        self.endpoints = Endpoints.new()
        self.agent = self._new_agent(self.endpoints)
        self.hub = PageFront(self.agent.hub_kubeconfig, directory / "hub")
        self.host = PageFront(self.agent.host_kubeconfig, directory / "host")

    def _new_agent(self, endpoints: Endpoints) -> Agent:
        flags = (*FLAGS, *endpoints.flags())
        agent = self.lab.new_agent(self.group, flags=flags, checkpoint=KEPT)
        agent.join()
        return agent

    def begin(self) -> None:
        """Serve until all is on the host and in the checkpoint."""
        lab = self.lab
        self.agent.start(keeps_rights=True)
        lab.wait_serving(self.agent)
        namespace = lab.namespace()
        self.changes, self.quiet = (
            objects.config_map(namespace, name, key="1") for name in ("changes", "quiet")
        )
        self.work, _ = (
            lab.create_work(self.group, each["metadata"]["name"], each)
            for each in (self.changes, self.quiet)
        )
        for each in (self.changes, self.quiet):
            within(BACKED_OFF_S, lab.on_host, each, self.group)
            within(BACKED_OFF_S, is_saved, lab, self.agent, self.group, each)
        self.path = lab.host_path(self.changes, self.group)
        self._value = 1

    def end(self) -> None:
        """Kill all agents, which would wait for proxies that are not there any more."""
        for agent in self.lab.agents:
            agent.kill()

    def start_standby(self) -> Agent:
        """Start a second agent with the kubeconfigs of the first one."""
        standby = self._new_agent(Endpoints.new())
        for mine, its in (
            (self.agent.hub_kubeconfig, standby.hub_kubeconfig),
            (self.agent.host_kubeconfig, standby.host_kubeconfig),
        ):
            its.write_bytes(mine.read_bytes())
        return standby.start(keeps_rights=True)

    def drift(self) -> None:
        self.lab.host.patch(self.path, {"data": {"key": "by hand"}})

    def is_repaired(self) -> None:
        assert self.lab.host.get(self.path)["data"] == {"key": str(self._value)}

    def repairs(self) -> None:
        """Have an object drift, and another one deleted; both must be as before."""
        self.drift()
        within(REPAIRED_S, self.is_repaired)
        self.lab.host.delete(self.path)
        within(REPAIRED_S, self.is_repaired)

    def recovers(self) -> None:
        """Wait until a change on the hub is on the host, and reported."""
        self._value += 1
        path = "/spec/workload/manifests/0/data/key"
        patch = {"op": "replace", "path": path, "value": str(self._value)}
        self.lab.hub.patch_json(self.work, patch)
        within(RECOVERS_S, self.is_repaired)
        within(RECOVERS_S, self._is_reported)
        within(RECOVERS_S, self.is_ready)

    def _is_reported(self) -> None:
        work = self.lab.hub.get(self.work)
        (applied,) = (c for c in work["status"]["conditions"] if c["type"] == "Applied")
        assert applied["status"] == "True"
        (shown,) = work["status"]["manifestStatuses"]
        assert shown["health"] == "Healthy"

    def is_ready(self) -> None:
        status, text = self.endpoints.ask("/readyz?verbose")
        assert (status, "[+]hub ok\n" in text, "[+]host ok\n" in text) == (200, True, True), text

    def reports(self, server: str, status: int) -> None:
        """Assert that /readyz has this status, and says that hub or host is not as it should."""
        found, text = self.endpoints.ask("/readyz?verbose")
        assert (found, f"[+]{server} ok\n" in text) == (status, False), text

    def has_logged(self, text: str, times: int) -> None:
        assert self.agent.log().count(text) == times

    def kept(self) -> set[str]:
        """Return the entries of the checkpoint, once both Works are among them as they are now."""
        for each in (self.changes, self.quiet):
            within(BACKED_OFF_S, is_saved, self.lab, self.agent, self.group, each)
        within(BACKED_OFF_S, self._is_saved_as_now)
        found = secrets_of(self.lab.host, self.agent)
        return {f"{s['metadata']['name']} {key}" for s in found for key in s.get("data") or {}}

    def _is_saved_as_now(self) -> None:
        found = manifest_saved(self.lab.host, self.agent, self.group.name, self.changes)
        assert found is not None
        assert found["data"] == {"key": str(self._value)}

    def check(self, name: str, kept: set[str], there: set[str]) -> None:
        """Assert that all of the checkpoint, of hub and of host is still there."""
        assert not kept - self.kept(), f"{name}: the checkpoint has less"
        assert not there - self.there(), f"{name}: something is gone"

    def has_its_host_again(self, name: str, kept: set[str], there: set[str]) -> None:
        """End the page in place of the host; the agent repairs, keeps all and serves."""
        self.host.end()
        within(RECOVERS_S, self.is_repaired)
        self.check(name, kept, there)
        self.recovers()

    def there(self) -> set[str]:
        """Return what is to stay on hub and host, with uid."""
        lab, name = self.lab, self.group.name
        namespaces = collection("v1", "Namespace")
        home = self.group.host_namespace(self.changes["metadata"]["namespace"])
        maps = collection("v1", "ConfigMap", home)
        of_host = [lab.host.get(f"{namespaces}/{home}"), *lab.host.list(maps)]
        works = [f"{works_path(name)}/{work}" for work in ("changes", "quiet")]
        of_hub = [lab.cluster(name), *map(lab.hub.get, works)]
        quiet = [each for each in of_host if each["metadata"]["name"] != "changes"]
        return {f"{e['metadata']['name']} {e['metadata']['uid']}" for e in (*of_hub, *quiet)}


@pytest.fixture
def served(lab: Lab, tmp_path: Path) -> Iterator[Served]:
    made = Served(lab, tmp_path)
    with made.hub, made.host:
        try:
            made.begin()
            yield made
        finally:
            made.end()


@pytest.mark.parametrize("names", [(*FEW, *GROUPS_AWAY), OTHERS], ids=["few", "others"])
def test_agent_continues_while_the_hub_is_a_page(served: Served, names: Iterable[str]) -> None:
    process = served.agent.process_id
    for name, fault in {n: (FAULTS | GROUPS_AWAY)[n] for n in names}.items():
        kept, there = served.kept(), served.there()
        served.hub.begin(fault)
        until = time.monotonic() + LASTS_S
        served.repairs()
        within(REPAIRED_S, served.reports, "hub", 200)
        time.sleep(max(0.0, until - time.monotonic()))
        served.repairs()
        served.check(name, kept, there)
        served.hub.end()
        served.recovers()
    assert served.agent.process_id == process
    assert served.agent.is_running()
    assert "Traceback" not in served.agent.log()
    served.agent.terminate()


def test_start_serves_from_the_checkpoint_while_the_hub_is_a_page(served: Served) -> None:
    for name, fault in {n: (FAULTS | GROUPS_AWAY)[n] for n in (*FEW, *GROUPS_AWAY)}.items():
        kept, there = served.kept(), served.there()
        served.hub.begin(fault)
        served.agent.kill()
        served.drift()
        before = served.agent.log().count("Serving from the checkpoint")
        served.agent.start(keeps_rights=True)
        within(STARTED_S, served.is_repaired)
        assert served.agent.log().count("Serving from the checkpoint") == before + 1, name
        within(REPAIRED_S, served.reports, "hub", 200)
        served.repairs()
        assert served.agent.is_running(), name
        served.check(name, kept, there)
        served.hub.end()
        served.recovers()
    assert "is not a Karmada control plane" not in served.agent.log()
    served.agent.terminate()


@pytest.mark.parametrize("name", ["401 Status", "503 plain"])
def test_standby_takes_over_while_the_hub_is_a_page(served: Served, name: str) -> None:
    standby = served.start_standby()
    within(BACKED_OFF_S, _says, standby, "Standing by")
    served.hub.begin(FAULTS[name])
    served.agent.kill()
    served.drift()
    within(TAKEOVER_S, served.is_repaired)
    assert standby.is_running()
    served.hub.end()


def test_agent_changes_nothing_while_the_host_is_a_page(served: Served) -> None:
    process = served.agent.process_id
    for name, fault in {n: FAULTS[n] for n in FEW}.items():
        kept, there = served.kept(), served.there()
        served.host.begin(fault)
        served.drift()
        within(REPAIRED_S, served.reports, "host", 500)
        time.sleep(LASTS_S)
        assert served.agent.is_running(), f"{name}: {served.agent.log_tail()}"
        served.has_its_host_again(name, kept, there)
    assert served.agent.process_id == process
    assert "Traceback" not in served.agent.log()


def test_start_waits_while_the_host_is_a_page(served: Served) -> None:
    for name, fault in {n: FAULTS[n] for n in FEW}.items():
        kept, there = served.kept(), served.there()
        served.host.begin(fault)
        served.agent.kill()
        served.drift()
        before = served.agent.log().count(STARTING)
        served.agent.start(keeps_rights=True)
        within(STARTED_S, served.has_logged, STARTING, before + 1)
        time.sleep(LASTS_S)
        assert served.agent.is_running(), f"{name}: {served.agent.log_tail()}"
        served.has_its_host_again(name, kept, there)
    assert "Traceback" not in served.agent.log()


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()
