"""One Deployment, one policy, two virtual clusters: each on its own nodes."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import eventually

pytestmark = pytest.mark.shared_agent


@pytest.mark.own_agent
@pytest.mark.smoke
def test_a_deployment_lands_in_two_host_namespaces_each_on_its_own_nodes(lab: Lab) -> None:
    groups = _groups_with_disks(lab)
    lab.serve(*groups)
    template = objects.deployment(lab.namespace(), replicas=3, node_selector={lab.disk: "ssd"})
    lab.propagate([template], *groups)
    for group in groups:
        live = lab.on_host(template, group)
        selector = live["spec"]["template"]["spec"]["nodeSelector"]
        assert selector == {lab.disk: "ssd", **group.selector}
        assert live["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
        assert live["spec"]["selector"] == {"matchLabels": {"app": "web"}}
        eventually(_runs_on_own_nodes, lab, template, group, 3)


@pytest.mark.smoke
def test_the_hub_sums_what_two_clusters_run(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    template = objects.deployment(lab.namespace(), replicas=2)
    lab.propagate([template], *groups)
    binding = lab.wait_fully_applied(template)
    targets = {target["name"] for target in binding["spec"]["clusters"]}
    assert targets == {group.name for group in groups}
    lab.wait_status(template, replicas=4, readyReplicas=4, availableReplicas=4)
    binding = lab.wait_fully_applied(template)
    eventually(lambda: _is_healthy_everywhere(lab.wait_fully_applied(template)))
    names = [item["clusterName"] for item in binding["status"]["aggregatedStatus"]]
    assert sorted(names) == sorted(group.name for group in groups)


def test_namespace_of_each_cluster_pins_unmodified_pods(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    name = lab.namespace()
    for group in groups:
        path = f"/api/v1/namespaces/{group.host_namespace(name)}"
        annotations = eventually(lab.host.get, path)["metadata"]["annotations"]
        wanted = ",".join(f"{key}={value}" for key, value in group.selector.items())
        assert annotations["scheduler.alpha.kubernetes.io/node-selector"] == wanted


def _groups_with_disks(lab: Lab) -> list[Group]:
    """Return two groups; in each one node has an ssd and one has none."""
    groups = [lab.group("a"), lab.group("b")]
    for group in groups:
        lab.add_node(group, labels={lab.disk: "ssd"})
    return groups


def _runs_on_own_nodes(lab: Lab, template: Object, group: Group, replicas: int) -> None:
    namespace = group.host_namespace(template["metadata"]["namespace"])
    nodes = [pod["spec"].get("nodeName") for pod in lab.pods(namespace)]
    assert nodes == [group.nodes[1]] * replicas, f"pods of {group.name} are on {nodes}"


def _is_healthy_everywhere(binding: Object) -> None:
    health = {item.get("health") for item in binding["status"]["aggregatedStatus"]}
    assert health == {"Healthy"}, health
