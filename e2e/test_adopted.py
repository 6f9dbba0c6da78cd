"""What ran on the nodes before goes on running once a virtual cluster takes it over."""

import copy
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import clean_environment
from e2e.lab.api import ApiError, Object, collection, path_of
from e2e.lab.cleanup import NAMESPACES, remove_cluster
from e2e.lab.interpret import cached_program
from e2e.lab.lab import CLUSTERS, FAST, QUICK_LEASE, Group, Lab
from e2e.lab.real_agent import joined_whole, program_of
from e2e.lab.wait import THROUGH_HUB_S, wait_until_deleted, within
from e2e.lab.works import condition

DOMAIN = "virtualcluster.kubeedge.io"
KEPT = f"{DOMAIN}/keeps-placement"
PLACED, NOT_PLACED = ("True", "PodsKept"), ("False", "AdoptedNotPlaced")
APPS = "apps.kubeedge.io"
BELONGING = f"{APPS}/belonging-to"
PROMOTE_S = 60.0


@pytest.fixture
def karmada_agent(request: pytest.FixtureRequest) -> str:
    return program_of(request.config)


@pytest.fixture
def kubectl_karmada(request: pytest.FixtureRequest) -> Path:
    given = request.config.getoption("--kubectl-karmada")
    return Path(given).absolute() if given else cached_program()


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

        quick = (*FAST, *QUICK_LEASE)
        agent = lab.serve(group.settings(adoptNamespaces=[namespace]), flags=quick)
        moved = {"spec": {"placement": objects.to_clusters(group.name)}}
        lab.hub.patch(path_of(policy), moved)
        for template in templates:
            within(THROUGH_HUB_S, _is_adopted, lab, path_of(template), group)
            lab.wait_fully_applied(template)
        claimed = lab.host.get(f"{NAMESPACES}/{namespace}")["metadata"]
        assert claimed["labels"][f"{DOMAIN}/namespace"] == namespace
        assert lab.host.find(f"{NAMESPACES}/{group.host_namespace(namespace)}") is None
        named = (("DaemonSet", "probe"), ("Deployment", "web"), ("StatefulSet", "db"))
        names = (f"{kind} {namespace}/{name}" for kind, name in named)
        _wait_enforced(lab, group, NOT_PLACED, *names)
        assert _pods(lab, namespace) == pods

        remove_cluster(lab.hub, whole)
        wait_until_deleted(lab.hub, f"{CLUSTERS}/{whole}")
    lab.wait_status(web, readyReplicas=2)
    agent.restart()
    lab.hub.patch(path_of(settings), {"data": {"key": "2"}})
    within(THROUGH_HUB_S, _has_data, lab, path_of(settings))
    _wait_enforced(lab, group, NOT_PLACED)
    assert _pods(lab, namespace) == pods
    assert _uids(lab, templates) == before

    _change_image(lab, web)
    lab.wait_status(web, readyReplicas=2, updatedReplicas=2)
    within(THROUGH_HUB_S, _is_placed, lab, web, group, pods)
    within(THROUGH_HUB_S, _is_not_named, lab, group, f"Deployment {namespace}/web")
    for workload in workloads[1:3]:
        _change_image(lab, workload)
        within(THROUGH_HUB_S, _is_placed, lab, workload, group, pods)
    lab.hub.delete(path_of(workloads[3]))
    wait_until_deleted(lab.host, path_of(workloads[3]))
    _wait_enforced(lab, group, PLACED)
    assert "Traceback" not in agent.log()


