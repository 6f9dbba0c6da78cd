"""Updates, scaling and deletion on the hub reach the host."""

from collections.abc import Callable

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import eventually, wait_until_deleted

pytestmark = pytest.mark.shared_agent

POD_SPEC_PATHS = {"CronJob": ("spec", "jobTemplate", "spec", "template", "spec")}
POD_SPEC_PATH = ("spec", "template", "spec")


def test_changed_content_of_a_config_map_reaches_every_cluster(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    template = objects.config_map(lab.namespace(), key="old", gone="soon")
    lab.propagate([template], *groups)
    for group in groups:
        lab.on_host(template, group)
    lab.hub.patch(path_of(template), {"data": {"key": "new", "gone": None}})
    for group in groups:
        lab.wait_data(template, group, key="new")


@pytest.mark.smoke
def test_a_new_image_and_more_replicas_reach_the_pods(lab: Lab) -> None:
    group = lab.group("a", nodes=2)
    lab.serve(group)
    template = objects.deployment(lab.namespace(), replicas=1)
    lab.propagate([template], group)
    eventually(_runs, lab, template, group, objects.IMAGE, 1)
    container = {"name": "app", "image": "registry.example/app:2"}
    pods = {"template": {"spec": {"containers": [container]}}}
    lab.hub.patch(path_of(template), {"spec": {"replicas": 3, **pods}})
    eventually(_runs, lab, template, group, "registry.example/app:2", 3)
    lab.wait_status(template, readyReplicas=3, updatedReplicas=3)
    lab.hub.patch(path_of(template), {"spec": {"replicas": 0}})
    eventually(_runs, lab, template, group, "registry.example/app:2", 0)


@pytest.mark.parametrize(
    "make",
    [objects.stateful_set, objects.daemon_set, objects.job, objects.cron_job],
    ids=["StatefulSet", "DaemonSet", "Job", "CronJob"],
)
def test_every_kind_of_workload_selects_the_nodes_of_its_cluster(
    lab: Lab, make: Callable[[str], Object]
) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    template = make(lab.namespace())
    lab.propagate([template], *groups)
    lab.wait_fully_applied(template)
    for group in groups:
        spec = lab.on_host(template, group)
        for step in POD_SPEC_PATHS.get(template["kind"], POD_SPEC_PATH):
            spec = spec[step]
        assert spec["nodeSelector"] == group.selector


def test_a_daemon_set_runs_on_the_nodes_of_its_cluster_only(lab: Lab) -> None:
    group, other = lab.group("a", nodes=2), lab.group("b")
    lab.serve(group, other)
    template = objects.daemon_set(lab.namespace())
    lab.propagate([template], group)
    eventually(_runs_on, lab, template, group, group.nodes)
    lab.wait_status(template, desiredNumberScheduled=2, numberReady=2)


def test_a_finished_job_is_complete_on_the_hub(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    template = objects.job(lab.namespace())
    lab.propagate([template], *groups)
    lab.wait_status(template, succeeded=2)


@pytest.mark.smoke
def test_template_deleted_on_the_hub_is_removed_from_the_host(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    namespace = lab.namespace()
    templates = [objects.deployment(namespace), objects.config_map(namespace)]
    kept = objects.config_map(namespace, "kept")
    lab.propagate([*templates, kept], *groups)
    for template in templates:
        lab.wait_fully_applied(template)
    for template in templates:
        lab.hub.delete(path_of(template))
    for group in groups:
        for template in templates:
            wait_until_deleted(lab.host, lab.host_path(template, group))
        assert lab.on_host(kept, group)


def test_a_namespace_deleted_on_the_hub_takes_its_host_namespaces_with_it(lab: Lab) -> None:
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    namespace, other = lab.namespace(), lab.namespace("-other")
    template = objects.deployment(namespace)
    lab.propagate([template], *groups)
    lab.wait_fully_applied(template)
    for each in (namespace, other):
        lab.wait_namespace_sent(each, *groups)
    lab.hub.delete(f"/api/v1/namespaces/{namespace}")
    for group in groups:
        path = f"/api/v1/namespaces/{group.host_namespace(namespace)}"
        wait_until_deleted(lab.host, path)
        assert lab.host.get(f"/api/v1/namespaces/{group.host_namespace(other)}")


def _runs(lab: Lab, template: Object, group: Group, image: str, replicas: int) -> None:
    pods = lab.pods(group.host_namespace(template["metadata"]["namespace"]))
    images = [pod["spec"]["containers"][0]["image"] for pod in pods]
    assert images == [image] * replicas, images


def _runs_on(lab: Lab, template: Object, group: Group, nodes: list[str]) -> None:
    pods = lab.pods(group.host_namespace(template["metadata"]["namespace"]))
    assert sorted(pod["spec"].get("nodeName") or "" for pod in pods) == sorted(nodes)
