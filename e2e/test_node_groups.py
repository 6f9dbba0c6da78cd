"""NodeGroups of KubeEdge are virtual clusters: they come, change and go while the agent runs.

With KubeEdge's own CRDs; its controller is not needed, for the agent goes by what groups say.
"""

import copy
from typing import Any

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import Agent, settings_file
from e2e.lab.api import Api, ApiError, Object
from e2e.lab.endpoints import Endpoints
from e2e.lab.found import EVENTS, has_no_namespaces, is_absent, is_discovered
from e2e.lab.lab import CLUSTERS, FAST, NODES, Group, Lab
from e2e.lab.node_groups import GROUPS, NodeGroups
from e2e.lab.wait import GONE_S, PERIODIC_S, THROUGH_HUB_S, eventually, wait_until_deleted, within
from e2e.lab.works import condition

BELONGING_TO = "apps.kubeedge.io/belonging-to"


def follow(
    lab: Lab, groups: NodeGroups, *entries: Group, flags: tuple[str, ...] = FAST, **more: Any
) -> Agent:
    """Start an agent that follows the NodeGroups of this test; `shop` is Cluster `<id>-shop`."""
    settings: dict[str, Any] = {
        "enabled": True,
        "selector": groups.selector,
        "nameTemplate": f"{lab.id}-{{name}}",
    }
    any_name = {"anyName": True}
    return lab.serve(*entries, flags=flags, nodeGroups=settings | more, objects=any_name)


def of_group(lab: Lab, suffix: str, nodes: int = 1) -> Group:
    """Make nodes for the NodeGroup of this test with that end of its name."""
    return lab.group(suffix, nodes)


def named(lab: Lab, group: Group) -> str:
    """Return the name of the NodeGroup that becomes a group's Cluster."""
    return group.name.removeprefix(f"{lab.id}-")


def has_nodes(lab: Lab, group: Group, total: int) -> Object:
    cluster = lab.cluster(group.name)
    assert cluster["status"]["nodeSummary"]["totalNum"] == total, cluster["status"]["nodeSummary"]
    return cluster


def event_about(lab: Lab, kind: str, name: str, text: str) -> None:
    found = lab.host.list(EVENTS)
    told = [each["message"] for each in found if each["involvedObject"].get("name") == name]
    assert any(text in message for message in told), told
    kinds = {e["involvedObject"]["kind"] for e in found if e["involvedObject"].get("name") == name}
    assert kind in kinds


@pytest.mark.smoke
def test_group_is_added_changed_and_removed(lab: Lab, node_groups: NodeGroups) -> None:
    agent = follow(lab, node_groups, gracePeriod="2s", drain=True, settings={"region": "south"})
    group = of_group(lab, "x" + lab.id[4:], nodes=2)
    name = named(lab, group)
    node_groups.apply(name, nodes=[group.nodes[0]])
    assert lab.wait_ready(group.name)["spec"]["region"] == "south"
    within(PERIODIC_S, has_nodes, lab, group, 1)
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    lab.on_host(template, group)
    trusted = condition(lab.cluster(group.name), "GroupTrusted")
    assert (trusted["status"], trusted["reason"]) == ("Unknown", "KubeEdge")
    assert f"NodeGroup {name}" in trusted["message"]
    present = condition(lab.cluster(group.name), "GroupPresent")
    assert (present["status"], present["reason"]) == ("True", "Found")

    node_groups.apply(name, nodes=group.nodes)
    within(PERIODIC_S, has_nodes, lab, group, 2)
    node_groups.apply(name, nodes=[], matchLabels=group.selector)
    within(PERIODIC_S, is_trusted, lab, group, "False", f"NodeGroup {name}")
    within(PERIODIC_S, has_nodes, lab, group, 2)
    web = objects.deployment(template["metadata"]["namespace"])
    lab.propagate([web], group)
    lab.wait_status(web, readyReplicas=2)
    uid = lab.cluster(group.name)["metadata"]["uid"]
    agent.restart()
    lab.hub.patch(
        f"/api/v1/namespaces/{lab.namespaces[0]}/configmaps/settings", {"data": {"key": "2"}}
    )
    lab.wait_data(template, group, key="2")
    assert lab.cluster(group.name)["metadata"]["uid"] == uid

    lab.host.delete(f"{GROUPS}/{name}")
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{group.name}")
    within(GONE_S, has_no_namespaces, lab, group)
    assert agent.is_running()
    assert "Traceback" not in agent.log()

    node_groups.apply(name, nodes=group.nodes)
    lab.wait_ready(group.name)


