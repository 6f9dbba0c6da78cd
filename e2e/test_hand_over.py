"""Only the leader's uplink is cut: the standby that reaches the hub takes the lead over."""

from pathlib import Path

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import collection
from e2e.lab.checkpoint import KEPT, is_saved
from e2e.lab.lab import QUICK_LEASE, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import STARTED_S, within
from karmada_vc_agent.runner.hub_presence import AWAY_S, LED_S

FLAGS = (*QUICK_LEASE, "--cluster-status-update-frequency", "1s")
HANDED_OVER_S = LED_S + AWAY_S + 60.0
LOST = "leader election lost"


def test_standby_that_reaches_the_hub_takes_over(lab: Lab, hub_wire: Proxy, tmp_path: Path) -> None:
    group = lab.group("a")
    leader = lab.new_agent(group, flags=FLAGS, hub=hub_wire.kubeconfig, checkpoint=KEPT).start()
    lab.wait_ready(group.name)
    with Proxy(lab.hub.kubeconfig, tmp_path / "other-wire") as other_wire:
        hub = other_wire.kubeconfig
        standby = lab.new_agent(group, flags=FLAGS, hub=hub, checkpoint=KEPT).start()
        within(STARTED_S, _says, standby, "Standing by")
        template = objects.config_map(lab.namespace(), "kept", key="1")
        lab.create_work(group, "kept", template)
        within(STARTED_S, is_saved, lab, leader, group, template)

        hub_wire.cut()
        later = objects.config_map(template["metadata"]["namespace"], "later", key="1")
        work = lab.create_work(group, "later", later)
        within(HANDED_OVER_S, _says, standby, "Leading | lease=")
        lab.wait_applied(work)
        assert leader.wait_exit() != 0
        assert "Handing over the lead" in leader.log()
        assert LOST in leader.log()

        # It stands by from its checkpoint, and does not take back what it could not serve.
        leader.start(keeps_rights=True)
        within(STARTED_S, _is_standby_again, leader)
        other_wire.cut()
        within(HANDED_OVER_S, _has_marks, lab, standby, 1)
        assert standby.is_running(), "nobody reaches the hub, so nobody is to lead in its place"
        assert "Handing over" not in standby.log()
        other_wire.restore()
        within(HANDED_OVER_S, _has_marks, lab, standby, 0)
        lab.wait_ready(group.name)
        standby.terminate()
        leader.terminate()


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()


def _is_standby_again(agent: Agent) -> None:
    assert agent.log().rpartition(LOST)[2].count("Standing by") == 1, agent.log_tail()


def _has_marks(lab: Lab, agent: Agent, count: int) -> None:
    """Raise AssertionError unless the Lease says that its leader lacks the hub, or does not."""
    leases = collection("coordination.k8s.io/v1", "Lease", agent.namespace)
    marks = lab.host.get(f"{leases}/{agent.name}")["metadata"].get("annotations") or {}
    assert len([key for key in marks if key.endswith("-hub")]) == count, marks