@pytest.mark.smoke
def test_what_is_promoted_is_taken_over_and_there_is_no_second_copy(
    lab: Lab, kubectl_karmada: Path
) -> None:
    group, home = lab.group("a"), f"{lab.id}-shop"
    lab.host.create(objects.namespace(home))
    web = objects.deployment(home, node_selector={f"{lab.id}/node": ""})
    within(THROUGH_HUB_S, lab.host.create, web)
    within(THROUGH_HUB_S, _runs, lab, home, 2)
    pods, before = _pods(lab, home), _uids(lab, [web])
    lab.serve(group.settings(adoptNamespaces=[home]))
    lab.namespace("-shop")

    _promote(lab, kubectl_karmada, group, "deployment", "web", home)
    within(THROUGH_HUB_S, _is_adopted, lab, path_of(web), group)
    lab.wait_status(web, readyReplicas=2)
    _wait_enforced(lab, group, NOT_PLACED, f"Deployment {home}/web")
    assert lab.host.find(f"{NAMESPACES}/{group.host_namespace(home)}") is None
    assert _pods(lab, home) == pods
    assert _uids(lab, [web]) == before

    # One pod more would not select the nodes, and is refused: all of them do from then on.
    lab.hub.patch(path_of(web), {"spec": {"replicas": 3}})
    lab.wait_status(web, readyReplicas=3, updatedReplicas=3)
    within(THROUGH_HUB_S, _is_placed, lab, web, group, pods)
    _wait_enforced(lab, group, PLACED)


def _is_not_named(lab: Lab, group: Group, what: str) -> None:
    assert what not in _wait_enforced(lab, group, NOT_PLACED)


def test_what_an_edge_application_made_is_taken_over_once_it_is_let_go(
    lab: Lab, kubectl_karmada: Path
) -> None:
    """KubeEdge's controller is simulated: it makes a Deployment for each group, and owns it."""
    home, selector = f"{lab.id}-shop", {BELONGING: f"{lab.id}-a"}
    group = Group(f"{lab.id}-a", selector)
    lab.add_node(group)
    lab.host.create(objects.namespace(home))
    application = _edge_application(lab, home)
    web = objects.deployment(home, "web-a", node_selector=selector)
    made = copy.deepcopy(web)
    made["metadata"]["ownerReferences"] = [_owner(application)]
    within(THROUGH_HUB_S, lab.host.create, made)
    within(THROUGH_HUB_S, _runs, lab, home, 2)
    pods, before = _pods(lab, home), _uids(lab, [web])
    lab.serve(group.settings(adoptNamespaces=[home]))
    lab.namespace("-shop")

    lab.host.delete(path_of(application), orphans=True)
    wait_until_deleted(lab.host, path_of(application))
    _promote(lab, kubectl_karmada, group, "deployment", "web-a", home)
    within(THROUGH_HUB_S, _is_adopted, lab, path_of(web), group)
    lab.wait_status(web, readyReplicas=2)
    _wait_enforced(lab, group, PLACED)
    assert "ownerReferences" not in lab.host.get(path_of(web))["metadata"]
    lab.hub.patch(path_of(web), {"spec": {"replicas": 3}})
    lab.wait_status(web, readyReplicas=3)
    assert pods.items() <= _pods(lab, home).items()
    assert _uids(lab, [web]) == before


def test_owner_that_may_still_change_or_delete_it_is_reported(lab: Lab) -> None:
    group, home = lab.group("a"), f"{lab.id}-shop"
    lab.host.create(objects.namespace(home))
    application = _edge_application(lab, home)
    web = objects.deployment(home, node_selector=group.selector)
    made = copy.deepcopy(web)
    made["metadata"]["ownerReferences"] = [_owner(application)]
    within(THROUGH_HUB_S, lab.host.create, made)
    within(THROUGH_HUB_S, _runs, lab, home, 2)
    pods = _pods(lab, home)
    lab.serve(group.settings(adoptNamespaces=[home]))
    lab.namespace("-shop")
    lab.propagate([web], group, conflictResolution="Overwrite")
    within(THROUGH_HUB_S, _is_adopted, lab, path_of(web), group)
    told = f"Deployment {home}/web by EdgeApplication web"
    within(THROUGH_HUB_S, _is_owned, lab, group, told)
    within(THROUGH_HUB_S, _has_been_reported, lab, group, "owned by EdgeApplication web")

    lab.host.delete(path_of(application), orphans=True)
    wait_until_deleted(lab.host, path_of(application))
    within(THROUGH_HUB_S, _is_sole_owner, lab, group)
    assert _pods(lab, home) == pods