def test_group_removed_while_nothing_runs_stays_registered(
    lab: Lab, node_groups: NodeGroups
) -> None:
    agent = follow(lab, node_groups, gracePeriod="1s")
    group = of_group(lab, "x" + lab.id[4:])
    name = named(lab, group)
    node_groups.apply(name, nodes=group.nodes)
    lab.wait_ready(group.name)
    web = objects.deployment(lab.namespace(), replicas=1)
    lab.propagate([web], group)
    lab.wait_status(web, readyReplicas=1)
    (before,) = lab.pods(group.host_namespace(web["metadata"]["namespace"]))
    agent.kill()
    lab.host.delete(f"{GROUPS}/{name}")
    agent.start()
    within(
        THROUGH_HUB_S, is_absent, lab, group, "because nodeGroups.drain is off; to remove it, run"
    )
    has_nodes(lab, group, 1)
    is_trusted(lab, group, "Unknown", "the group is a list of node names")
    (after,) = lab.pods(group.host_namespace(web["metadata"]["namespace"]))
    assert after["metadata"]["uid"] == before["metadata"]["uid"], "nothing restarts"
    assert "Keeping a virtual cluster whose source was deleted" in agent.log()
    node_groups.apply(name, nodes=group.nodes)
    within(THROUGH_HUB_S, is_discovered, lab, group)


def test_edge_application_for_the_group_of_its_cluster_runs(
    lab: Lab, node_groups: NodeGroups
) -> None:
    follow(lab, node_groups)
    group = of_group(lab, "x" + lab.id[4:])
    name = named(lab, group)
    node_groups.apply(name, nodes=group.nodes)
    lab.wait_ready(group.name)
    for node in group.nodes:
        lab.host.patch(f"{NODES}/{node}", {"metadata": {"labels": {BELONGING_TO: name}}})
    web = objects.deployment(lab.namespace(), replicas=1)
    application = {
        "apiVersion": "apps.kubeedge.io/v1alpha1",
        "kind": "EdgeApplication",
        "metadata": {"name": "shop", "namespace": web["metadata"]["namespace"]},
        "spec": {
            "workloadTemplate": {"manifests": [web]},
            "workloadScope": {"targetNodeGroups": [{"name": name}]},
        },
    }
    lab.wait_applied(lab.create_work(group, "shop", application))
    live = lab.on_host(application, group)
    lab.host.create(made_by_kubeedge(live))
    within(THROUGH_HUB_S, runs_on, lab, group)


def made_by_kubeedge(application: Object) -> Object:
    """Return the Deployment that KubeEdge's controller makes of the first manifest and target."""
    spec = application["spec"]
    made: Object = copy.deepcopy(spec["workloadTemplate"]["manifests"][0])
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": application["apiVersion"],
            "kind": application["kind"],
            "name": application["metadata"]["name"],
            "uid": application["metadata"]["uid"],
        }
    ]
    pod = made["spec"]["template"]["spec"]
    scope = spec["workloadScope"]
    if groups := scope.get("targetNodeGroups"):
        pod["nodeSelector"] = {BELONGING_TO: groups[0]["name"]}
        return made
    labels = scope["targetNodeLabels"][0]["labelSelector"]["matchLabels"]
    each = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": each}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    pod["affinity"] = {**pod.get("affinity", {}), "nodeAffinity": affinity}
    return made


def runs_on(lab: Lab, group: Group) -> None:
    pods = lab.pods(group.host_namespace(lab.namespaces[0]))
    assert len(pods) == 1
    assert pods[0]["spec"]["nodeName"] in group.nodes
    assert pods[0]["status"]["phase"] == "Running"


def test_bad_groups_and_taken_names_are_reported_and_affect_no_other(
    lab: Lab, node_groups: NodeGroups
) -> None:
    of_file = lab.group("x" + lab.id[4:])
    endpoints = Endpoints.new()
    agent = follow(lab, node_groups, of_file, flags=(*FAST, *endpoints.flags()))
    good = of_group(lab, "y" + lab.id[4:])
    bad, everything, taken = f"a.{lab.id}", f"all-{lab.id[4:]}", named(lab, of_file)
    node_groups.apply(bad, nodes=good.nodes)
    node_groups.apply(everything, matchLabels={})
    node_groups.apply(taken, nodes=good.nodes)
    node_groups.apply(named(lab, good), nodes=good.nodes)
    lab.wait_ready(good.name)
    within(PERIODIC_S, event_about, lab, "NodeGroup", bad, "is not a valid Cluster name")
    within(PERIODIC_S, event_about, lab, "NodeGroup", everything, "selects all nodes")
    within(PERIODIC_S, event_about, lab, "NodeGroup", taken, "the settings file already defines a")
    status, text = endpoints.ask("/readyz?verbose")
    assert status == 200
    assert "is not a valid Cluster name" in text
    shown = endpoints.scrape().values("found_not_served")
    assert shown == {("nodeGroups",): 3.0}
    has_nodes(lab, of_file, 1)
    assert lab.hub.find(f"{CLUSTERS}/{lab.id}-{everything}") is None
    assert "Traceback" not in agent.log()

    # It is served once the name is free.
    agent.settings["virtualClusters"] = []
    agent.reload()
    within(THROUGH_HUB_S, is_discovered, lab, of_file)
    agent.settings["virtualClusters"] = [of_file.settings()]
    agent.reload()
    within(PERIODIC_S, is_written_down, lab, of_file)


