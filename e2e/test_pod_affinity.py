"""Pods that look at pods of other namespaces of their branch, by name: it works on the host."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import NODE_GRACE_S, within
from e2e.lab.works import condition


@pytest.mark.parametrize("suffix", ["-other", f"-{'other' * 8}"], ids=["plain", "hashed"])
def test_pods_beside_and_away_from_those_of_another_namespace(lab: Lab, suffix: str) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace, other = lab.namespace(), lab.namespace(suffix)
    beside = _looking_at(other, namespace, "beside", "podAffinity")
    away = _looking_at(other, namespace, "away", "podAntiAffinity")
    first = lab.create_work(group, "first", beside)
    lab.wait_applied(first)
    within(NODE_GRACE_S, _waits, lab, group, "beside")
    web = lab.create_work(group, "web", objects.deployment(other, replicas=1))
    lab.wait_applied(web)
    within(NODE_GRACE_S, _runs, lab, group, "beside")
    lab.wait_applied(lab.create_work(group, "second", away))
    within(NODE_GRACE_S, _waits, lab, group, "away")
    lab.hub.delete(web)
    within(NODE_GRACE_S, _runs, lab, group, "away")


def _looking_at(other: str, namespace: str, name: str, affinity: str) -> Object:
    """Return a Deployment for nodes with (or without) pods `web` of another namespace."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaces": [other],
    }
    template = objects.deployment(namespace, name, 1)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    template["spec"]["template"]["spec"]["affinity"] = {affinity: required}
    return template


def _pod(lab: Lab, group: Group, name: str) -> Object:
    found = [
        pod
        for pod in lab.pods(group.host_namespace(lab.id))
        if pod["metadata"]["name"].startswith(f"{name}-")
    ]
    assert len(found) == 1, found
    return found[0]


def _waits(lab: Lab, group: Group, name: str) -> None:
    scheduled = condition(_pod(lab, group, name), "PodScheduled")
    assert scheduled["reason"] == "Unschedulable", scheduled
    assert "affinity" in scheduled["message"], scheduled


def _runs(lab: Lab, group: Group, name: str) -> None:
    """Whether a pod runs by now; one that the scheduler let wait is made anew.

    The scheduler of Kubernetes 1.34 wakes no pod for another one that a namespaceSelector names
    (its queueing hint matches without labels): it would look again after five minutes.
    """
    pod = _pod(lab, group, name)
    if condition(pod, "PodScheduled")["status"] == "False":
        metadata = pod["metadata"]
        lab.host.delete(f"{collection('v1', 'Pod', metadata['namespace'])}/{metadata['name']}")
    assert pod["spec"].get("nodeName") == group.nodes[0]
