"""What the hub said is kept on the host, and no longer than it says so."""

import yaml

from e2e.lab import objects
from e2e.lab.agent import Agent, settings_file
from e2e.lab.api import Object, path_of
from e2e.lab.checkpoint import KEPT, manifest_saved, saved, secrets_of
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, within


def test_works_are_kept_and_follow_the_hub(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group, checkpoint=KEPT)
    template = objects.config_map(lab.namespace(), key="1")
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    within(BACKED_OFF_S, _has, lab, agent, group, template)
    lab.hub.patch(path_of(template), {"data": {"key": "2"}})
    within(BACKED_OFF_S, _has, lab, agent, group, {**template, "data": {"key": "2"}})
    cluster = saved(lab.host, agent).cluster(group.name)
    assert cluster is not None
    assert cluster["metadata"]["uid"] == lab.cluster(group.name)["metadata"]["uid"]
    text = str([each.get("data") for each in secrets_of(lab.host, agent)])
    assert template["metadata"]["name"] not in text
    agent.terminate()


def test_a_work_is_struck_out_before_its_objects_go(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group, checkpoint=KEPT)
    namespace = lab.namespace()
    kept = objects.config_map(namespace, "kept")
    lab.wait_applied(lab.create_work(group, "kept", kept))
    gone = objects.config_map(namespace, "gone")
    work = lab.create_work(group, "gone", gone)
    lab.wait_applied(work)
    within(BACKED_OFF_S, _has, lab, agent, group, gone)
    held = lab.host_path(gone, group)
    lab.host.patch(held, {"metadata": {"finalizers": ["example.org/hold"]}})
    lab.hub.delete(work)
    within(BACKED_OFF_S, _is_marked, lab, held)
    assert manifest_saved(lab.host, agent, group.name, gone) is None
    _has(lab, agent, group, kept)
    lab.host.patch(held, {"metadata": {"finalizers": None}})
    within(BACKED_OFF_S, _was_deleted, lab, work)


def test_a_cluster_that_is_deleted_is_kept_no_more(lab: Lab) -> None:
    one, other = lab.group("a"), lab.group("b")
    agent = lab.serve(one, other, checkpoint=KEPT)
    within(BACKED_OFF_S, _has_clusters, lab, agent, {one.name, other.name})
    lab.hub.delete(f"{CLUSTERS}/{one.name}")
    within(BACKED_OFF_S, _has_clusters, lab, agent, {other.name})
    within(BACKED_OFF_S, _was_deleted, lab, f"{CLUSTERS}/{one.name}")


def test_without_the_rights_the_agent_continues_without_a_checkpoint(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, checkpoint={"enabled": False})
    enabled = agent.settings | {"checkpoint": KEPT}
    agent.start(content=yaml.safe_dump(settings_file(enabled)))
    lab.wait_ready(group.name)
    template = objects.config_map(lab.namespace())
    work = lab.create_work(group, "made", template)
    lab.wait_applied(work)
    lab.hub.delete(work)
    within(BACKED_OFF_S, _was_deleted, lab, work)
    assert secrets_of(lab.host, agent) == []
    told = [line for line in agent.log().splitlines() if "checkpoint" in line.lower()]
    assert len(told) == 1
    assert "run karmada-vc-agent join" in told[0]
    agent.terminate()


def _has(lab: Lab, agent: Agent, group: Group, wanted: Object) -> None:
    found = manifest_saved(lab.host, agent, group.name, wanted)
    assert found is not None, "it is not in the checkpoint"
    assert found["data"] == wanted["data"]


def _has_clusters(lab: Lab, agent: Agent, names: set[str]) -> None:
    assert set(saved(lab.host, agent).clusters) == names


def _is_marked(lab: Lab, path: str) -> None:
    assert lab.host.get(path)["metadata"].get("deletionTimestamp")


def _was_deleted(lab: Lab, path: str) -> None:
    assert lab.hub.find(path) is None
