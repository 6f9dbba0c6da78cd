"""Suspended Works, and Works that leave their objects behind."""

from collections.abc import Callable

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import eventually, wait_until_deleted
from e2e.lab.works import condition

SUSPENDED = {"dispatching": True}
LEFT_BEHIND = "work.karmada.io/conflict-resolution"
"""Karmada's agent leaves this one on a preserved object too (contract 5.8)."""


def test_a_suspended_application_is_dispatched_when_it_is_resumed(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    template = objects.config_map(namespace)
    policy = lab.propagate([template], group, suspension=SUSPENDED)
    work = eventually(_work_of, lab, template, group)
    dispatching = eventually(lambda: condition(lab.hub.get(path_of(work)), "Dispatching"))
    assert (dispatching["status"], dispatching["reason"]) == ("False", "SuspendDispatching")
    assert dispatching["message"] == "Work dispatching is in a suspended state."
    _apply_another(lab, group, namespace)
    assert lab.host.find(lab.host_path(template, group)) is None
    with pytest.raises(AssertionError, match="no condition Applied"):
        condition(lab.hub.get(path_of(work)), "Applied")

    lab.hub.patch(path_of(policy), {"spec": {"suspension": {"dispatching": False}}})
    lab.wait_fully_applied(template)
    lab.on_host(template, group)
    assert condition(lab.hub.get(path_of(work)), "Dispatching")["status"] == "True"


@pytest.mark.smoke
def test_a_suspended_work_is_neither_updated_nor_repaired(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    manifest = objects.config_map(lab.namespace(), key="old")
    work = lab.create_work(group, "paused", manifest)
    lab.wait_applied(work)
    lab.hub.patch(work, {"spec": {"suspendDispatching": True}})
    eventually(_is_dispatching, lab, work, "False")
    replace = {"op": "replace", "path": "/spec/workload/manifests/0/data/key", "value": "new"}
    lab.hub.patch_json(work, replace)
    path = lab.host_path(manifest, group)
    lab.host.patch(path, {"data": {"key": "edited"}})
    _apply_another(lab, group, manifest["metadata"]["namespace"])
    assert lab.host.get(path)["data"] == {"key": "edited"}
    lab.hub.patch(work, {"spec": {"suspendDispatching": False}})
    lab.wait_data(manifest, group, key="new")


def test_a_suspended_work_still_reports_the_status_of_its_objects(lab: Lab) -> None:
    group = lab.group("a", nodes=1)
    lab.serve(group)
    manifest = objects.deployment(lab.namespace(), replicas=1)
    work = lab.create_work(group, "paused", manifest)
    eventually(_reports_ready, lab, work, 1)
    lab.hub.patch(work, {"spec": {"suspendDispatching": True}})
    eventually(_is_dispatching, lab, work, "False")
    lab.host.patch(lab.host_path(manifest, group), {"spec": {"replicas": 2}})
    eventually(_reports_ready, lab, work, 2)


@pytest.mark.parametrize("make", [objects.config_map, objects.deployment])
def test_a_preserved_object_stays_on_the_host_without_marks(
    lab: Lab, make: Callable[[str], Object]
) -> None:
    group = lab.group("a")
    lab.serve(group)
    template = make(lab.namespace())
    lab.propagate([template], group, preserveResourcesOnDeletion=True)
    lab.wait_fully_applied(template)
    before = lab.on_host(template, group)
    work = _work_of(lab, template, group)
    lab.hub.delete(path_of(template))
    wait_until_deleted(lab.hub, path_of(work))
    after = lab.on_host(template, group)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after.get("data") == before.get("data")
    marks = {**after["metadata"].get("labels", {}), **after["metadata"].get("annotations", {})}
    ours = {key for key in marks if "karmada.io" in key or "virtualcluster" in key}
    assert ours <= {LEFT_BEHIND}, ours


def test_a_preserved_namespace_stays_and_is_claimed_no_longer(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    name = f"{lab.id}-kept"
    work = lab.create_work(group, "kept", objects.namespace(name), preserveResourcesOnDeletion=True)
    lab.wait_applied(work)
    path = f"/api/v1/namespaces/{group.host_namespace(name)}"
    before = lab.host.get(path)
    try:
        lab.hub.delete(work)
        wait_until_deleted(lab.hub, work)
        after = lab.host.get(path)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert "virtualcluster" not in str(after["metadata"].get("labels"))
    finally:
        lab.host.delete(path)


def _work_of(lab: Lab, template: Object, group: Group) -> Object:
    """Return the Work that carries a template to a group."""
    name = template["metadata"]["name"]
    found = [
        work
        for work in lab.works(group)
        if [m["metadata"]["name"] for m in work["spec"]["workload"]["manifests"]] == [name]
    ]
    assert len(found) == 1, f"{len(found)} Works of {name}"
    return {"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work"} | found[0]


def _apply_another(lab: Lab, group: Group, namespace: str) -> None:
    """Wait until a Work made now is applied: whatever came before it has been looked at."""
    manifest = objects.config_map(namespace, "another")
    lab.wait_applied(lab.create_work(group, "another", manifest))


def _is_dispatching(lab: Lab, work: str, status: str) -> None:
    assert condition(lab.hub.get(work), "Dispatching")["status"] == status


def _reports_ready(lab: Lab, work: str, replicas: int) -> None:
    status = lab.hub.get(work)["status"]["manifestStatuses"][0]["status"]
    assert status.get("readyReplicas") == replicas, status