def test_name_without_rights_is_reported_and_served_after_join(
    lab: Lab, node_groups: NodeGroups
) -> None:
    agent = lab.serve(
        lab.group("x" + lab.id[4:]),
        flags=FAST,
        nodeGroups={
            "enabled": True,
            "nameTemplate": "{name}",
            "selector": node_groups.selector,
        },
    )
    group = lab.group("y" + lab.id[4:])
    node_groups.apply(group.name, nodes=group.nodes)
    within(PERIODIC_S, event_about, lab, "NodeGroup", group.name, f"join --name {group.name}")
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    agent.extra_names.append(group.name)
    agent.join()
    lab.wait_ready(group.name)


def test_nodes_may_not_change_the_labels_of_node_groups(lab: Lab, node_groups: NodeGroups) -> None:
    group = lab.group("x" + lab.id[4:])
    node_groups.apply(named(lab, group), matchLabels=group.selector)
    follow(lab, node_groups)
    lab.wait_ready(group.name)
    path = f"{NODES}/{group.nodes[0]}"
    kubelet = lab.host.acting_as(f"system:node:{group.nodes[0]}", "system:nodes")
    kubelet.patch(path, {"metadata": {"annotations": {f"{lab.id}/k": "v"}}})
    eventually(is_denied, kubelet, path, {"metadata": {"labels": {lab.label: "other"}}})


def test_settings_are_followed_while_the_agent_runs(lab: Lab, node_groups: NodeGroups) -> None:
    of_file, group = lab.group("x" + lab.id[4:]), lab.group("y" + lab.id[4:])
    node_groups.apply(named(lab, group), nodes=group.nodes)
    endpoints = Endpoints.new()
    flags = (*FAST, *endpoints.flags())
    agent = follow(
        lab, node_groups, of_file, flags=flags, enabled=False, settings={"region": "north"}
    )
    process = agent.process_id
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None

    change(agent, enabled=True)
    assert lab.wait_ready(group.name)["spec"]["region"] == "north"
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], of_file, group)
    lab.wait_fully_applied(template)
    change(agent, settings={"region": "south"})
    within(PERIODIC_S, has_region, lab, group, "south")

    good = agent.settings["nodeGroups"]
    bad = agent.settings | {"nodeGroups": good | {"nameTemplate": "{colour}"}}
    agent.write_settings(yaml.safe_dump(settings_file(bad)))
    within(PERIODIC_S, keeps_settings, endpoints, "nodeGroups.nameTemplate")
    lab.hub.patch(
        f"/api/v1/namespaces/{lab.namespaces[0]}/configmaps/settings", {"data": {"key": "2"}}
    )
    lab.wait_data(template, group, key="2")

    change(agent, enabled=False)
    within(PERIODIC_S, is_logged, agent, "no longer in the settings", group)
    uid = lab.cluster(group.name)["metadata"]["uid"]
    lab.wait_data(template, group, key="2")
    change(agent, enabled=True, gracePeriod="1s", drain=True)
    within(THROUGH_HUB_S, is_discovered, lab, group)
    assert lab.cluster(group.name)["metadata"]["uid"] == uid, "it was never away"
    change(agent, selector={"matchLabels": {lab.label: "none-has-this"}})
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{group.name}")
    lab.wait_data(template, of_file, key="2")
    assert agent.process_id == process
    assert agent.is_running()
    assert "Traceback" not in agent.log()


def change(agent: Agent, **settings: Any) -> None:
    """Change the settings of NodeGroups in the file; the agent has to notice."""
    agent.settings["nodeGroups"] = agent.settings["nodeGroups"] | settings
    agent.reload()


def has_region(lab: Lab, group: Group, region: str) -> None:
    assert lab.cluster(group.name)["spec"]["region"] == region


def keeps_settings(endpoints: Endpoints, problem: str) -> None:
    status, text = endpoints.ask("/readyz?verbose")
    assert status == 200
    assert "keeping those in use" in text
    assert problem in text
    assert endpoints.scrape().values("settings_reload_successful") == {(): 0.0}


def is_logged(agent: Agent, text: str, group: Group) -> None:
    assert any(text in line and group.name in line for line in agent.log().splitlines())


def is_denied(kubelet: Api, path: str, patch: Object) -> None:
    """Assert that the policy denies it; policies are in effect a moment after they were written."""
    said = "it was accepted"
    try:
        kubelet.patch(f"{path}?dryRun=All", patch)
    except ApiError as error:
        said = str(error)
    assert "nodes may not change the labels" in said


def is_trusted(lab: Lab, group: Group, status: str, text: str) -> None:
    found = condition(lab.cluster(group.name), "GroupTrusted")
    assert found["status"] == status, found
    assert text in found["message"], found


def is_written_down(lab: Lab, group: Group) -> None:
    assert condition(lab.cluster(group.name), "GroupPresent")["reason"] == "Defined"