def _is_owned(lab: Lab, group: Group, told: str) -> None:
    found = condition(lab.cluster(group.name), "AdoptionComplete")
    assert (found["status"], found["reason"]) == ("False", "OwnedElsewhere"), found
    assert told in found["message"]
    assert "--cascade=orphan" in found["message"]


def _is_sole_owner(lab: Lab, group: Group) -> None:
    assert condition(lab.cluster(group.name), "AdoptionComplete")["status"] == "True"


def _has_been_reported(lab: Lab, group: Group, text: str) -> None:
    events = lab.hub.list(collection("v1", "Event", f"karmada-es-{group.name}"))
    told = [each["message"] for each in events if each["reason"] == "OwnedElsewhere"]
    assert any(text in message for message in told), told


def test_pods_elsewhere_are_recreated_on_the_nodes_of_the_group(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    home = f"{lab.id}-shop"
    lab.host.create(objects.namespace(home))
    web = objects.deployment(home, node_selector={lab.disk: "ssd"})
    lab.host.patch(f"/api/v1/nodes/{other.nodes[0]}", _labelled(lab))
    within(THROUGH_HUB_S, lab.host.create, web)
    within(THROUGH_HUB_S, _runs, lab, home, 2)
    pods = _pods(lab, home)
    lab.host.patch(f"/api/v1/nodes/{group.nodes[0]}", _labelled(lab))
    lab.serve(group.settings(adoptNamespaces=[home]), other)
    lab.namespace("-shop")
    lab.propagate([web], group, conflictResolution="Overwrite")
    lab.wait_status(web, readyReplicas=2, updatedReplicas=2)
    within(THROUGH_HUB_S, _is_placed, lab, web, group, pods)
    _wait_enforced(lab, group, PLACED)


def _edge_application(lab: Lab, home: str) -> Object:
    """Make an EdgeApplication, and the definition of its kind where that is missing."""
    definition = objects.custom_definition(APPS, "EdgeApplication", versions=("v1alpha1",))
    try:
        lab.host.create(definition)
    except ApiError as error:
        if error.code != 409:  # another test's, and left: other tests may use it
            raise
    application = {
        "apiVersion": f"{APPS}/v1alpha1",
        "kind": "EdgeApplication",
        "metadata": {"name": "web", "namespace": home},
        "spec": {"workloadScope": {"targetNodeGroups": [{"name": f"{lab.id}-a"}]}},
    }
    return within(THROUGH_HUB_S, lab.host.create, application)


def _owner(application: Object) -> Object:
    metadata = application["metadata"]
    return {
        **{key: application[key] for key in ("apiVersion", "kind")},
        **{key: metadata[key] for key in ("name", "uid")},
        "controller": True,
    }


def _promote(lab: Lab, program: Path, group: Group, kind: str, name: str, home: str) -> None:
    command = [
        *(str(program), "promote", kind, name, "-n", home, "-C", group.name),
        *("--kubeconfig", str(lab.hub.kubeconfig)),
        *("--cluster-kubeconfig", str(lab.host.kubeconfig)),
        *("--cluster-context", yaml.safe_load(lab.host.kubeconfig.read_text())["current-context"]),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROMOTE_S,
        check=False,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr + done.stdout


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


def _wait_enforced(lab: Lab, group: Group, expected: tuple[str, str], *names: str) -> str:
    """Wait until PlacementEnforced is so and names all these objects; return its message."""

    def look() -> str:
        found = condition(lab.cluster(group.name), "PlacementEnforced")
        assert (found["status"], found["reason"]) == expected, found
        assert all(name in found["message"] for name in names), found
        return str(found["message"])

    return within(THROUGH_HUB_S, look)


def _has_data(lab: Lab, path: str) -> None:
    assert lab.host.get(path)["data"] == {"key": "2"}
