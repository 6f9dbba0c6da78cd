"""A leader that was stopped for longer than its Lease writes nothing, by both audits."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object
from e2e.lab.audit import Written
from e2e.lab.checkpoint import KEPT
from e2e.lab.cleanup import clean_up
from e2e.lab.lab import FAST, QUICK_LEASE, Group, Lab
from e2e.lab.lone_server import audit_log, lone_api_server, lone_karmada
from e2e.lab.wait import STARTED_S, within

FLAGS = (*FAST, *QUICK_LEASE, "--cluster-lease-renew-interval-fraction", "0.05")
LEASE_S = 4.0
REST_S = 2.0
"""Events that wait come one a second at least."""
WORKS = 20
LANES = {
    "Lease of the Cluster": "/leases/",
    "status of the Cluster": "/clusters/",
    "Works": "/works/",
    "events": "/events",
}


class Scene:
    """A hub and a host whose API servers keep an audit."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        roots = (directory / "own-hub", directory / "own-host")
        hub = stack.enter_context(lone_karmada(roots[0], is_audited=True))
        host = stack.enter_context(lone_api_server(roots[1], is_audited=True))
        self.logs = [audit_log(root) for root in roots]
        self.lab = Lab(hub, host, directory)
        stack.callback(clean_up, self.lab)
        self.group = Group(f"{self.lab.id}-a", {self.lab.label: "a"})
        self.lab.add_node(self.group, is_simulated=False)

    def agent(self) -> Agent:
        return self.lab.new_agent(self.group, flags=FLAGS, checkpoint=KEPT).start()

    def credentials(self) -> set[str]:
        """Return by which an agent wrote so far."""
        return set().union(*(log.credentials() for log in self.logs))

    def writes_by(self, credentials: set[str], since: datetime | None = None) -> list[Written]:
        """Return what was asked of hub and host."""
        return [each for log in self.logs for each in log.by(credentials, since)]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(stack, tmp_path)


def test_a_leader_that_thaws_writes_nothing_in_any_lane(scene: Scene) -> None:
    lab, group = scene.lab, scene.group
    leader = scene.agent()
    lab.wait_ready(group.name)
    namespace = lab.namespace()
    maps = [objects.config_map(namespace, f"map-{n}", key="1") for n in range(WORKS)]
    works = [lab.create_work(group, each["metadata"]["name"], each) for each in maps]
    for work in works:
        lab.wait_applied(work)
    own = scene.credentials()
    assert own
    assert "" not in own
    begun = scene.writes_by(own)
    for lane, path in LANES.items():
        assert any(path in each.path for each in begun), f"the leader never wrote: {lane}"

    # A request that has begun to be sent is sent after the thaw: nothing calls it back.
    within(STARTED_S, _writes_no_more_events, scene, own)
    _stop_at_rest(leader)
    standby = scene.agent()
    within(STARTED_S, _serves, standby)
    for work in works:  # the leader will see all that, once it thaws
        patch = {"data": {"key": "2"}}
        manifest: Object = lab.hub.get(work)["spec"]["workload"]["manifests"][0] | patch
        lab.hub.patch(work, {"spec": {"workload": {"manifests": [manifest]}}})
    for each in maps:
        lab.wait_data(each, group, key="2")
        lab.host.patch(lab.host_path(each, group), {"data": {"key": "drifted"}})
        lab.wait_data(each, group, key="2")
    time.sleep(LEASE_S)  # it stands still for longer than anything it holds
    others = scene.credentials() - own
    assert others, "the standby writes with the leader's credentials"

    thawed = datetime.now(UTC)
    leader.signal(signal.SIGCONT)
    assert leader.wait_exit() != 0
    assert scene.writes_by(own, thawed) == []
    for each in maps:  # at rest the new leader writes nothing
        lab.host.patch(lab.host_path(each, group), {"data": {"key": "drifted"}})
    for each, work in zip(maps, works, strict=True):
        lab.wait_data(each, group, key="2")
        lab.wait_applied(work)
    assert scene.writes_by(others, thawed), "the audit logs have nothing of the new leader"
    standby.terminate()


def _stop_at_rest(leader: Agent) -> None:
    """Stop it while its loop sleeps: it has decided on no request that it is yet to send."""
    stat = Path(f"/proc/{leader.process_id}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "S":
        pass
    leader.signal(signal.SIGSTOP)


def _writes_no_more_events(scene: Scene, credentials: set[str]) -> None:
    def told() -> int:
        return sum(LANES["events"] in each.path for each in scene.writes_by(credentials))

    before = told()
    time.sleep(REST_S)
    assert told() == before


def _serves(agent: Agent) -> None:
    assert "Serving" in agent.log(), agent.log_tail()
