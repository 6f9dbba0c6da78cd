"""Nodes kept for a virtual cluster by a taint: its pods, and no others, tolerate it."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import NODES, Group, Lab
from e2e.lab.wait import STARTED_S, eventually, within
from e2e.lab.works import condition


@pytest.mark.smoke
def test_pods_run_on_tainted_nodes_of_their_group_and_follow_its_taints(lab: Lab) -> None:
    group = lab.group("a", nodes=2)
    branch, edge = _taint(lab, "branch", "a"), _taint(lab, "edge")
    _set_taints(lab, group, branch)
    lab.serve(group)
    namespace = lab.namespace()
    web, once = objects.deployment(namespace, replicas=2), objects.job(namespace)
    lab.propagate([web, once], group)
    for template in (web, once):
        lab.wait_fully_applied(template)
    lab.wait_status(web, readyReplicas=2)
    assert _tolerated(lab, web, group) == _tolerated(lab, once, group) == {branch["key"]}

    # What one node alone has, because it is being worked on, is not tolerated.
    _set_taints(lab, group, branch, edge, only=group.nodes[0])
    web = _scaled(lab, web, 3)
    lab.wait_status(web, readyReplicas=3)
    assert _tolerated(lab, web, group) == {branch["key"]}
    _set_taints(lab, group, branch, edge)

    def follows() -> None:
        assert _tolerated(lab, web, group) == {branch["key"], edge["key"]}

    eventually(follows)
    lab.wait_status(web, readyReplicas=3, updatedReplicas=3)
    # Nobody can change the pods of a Job, and nothing says that it should have been.
    assert _tolerated(lab, once, group) == {branch["key"]}
    lab.wait_fully_applied(once)
    within(STARTED_S, _are_all_applied, lab, group)


def test_a_virtual_cluster_may_leave_the_taints_of_its_nodes_alone(lab: Lab) -> None:
    group = lab.group("a")
    _set_taints(lab, group, _taint(lab, "branch", "a"))
    lab.serve(group.settings(tolerateNodeTaints=False))
    web = objects.deployment(lab.namespace())
    lab.propagate([web], group)
    lab.wait_fully_applied(web)
    assert _tolerated(lab, web, group) == set()


def _are_all_applied(lab: Lab, group: Group) -> None:
    """Assert it of the Works there are now: those of other stories come and go."""
    for work in lab.works(group):
        assert condition(work, "Applied")["status"] == "True", work["metadata"]["name"]


def _taint(lab: Lab, name: str, value: str = "") -> Object:
    taint = {"key": f"{lab.id}/{name}", "effect": "NoSchedule"}
    return taint | {"value": value} if value else taint


def _set_taints(lab: Lab, group: Group, *taints: Object, only: str = "") -> None:
    for name in (only,) if only else group.nodes:
        lab.host.patch(f"{NODES}/{name}", {"spec": {"taints": list(taints)}})


def _scaled(lab: Lab, template: Object, replicas: int) -> Object:
    return lab.hub.patch(path_of(template), {"spec": {"replicas": replicas}})


def _tolerated(lab: Lab, template: Object, group: Group) -> set[str]:
    spec = lab.on_host(template, group)["spec"]["template"]["spec"]
    return {toleration["key"] for toleration in spec.get("tolerations", [])}
