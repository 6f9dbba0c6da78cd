"""Two agents of one name: one serves, the other takes over."""

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object, collection
from e2e.lab.checkpoint import is_saved
from e2e.lab.lab import FAST, QUICK_LEASE, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import STARTED_S, within

LONG_LEASE = ("--leader-elect-lease-duration", "1h")
"""A lead that nobody gives back is not taken over before the test is long over."""


@pytest.mark.smoke
def test_a_standby_takes_over_when_the_leader_is_killed(lab: Lab) -> None:
    group = lab.group("a")
    leader = lab.serve(group, flags=(*FAST, *QUICK_LEASE))
    standby = lab.new_agent(group, flags=(*FAST, *QUICK_LEASE)).start()
    within(STARTED_S, _says, standby, "Standing by")
    template = objects.config_map(lab.namespace(), key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    assert "Serving" not in standby.log()
    before = _lease(lab, standby)["spec"]
    leader.kill()
    lab.hub.patch(f"{_maps(template)}/settings", {"data": {"key": "2"}})
    lab.wait_data(template, group, key="2")
    after = _lease(lab, standby)["spec"]
    assert after["holderIdentity"] != before["holderIdentity"]
    assert after["leaseTransitions"] == before["leaseTransitions"] + 1
    within(STARTED_S, _says, standby, "Serving")


def test_terminated_leader_hands_over_at_once(lab: Lab) -> None:
    group = lab.group("a")
    flags = (*FAST, *LONG_LEASE)
    leader = lab.serve(group, flags=flags)
    standby = lab.new_agent(group, flags=flags).start()
    within(STARTED_S, _says, standby, "Standing by")
    leader.terminate()
    within(STARTED_S, _says, standby, "Serving")
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    standby.terminate()


def test_terminated_standby_leaves_the_leader_alone(lab: Lab) -> None:
    group = lab.group("a")
    leader = lab.serve(group, flags=FAST)
    standby = lab.new_agent(group, flags=FAST).start()
    within(STARTED_S, _says, standby, "Standing by")
    before = _lease(lab, leader)["spec"]["holderIdentity"]
    standby.terminate()
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    assert _lease(lab, leader)["spec"]["holderIdentity"] == before


def test_a_replica_without_an_uplink_leads_only_where_it_can_serve(
    lab: Lab, hub_wire: Proxy
) -> None:
    """The lead goes to who reaches the hub, and later to who has its last word."""
    group, flags = lab.group("a"), (*FAST, *QUICK_LEASE)
    hub_wire.cut()
    apart = lab.new_agent(group, flags=flags, hub=hub_wire.kubeconfig).start()
    within(STARTED_S, _says, apart, "Waiting for the hub: nothing can be served without it")
    leader = lab.serve(group, flags=flags)
    assert "Leading" not in apart.log()
    template = objects.config_map(lab.namespace(), key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    within(STARTED_S, is_saved, lab, leader, group, template)
    within(STARTED_S, _says, apart, "Standing by")

    leader.kill()
    within(STARTED_S, _says, apart, "Serving from the checkpoint")
    lab.host.delete(lab.host_path(template, group))
    lab.wait_data(template, group, key="1")
    leader.start(keeps_rights=True)
    hub_wire.restore()
    lab.hub.patch(f"{_maps(template)}/settings", {"data": {"key": "2"}})
    lab.wait_data(template, group, key="2")
    assert leader.log().count("Leading | lease=") == 1, "it stands by"


def _lease(lab: Lab, agent: Agent) -> Object:
    leases = collection("coordination.k8s.io/v1", "Lease", agent.namespace)
    return lab.host.get(f"{leases}/{agent.name}")


def _maps(template: Object) -> str:
    return collection("v1", "ConfigMap", template["metadata"]["namespace"])


def _says(agent: Agent, text: str) -> None:
    assert text in agent.log(), agent.log_tail()
