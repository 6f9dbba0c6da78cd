"""Each value of a node label is a virtual cluster, from its first node to its last, and longer."""

import time
from typing import Any

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Api, ApiError
from e2e.lab.found import EVENTS, has_no_namespaces, is_absent, is_discovered
from e2e.lab.lab import CLUSTERS, FAST, NODES, Group, Lab
from e2e.lab.wait import GONE_S, PERIODIC_S, THROUGH_HUB_S, wait_until_deleted, within
from e2e.lab.works import condition

GRACE_S = 20.0
"""Longer than a busy agent takes to report that nodes are away."""


def discover(lab: Lab, *entries: Group | dict[str, Any], **more: Any) -> Agent:
    """Start an agent that makes a virtual cluster of each value of the test's label."""
    settings = {"nodeLabel": lab.label, "nameTemplate": f"{lab.id}-{{value}}"}
    any_name = {"anyName": True}
    return lab.serve(*entries, flags=FAST, discover=settings | more, objects=any_name)


def relabel(lab: Lab, group: Group, value: str | None) -> None:
    for node in group.nodes:
        lab.host.patch(f"{NODES}/{node}", {"metadata": {"labels": {lab.label: value}}})


@pytest.mark.smoke
def test_value_appears_waits_for_its_last_node_and_is_removed(lab: Lab) -> None:
    agent = discover(lab, gracePeriod=f"{GRACE_S:g}s", drain=True)
    group = lab.group("a", nodes=2)
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    trusted = condition(lab.cluster(group.name), "GroupTrusted")
    assert trusted["status"] == "False"
    assert "each value that a node sets makes a virtual cluster" in trusted["message"]

    # All of its nodes are away for a moment: nothing goes.
    relabel(lab, group, None)
    within(THROUGH_HUB_S, is_absent, lab, group, "nothing changes until")
    relabel(lab, group, "a")
    within(THROUGH_HUB_S, is_discovered, lab, group)
    time.sleep(GRACE_S)
    is_discovered(lab, group)
    lab.wait_data(template, group, key="1")

    # They are away for longer, and the agent is not there to see it.
    agent.kill()
    agent.settings["discover"]["gracePeriod"] = "2s"
    relabel(lab, group, None)
    agent.start()
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{group.name}")
    within(GONE_S, has_no_namespaces, lab, group)
    assert "Traceback" not in agent.log()
    relabel(lab, group, "a")
    lab.wait_ready(group.name)


def test_value_that_may_not_be_drained_stays_and_says_so(lab: Lab) -> None:
    agent = discover(lab, gracePeriod="1s")
    group = lab.group("a")
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    uid = lab.on_host(template, group)["metadata"]["uid"]
    relabel(lab, group, None)
    within(THROUGH_HUB_S, is_absent, lab, group, "because discover.drain is off; to remove it, run")
    assert lab.on_host(template, group)["metadata"]["uid"] == uid
    assert "Keeping a virtual cluster whose source was deleted" in agent.log()
    within(THROUGH_HUB_S, has_no_nodes, lab, group)


def test_another_label_is_followed_while_the_agent_runs(lab: Lab) -> None:
    agent = discover(lab)
    first, second = lab.group("a"), Group(f"{lab.id}-z", {f"{lab.id}/other": "z"})
    lab.clusters.add(second.name)
    lab.add_node(second)
    lab.wait_ready(first.name)
    assert lab.hub.find(f"{CLUSTERS}/{second.name}") is None
    changed = {"nodeLabel": f"{lab.id}/other", "gracePeriod": "1s", "drain": True}
    agent.settings["discover"] |= changed
    agent.reload()
    lab.wait_ready(second.name)
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{first.name}")
    agent.settings["discover"]["limit"] = 1
    agent.reload()
    within(PERIODIC_S, has_read_settings, agent, 2)
    third = Group(f"{lab.id}-y", {f"{lab.id}/other": "y"})
    lab.add_node(third)
    within(PERIODIC_S, was_reported, lab, third, "discover.limit of 1 virtual clusters is reached")
    assert agent.is_running()
    assert "Traceback" not in agent.log()


def test_configured_one_wins_and_bad_or_too_many_values_are_reported(lab: Lab) -> None:
    of_file = lab.group("a")
    agent = discover(lab, of_file, limit=1)
    within(
        PERIODIC_S,
        was_reported,
        lab,
        of_file,
        "the settings file already defines a virtual cluster of this name",
    )
    bad, good = Group(f"{lab.id}-bad", {lab.label: "Shop_1"}), lab.group("b")
    lab.add_node(bad)
    lab.wait_ready(good.name)
    within(PERIODIC_S, was_reported, lab, bad, "is not a valid Cluster name")
    more = lab.group("c")
    within(PERIODIC_S, was_reported, lab, more, "discover.limit of 1 virtual clusters is reached")
    assert lab.hub.find(f"{CLUSTERS}/{more.name}") is None
    lab.wait_ready(of_file.name)
    assert "Traceback" not in agent.log()


def test_former_name_of_another_is_taken(lab: Lab) -> None:
    """Names on the host are made from it: two would have each other's namespaces and nodes."""
    shop = Group(f"{lab.id}-shop", {})
    lab.add_node(shop)
    entry = {"name": shop.name, "nodeNames": shop.nodes, "formerNames": [f"{lab.id}-a"]}
    discover(lab, entry)
    group = lab.group("a")
    within(
        PERIODIC_S,
        was_reported,
        lab,
        group,
        f"and so is that of virtual cluster {shop.name} of the settings file",
    )
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], shop)
    lab.wait_fully_applied(template)
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None


def test_agent_reports_nodes_and_groups_and_nothing_else(lab: Lab) -> None:
    agent = discover(lab)
    group = lab.group("a")
    lab.wait_ready(group.name)
    account = Api(agent.host_kubeconfig)
    tell(account, lab, "Node", lab.id)
    for kind, source in (("Pod", lab.id), ("Node", "somebody-else")):
        with pytest.raises(ApiError, match="agent-confines"):
            tell(account, lab, kind, source)
    with pytest.raises(ApiError, match="forbidden"):
        account.post(
            "/api/v1/namespaces/default/configmaps?dryRun=All", objects.config_map("default")
        )


def tell(account: Api, lab: Lab, kind: str, source: str) -> None:
    """Try to write an event in namespace `default`."""
    namespace = {"namespace": "default"} if kind == "Pod" else {}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{lab.id}.1", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": kind, "name": "x", **namespace},
        "type": "Warning",
        "reason": "NotServed",
        "message": "a test",
        "source": {"component": source},
    }
    account.post(f"{EVENTS}?dryRun=All", event)


def was_reported(lab: Lab, group: Group, text: str) -> None:
    events = lab.host.list(EVENTS)
    about = (e for e in events if e["involvedObject"].get("name") == group.nodes[0])
    told = [event["message"] for event in about if event["reason"] == "NotServed"]
    assert any(text in message for message in told), told


def has_read_settings(agent: Agent, times: int) -> None:
    assert agent.log().count("Using the settings file") == times


def has_no_nodes(lab: Lab, group: Group) -> None:
    assert not lab.cluster(group.name)["status"]["nodeSummary"].get("totalNum")
