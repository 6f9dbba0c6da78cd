"""VirtualCluster objects appear, change and go while the agent runs, and say how they are."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Api, ApiError, Object, path_of
from e2e.lab.lab import AGENT_LABEL, CLUSTERS, FAST, Group, Lab
from e2e.lab.wait import PERIODIC_S, wait_until_deleted, within
from e2e.lab.works import condition

CRD = Path(__file__).parents[1] / "manifests" / "base" / "crd.yaml"
OBJECTS = "/apis/virtualcluster.kubeedge.io/v1alpha1/virtualclusters"
ANY_NAME = {"enabled": True, "anyName": True}
LONGER_THAN_LATE_S = 12.0
"""A status that waits is written within 10 s."""


def definition(group: Group, agent: str, **spec: Any) -> Object:
    return {
        "apiVersion": "virtualcluster.kubeedge.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": group.name, "labels": {AGENT_LABEL: agent}},
        "spec": {"nodeSelector": {"matchLabels": group.selector}} | spec,
    }


@pytest.fixture
def applied(lab: Lab) -> Any:
    """Return a function that applies objects; they go when the test ends."""
    names: list[str] = []

    def apply(group: Group, **spec: Any) -> Object:
        names.append(group.name)
        path = f"{OBJECTS}/{group.name}"
        if lab.host.find(path) is None:
            return lab.host.create(definition(group, lab.id, **spec))
        return lab.host.patch(path, {"spec": spec})

    yield apply
    for agent in lab.agents:
        agent.kill()
    for name in names:
        path = f"{OBJECTS}/{name}"
        if lab.host.find(path) is not None:
            lab.host.delete(path)
            lab.host.patch(path, {"metadata": {"finalizers": None}})


@pytest.fixture(scope="module", autouse=True)
def _served(host: Api) -> None:
    crd = yaml.safe_load(CRD.read_text())
    try:
        host.create(crd)
    except ApiError as error:
        if error.code != 409:
            raise
    within(PERIODIC_S, host.get, OBJECTS)


def wait_condition(lab: Lab, group: Group, kind: str, status: str, reason: str = "") -> Object:
    def look() -> Object:
        live = lab.host.get(f"{OBJECTS}/{group.name}")
        found = condition(live, kind)
        assert found["status"] == status, found
        assert not reason or found["reason"] == reason, found
        return live

    return within(PERIODIC_S, look)


def serve(lab: Lab, *groups: Group, **objects_settings: Any) -> Agent:
    return lab.serve(*groups, flags=FAST, objects=objects_settings or ANY_NAME)


@pytest.mark.smoke
def test_object_is_added_changed_and_removed_while_the_agent_runs(lab: Lab, applied: Any) -> None:
    of_file, group = lab.group("a"), lab.group("b", nodes=2)
    agent = serve(lab, of_file)
    applied(group, region="south")
    lab.wait_ready(group.name)
    assert lab.cluster(group.name)["spec"]["region"] == "south"

    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], of_file, group)
    lab.wait_fully_applied(template)
    live = wait_condition(lab, group, "WorksApplied", "True", "AllApplied")
    status = live["status"]
    assert status["observedGeneration"] == live["metadata"]["generation"]
    assert status["phase"] == "Active"
    assert status["nodes"] == {"total": 2, "ready": 2, "summary": "2/2"}
    assert status["works"]["applied"] >= 1
    assert status["lastHubContact"]
    kinds = {each["type"]: each["status"] for each in status["conditions"]}
    for kind in ("Registered", "Ready", "NodesReachable", "HubReachable", "WorksApplied"):
        assert kinds[kind] == "True", kinds
    assert kinds.keys() >= {"NodeOverlap", "GroupTrusted", "PlacementEnforced"}

    applied(group, region="north")
    within(PERIODIC_S, _has_region, lab, group, "north")
    applied(group, paused=True)
    within(PERIODIC_S, _is_in_phase, lab, group, "Paused")
    lab.hub.patch(path_of(template), {"data": {"key": "2"}})
    lab.wait_data(template, of_file, key="2")
    assert lab.host.get(lab.host_path(template, group))["data"] == {"key": "1"}
    applied(group, paused=False)
    lab.wait_data(template, group, key="2")

    lab.host.delete(f"{OBJECTS}/{group.name}")
    wait_until_deleted(lab.host, f"{OBJECTS}/{group.name}")
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    assert not lab.host.list(
        "/api/v1/namespaces", f"virtualcluster.kubeedge.io/cluster={group.name}"
    )
    lab.wait_ready(of_file.name)
    assert agent.is_running()
    assert "Traceback" not in agent.log()

    applied(group)
    lab.wait_ready(group.name)


def test_changed_settings_lie_under_objects_while_the_agent_runs(lab: Lab, applied: Any) -> None:
    of_file, group, own = lab.group("a"), lab.group("b"), lab.group("c")
    agent = lab.serve(of_file, flags=FAST, objects=ANY_NAME, clusterRegion="north")
    applied(group)
    applied(own, region="west")
    for each in (group, own):
        lab.wait_ready(each.name)
    assert lab.cluster(group.name)["spec"]["region"] == "north"
    agent.settings |= {"clusterRegion": "south", "clusterProvider": "acme", "clusterHost": "plant"}
    agent.reload()
    for each, region in ((of_file, "south"), (group, "south"), (own, "west")):
        within(PERIODIC_S, _is_described, lab, each, region)
    assert agent.is_running()
    assert "Traceback" not in agent.log()


def _is_described(lab: Lab, group: Group, region: str) -> None:
    cluster = lab.cluster(group.name)
    assert (cluster["spec"]["region"], cluster["spec"]["provider"]) == (region, "acme")
    assert cluster["metadata"]["labels"]["virtualcluster.kubeedge.io/host"] == "plant"


def test_preserved_one_leaves_what_it_made(lab: Lab, applied: Any) -> None:
    of_file, group = lab.group("a"), lab.group("b")
    serve(lab, of_file)
    applied(group, deletionPolicy="Preserve")
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    before = lab.on_host(template, group)
    lab.host.delete(f"{OBJECTS}/{group.name}")
    wait_until_deleted(lab.host, f"{OBJECTS}/{group.name}")
    after = lab.host.get(lab.host_path(template, group))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert not [key for key in after["metadata"].get("labels") or {} if "virtualcluster" in key]
    lab.host.delete(f"/api/v1/namespaces/{after['metadata']['namespace']}")


def test_preserved_one_leaves_what_it_created_though_unserved_then(lab: Lab, applied: Any) -> None:
    """The Cluster goes while no agent is there, and no Work carries a mark."""
    of_file, group = lab.group("a"), lab.group("b")
    agent = serve(lab, of_file)
    applied(group, deletionPolicy="Preserve")
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    before = lab.on_host(template, group)
    agent.kill()
    lab.host.delete(f"{OBJECTS}/{group.name}")
    lab.hub.delete(f"{CLUSTERS}/{group.name}")
    agent.start()
    wait_until_deleted(lab.host, f"{OBJECTS}/{group.name}")
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    after = lab.host.get(lab.host_path(template, group))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert not [key for key in after["metadata"].get("labels") or {} if "virtualcluster" in key]
    lab.host.delete(f"/api/v1/namespaces/{after['metadata']['namespace']}")


def test_name_without_rights_waits_for_join(lab: Lab, applied: Any) -> None:
    of_file, group = lab.group("a"), lab.group("b")
    agent = serve(lab, of_file, enabled=True)
    applied(group)
    live = wait_condition(lab, group, "Registered", "False", "Refused")
    assert f"join --name {group.name}" in condition(live, "Registered")["message"]
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None
    agent.extra_names.append(group.name)
    agent.join()
    lab.wait_ready(group.name)


def test_file_wins_a_name(lab: Lab, applied: Any) -> None:
    of_file = lab.group("a")
    serve(lab, of_file)
    applied(of_file, region="south")
    wait_condition(lab, of_file, "Registered", "False", "NameTaken")
    lab.host.delete(f"{OBJECTS}/{of_file.name}")
    wait_until_deleted(lab.host, f"{OBJECTS}/{of_file.name}")
    assert "region" not in lab.wait_ready(of_file.name)["spec"]


def test_object_survives_a_restart_and_its_deletion_continues_after_it(
    lab: Lab, applied: Any
) -> None:
    of_file, group = lab.group("a"), lab.group("b")
    agent = serve(lab, of_file)
    applied(group)
    lab.wait_ready(group.name)
    uid = lab.cluster(group.name)["metadata"]["uid"]
    agent.restart()
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    assert lab.cluster(group.name)["metadata"]["uid"] == uid
    assert "no longer in the settings" not in agent.log()
    agent.kill()
    lab.host.delete(f"{OBJECTS}/{group.name}")
    agent.start()
    wait_until_deleted(lab.host, f"{OBJECTS}/{group.name}")
    assert lab.hub.find(f"{CLUSTERS}/{group.name}") is None


def test_status_is_written_only_where_something_changed(lab: Lab, applied: Any) -> None:
    of_file, group = lab.group("a"), lab.group("b")
    serve(lab, of_file)
    applied(group)
    wait_condition(lab, group, "Ready", "True")
    wait_condition(lab, group, "PlacementEnforced", "True")
    # Other stories add namespaces to the hub, whose Works count in any status.
    end, before = time.monotonic() + LONGER_THAN_LATE_S, lab.host.get(f"{OBJECTS}/{group.name}")
    while time.monotonic() < end:
        time.sleep(0.2)
        now = lab.host.get(f"{OBJECTS}/{group.name}")
        if now["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            assert now["status"] != before["status"]
        before = now


def _has_region(lab: Lab, group: Group, region: str) -> None:
    assert lab.cluster(group.name)["spec"]["region"] == region


def _is_in_phase(lab: Lab, group: Group, phase: str) -> None:
    assert lab.host.get(f"{OBJECTS}/{group.name}")["status"]["phase"] == phase


def test_object_whose_selector_matches_no_node_says_so(lab: Lab, applied: Any) -> None:
    of_file, group = lab.group("a"), Group(f"{lab.id}-b", {lab.label: "b"})
    lab.clusters.add(group.name)
    lab.serve(of_file, flags=(*FAST, "--cluster-success-threshold", "2s"), objects=ANY_NAME)
    applied(group, readyWhenUnreachable=False)
    wait_condition(lab, group, "NodesReachable", "False", "NoNodes")
    wait_condition(lab, group, "Ready", "False", "NodesNotReachable")
    lab.wait_ready(group.name, "False")
    lab.add_node(group)
    wait_condition(lab, group, "NodesReachable", "True", "NodesReady")
    wait_condition(lab, group, "Ready", "True", "ClusterReady")
    lab.wait_ready(group.name)


def test_message_and_events_say_what_is_wrong_and_that_it_is_well_again(
    lab: Lab, applied: Any
) -> None:
    of_file = lab.group("a")
    serve(lab, of_file)
    group = Group(f"{lab.id}-b", {lab.label: "b"})
    lab.clusters.add(group.name)
    applied(group)
    within(PERIODIC_S, _shows, lab, group, "0/0", "NoNodes: no node of the host is in the group")
    within(PERIODIC_S, _has_event, lab, group, "Warning", "NoNodes")
    lab.add_node(group)
    within(PERIODIC_S, _shows, lab, group, "1/1", None)
    within(PERIODIC_S, _has_event, lab, group, "Normal", "NodesReady")


def _shows(lab: Lab, group: Group, nodes: str, message: str | None) -> None:
    status = lab.host.get(f"{OBJECTS}/{group.name}")["status"]
    assert status["nodes"]["summary"] == nodes, status
    assert message is None or status["message"] == message, status


def _has_event(lab: Lab, group: Group, kind: str, reason: str) -> None:
    events = lab.host.list("/api/v1/namespaces/default/events")
    ours = [each for each in events if each["involvedObject"].get("name") == group.name]
    seen = [(each["type"], each["reason"], each["source"]["component"]) for each in ours]
    assert (kind, reason, lab.id) in seen, seen
