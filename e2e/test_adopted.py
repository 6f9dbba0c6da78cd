"""What ran on the nodes before goes on running once a virtual cluster takes it over."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.cleanup import NAMESPACES, remove_cluster
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.real_agent import joined_whole, program_of
from e2e.lab.wait import eventually, wait_gone
from e2e.lab.works import condition

DOMAIN = "virtualcluster.kubeedge.io"
KEPT = f"{DOMAIN}/keeps-placement"
PLACED, NOT_PLACED = ("True", "PodsKept"), ("False", "AdoptedNotPlaced")


@pytest.fixture
def karmada_agent(request: pytest.FixtureRequest) -> str:
    return program_of(request.config)


def test_what_a_karmada_agent_of_the_whole_host_made_is_taken_over_as_it_runs(
    lab: Lab, karmada_agent: str
) -> None:
    group, whole = lab.group("a"), f"{lab.id}-whole"
    namespace = lab.namespace()
    web, settings = objects.deployment(namespace), objects.config_map(namespace)
    workloads = [web, objects.stateful_set(namespace), objects.daemon_set(namespace)]
    workloads.append(objects.job(namespace))
    for each in workloads:
        each["spec"]["template"]["spec"]["nodeSelector"] = {f"{lab.id}/node": ""}
    templates = [*workloads, settings]
    with joined_whole(lab, karmada_agent, whole) as real:
        lab.wait_ready(whole)
        policy = lab.propagate(templates, placement=objects.to_clusters(whole))
        lab.wait_status(web, readyReplicas=2)
        lab.wait_status(workloads[1], readyReplicas=1)
        lab.wait_status(workloads[2], numberReady=1)
        lab.wait_status(workloads[3], succeeded=1)
        pods, before = _pods(lab, namespace), _uids(lab, templates)
        assert len(pods) == 5
        real.stop()

        agent = lab.serve(group.settings(adoptNamespaces=[namespace]))
        moved = {"spec": {"placement": objects.to_clusters(group.name)}}
        lab.hub.patch(path_of(policy), moved)
        for template in templates:
            eventually(_is_adopted, lab, path_of(template), group)
            lab.wait_fully_applied(template)
        claimed = lab.host.get(f"{NAMESPACES}/{namespace}")["metadata"]
        assert claimed["labels"][f"{DOMAIN}/namespace"] == namespace
        assert lab.host.find(f"{NAMESPACES}/{group.host_namespace(namespace)}") is None
        enforced = _wait_enforced(lab, group, NOT_PLACED)
        for kind, name in (("DaemonSet", "probe"), ("Deployment", "web"), ("StatefulSet", "db")):
            assert f"{kind} {namespace}/{name}" in enforced
        assert _pods(lab, namespace) == pods

        remove_cluster(lab.hub, whole)
        wait_gone(lab.hub, f"{CLUSTERS}/{whole}")
    lab.wait_status(web, readyReplicas=2)
    agent.restart()
    lab.hub.patch(path_of(settings), {"data": {"key": "2"}})
    eventually(_has_data, lab, path_of(settings))
    _wait_enforced(lab, group, NOT_PLACED)
    assert _pods(lab, namespace) == pods
    assert _uids(lab, templates) == before

    _change_image(lab, web)
    lab.wait_status(web, readyReplicas=2, updatedReplicas=2)
    eventually(_is_placed, lab, web, group, pods)
    assert f"Deployment {namespace}/web" not in _wait_enforced(lab, group, NOT_PLACED)
    for workload in workloads[1:3]:
        _change_image(lab, workload)
        eventually(_is_placed, lab, workload, group, pods)
    lab.hub.delete(path_of(workloads[3]))
    wait_gone(lab.host, path_of(workloads[3]))
    _wait_enforced(lab, group, PLACED)
    assert "Traceback" not in agent.log()


def test_pods_elsewhere_are_made_anew_on_the_nodes_of_the_group(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    home = f"{lab.id}-shop"
    lab.host.create(objects.namespace(home))
    web = objects.deployment(home, node_selector={lab.disk: "ssd"})
    lab.host.patch(f"/api/v1/nodes/{other.nodes[0]}", _labelled(lab))
    eventually(lab.host.create, web)
    eventually(_runs, lab, home, 2)
    pods = _pods(lab, home)
    lab.host.patch(f"/api/v1/nodes/{group.nodes[0]}", _labelled(lab))
    lab.serve(group.settings(adoptNamespaces=[home]), other)
    lab.namespace("-shop")
    lab.propagate([web], group, conflictResolution="Overwrite")
    lab.wait_status(web, readyReplicas=2, updatedReplicas=2)
    eventually(_is_placed, lab, web, group, pods)
    _wait_enforced(lab, group, PLACED)


def _labelled(lab: Lab) -> Object:
    return {"metadata": {"labels": {lab.disk: "ssd"}}}


def _change_image(lab: Lab, workload: Object) -> None:
    container = {"name": "app", "image": "registry.example/app:2"}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    lab.hub.patch(path_of(workload), patch)


def _pods(lab: Lab, home: str) -> dict[str, str]:
    """Return pod -> UID."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.pods(home)}


def _uids(lab: Lab, templates: list[Object]) -> list[str]:
    return [lab.host.get(path_of(each))["metadata"]["uid"] for each in templates]


def _runs(lab: Lab, home: str, count: int) -> None:
    phases = [pod["status"]["phase"] for pod in lab.pods(home)]
    assert phases == ["Running"] * count, phases


def _is_adopted(lab: Lab, path: str, group: Group) -> None:
    metadata = lab.host.get(path)["metadata"]
    assert metadata["labels"][f"{DOMAIN}/cluster"] == group.name
    assert "work.karmada.io/namespace" not in metadata["annotations"]


def _is_placed(lab: Lab, workload: Object, group: Group, old: dict[str, str]) -> None:
    """Assert that a workload selects the nodes, and that its pods are there and are new."""
    live = lab.host.get(path_of(workload))
    selector = live["spec"]["template"]["spec"]["nodeSelector"]
    assert group.selector.items() <= selector.items(), selector
    assert KEPT not in live["metadata"].get("annotations", {})
    app = workload["metadata"]["name"]
    pods = collection("v1", "Pod", workload["metadata"]["namespace"])
    found = lab.host.list(pods, f"app={app}")
    assert found
    assert {pod["spec"].get("nodeName") for pod in found} <= set(group.nodes)
    assert not {pod["metadata"]["uid"] for pod in found} & set(old.values())


def _wait_enforced(lab: Lab, group: Group, expected: tuple[str, str]) -> str:
    def look() -> str:
        found = condition(lab.cluster(group.name), "PlacementEnforced")
        assert (found["status"], found["reason"]) == expected, found
        return str(found["message"])

    return eventually(look)


def _has_data(lab: Lab, path: str) -> None:
    assert lab.host.get(path)["data"] == {"key": "2"}
