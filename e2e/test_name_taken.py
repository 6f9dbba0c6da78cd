"""A Cluster name that somebody else has on the hub concerns one virtual cluster only."""

import uuid

import pytest

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, within


def test_a_taken_name_fails_one_virtual_cluster_and_the_others_go_on(lab: Lab) -> None:
    ours, taken = lab.group("ours"), lab.group("taken")
    theirs = lab.hub.create(_foreign(taken.name))
    agent = lab.new_agent(ours, taken).start()
    lab.wait_ready(ours.name)
    host_uid = lab.host.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    identity = uuid.uuid5(uuid.UUID(host_uid), taken.name)
    text = f"the cluster ID {identity} or the cluster name {taken.name} has been registered"
    within(BACKED_OFF_S, lambda: _says(agent.log(), text))
    template = objects.config_map(lab.namespace())
    lab.propagate([template], ours)
    lab.wait_fully_applied(template)
    now = lab.cluster(taken.name)
    assert now["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert now["spec"]["id"] == theirs["spec"]["id"]
    assert now["spec"]["resourceModels"] == theirs["spec"]["resourceModels"]
    assert not now.get("status", {}).get("kubernetesVersion")
    assert agent.is_running()


@pytest.mark.parametrize("by_name", [False, True], ids=["all Clusters", "by name"])
def test_a_name_that_becomes_free_is_registered(lab: Lab, *, by_name: bool) -> None:
    ours, taken = lab.group("ours"), lab.group("taken")
    lab.hub.create(_foreign(taken.name))
    agent = lab.new_agent(ours, taken, clustersByName=by_name).start()
    within(
        BACKED_OFF_S,
        lambda: _says(agent.log(), f"the cluster name {taken.name} has been registered"),
    )
    lab.hub.delete(f"{CLUSTERS}/{taken.name}")
    within(BACKED_OFF_S, lab.wait_ready, taken.name)
    # The execution namespace went with the foreign Cluster, and the rights in it.
    missing = "{apiGroups: [work.karmada.io], resources: [works], verbs: [list]}"
    place = f"in namespace karmada-es-{taken.name}; karmada-vc-agent join grants"
    within(BACKED_OFF_S, lambda: _says(agent.log(), f"needs rule {missing} {place}"))
    agent.join()
    _assert_serves(lab, taken)


def _assert_serves(lab: Lab, group: Group) -> None:
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)


def _says(log: str, text: str) -> None:
    assert text in log


def _foreign(name: str) -> Object:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"id": str(uuid.uuid4()), "syncMode": "Pull"},
    }
