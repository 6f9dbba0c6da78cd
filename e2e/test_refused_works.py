"""A Work that cannot be applied says why, the others go on, and it recovers."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, THROUGH_HUB_S, eventually, within
from e2e.lab.works import condition

pytestmark = pytest.mark.shared_agent

FAILED = "Failed to apply all manifests (0/1): "
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_cluster_scoped_kind_is_refused_and_the_rest_of_its_work_continues(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    refused = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": lab.id},
        "webhooks": [],
    }
    manifest = objects.config_map(lab.namespace())
    work = lab.create_work(group, "mixed", refused, manifest)
    lab.wait_applied(
        work,
        "False",
        f'Failed to apply all manifests (1/2): virtual cluster "{group.name}" refused '
        f"ValidatingWebhookConfiguration {lab.id}: KindForbidden: "
        "cluster-scoped kind ValidatingWebhookConfiguration is not allowed",
    )
    assert condition(lab.hub.get(work), "Applied")["reason"] == "AppliedFailed"
    lab.on_host(manifest, group)
    assert lab.host.find(path_of(refused)) is None
    eventually(_has_event, lab, work, "KindForbidden")


@pytest.mark.smoke
def test_a_node_selector_of_another_group_is_refused_in_one_cluster_only(lab: Lab) -> None:
    group_a, group_b = lab.group("a"), lab.group("b")
    lab.serve(group_a, group_b)
    template = objects.deployment(lab.namespace(), node_selector=group_a.selector)
    lab.propagate([template], group_a, group_b)
    lab.on_host(template, group_a)
    name = f"{template['metadata']['namespace']}/web"
    text = (
        f'{FAILED}virtual cluster "{group_b.name}" refused Deployment {name}: '
        f'NodeSelectorConflict: spec.template.spec.nodeSelector["{lab.label}"] is "a", '
        'required "b"'
    )
    within(
        THROUGH_HUB_S,
        lambda: _aggregates(lab, template, {group_a: (True, ""), group_b: (False, text)}),
    )
    assert lab.host.find(lab.host_path(template, group_b)) is None
    spec = {"template": {"spec": {"nodeSelector": None}}}
    lab.hub.patch(path_of(template), {"spec": spec})
    lab.wait_fully_applied(template)
    lab.on_host(template, group_b)


def test_refusal_of_the_host_is_reported_in_the_names_of_the_hub(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    manifest = objects.service(lab.namespace())
    manifest["spec"]["ports"][0]["port"] = 99999
    work = lab.create_work(group, "invalid", manifest)
    message = condition(lab.wait_applied(work, "False"), "Applied")["message"]
    assert message.startswith(FAILED)
    assert 'Service "web" is invalid' in message
    assert "must be between 1 and 65535" in message
    assert group.host_namespace("") not in message
    port = {"op": "replace", "path": "/spec/workload/manifests/0/spec/ports/0/port", "value": 80}
    lab.hub.patch_json(work, port)
    lab.wait_applied(work)
    lab.on_host(manifest, group)


def test_object_that_was_there_before_is_left_alone_until_it_is_deleted(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    manifest = objects.config_map(lab.namespace(), key="hub")
    namespace = group.host_namespace(manifest["metadata"]["namespace"])
    eventually(lab.host.get, f"/api/v1/namespaces/{namespace}")
    theirs = lab.host.create(objects.config_map(namespace, key="host"))
    work = lab.create_work(group, "conflict", manifest)
    lab.wait_applied(
        work,
        "False",
        f"{FAILED}resource(kind=ConfigMap, {manifest['metadata']['namespace']}/settings) already "
        f"exists in the cluster {group.name} and the work.karmada.io/conflict-resolution strategy "
        "value is empty, Karmada will not manage this resource",
    )
    path = path_of(theirs)
    assert lab.host.get(path)["metadata"]["resourceVersion"] == _version(theirs)
    lab.host.delete(path)
    lab.wait_applied(work)
    assert lab.on_host(manifest, group)["data"] == {"key": "hub"}


def test_an_object_that_was_there_before_is_taken_over_where_the_policy_says_so(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    template = objects.config_map(lab.namespace(), key="hub")
    namespace = group.host_namespace(template["metadata"]["namespace"])
    eventually(lab.host.get, f"/api/v1/namespaces/{namespace}")
    theirs = lab.host.create(objects.config_map(namespace, key="host"))
    lab.propagate([template], group, conflictResolution="Overwrite")
    lab.wait_fully_applied(template)
    live = lab.on_host(template, group)
    assert live["data"] == {"key": "hub"}
    assert live["metadata"]["uid"] == theirs["metadata"]["uid"]


@pytest.mark.smoke
def test_unserved_kind_is_applied_once_the_host_serves_it(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    api_group = f"{lab.id}.example.com"
    manifest = {
        "apiVersion": f"{api_group}/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": lab.namespace()},
        "spec": {"size": 1},
    }
    work = lab.create_work(group, "unknown-kind", manifest)
    text = f'{FAILED}no matches for kind "Widget" in version "{api_group}/v1"'
    lab.wait_applied(work, "False", text)
    try:
        lab.host.create(objects.custom_definition(api_group))
        lab.wait_applied(work)
        assert lab.on_host(manifest, group)["spec"] == {"size": 1}
    finally:
        lab.host.delete(f"{CRDS}/widgets.{api_group}")


@pytest.mark.own_agent
def test_host_namespace_of_another_owner_is_not_taken(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    name = f"{lab.id}-taken"
    theirs = f"/api/v1/namespaces/{group.host_namespace(name)}"
    lab.host.create(objects.namespace(group.host_namespace(name)))
    try:
        lab.namespace("-taken")
        manifest = objects.config_map(name)
        work = lab.create_work(group, "in-taken", manifest)
        text = (
            f'{FAILED}virtual cluster "{group.name}" refused ConfigMap {name}/settings: '
            "NamespaceNotOwned: its host namespace exists and is not claimed by any virtual "
            "cluster; an administrator can allow it with adoptNamespaces"
        )
        lab.wait_applied(work, "False", text)
        assert "virtualcluster" not in str(lab.host.get(theirs)["metadata"].get("labels"))
    finally:
        lab.host.delete(theirs)
    lab.wait_applied(work)
    lab.on_host(manifest, group)


@pytest.mark.own_agent
def test_works_that_are_refused_hold_up_no_others_and_are_not_tried_again(lab: Lab) -> None:
    group = lab.group("a")
    endpoints = Endpoints.new()
    lab.serve(group, flags=(*FAST, *endpoints.flags()))
    namespace = lab.namespace()
    refused = []
    for number in range(10):
        manifest = objects.deployment(namespace, f"bad-{number}", node_selector={lab.label: "z"})
        refused.append(lab.create_work(group, f"bad-{number}", manifest))
    good = [objects.config_map(namespace, f"good-{number}") for number in range(10)]
    works = [lab.create_work(group, m["metadata"]["name"], m) for m in good]
    for work in works:
        lab.wait_applied(work)
    versions = {work: _version(lab.wait_applied(work, "False")) for work in refused}
    # One that can be mended by time is: by then the refused ones would have been retried, too.
    broken = objects.service(namespace, "broken")
    broken["spec"]["ports"][0]["port"] = 99999
    broken_work = lab.create_work(group, "broken", broken)
    within(BACKED_OFF_S, _has_retried, endpoints, 3)
    assert {work: _version(lab.hub.get(work)) for work in refused} == versions
    keys = {line.split("key=")[1].split()[0] for line in _backing_off(lab)}
    own = {f"{group.name}/{work.rpartition('/')[2]}" for work in (*refused, *works, broken_work)}
    assert keys & own == {f"{group.name}/broken"}


def _backing_off(lab: Lab) -> list[str]:
    log = lab.agents[0].log().splitlines()
    return [line for line in log if "Backing off" in line and "controller=execution" in line]


def _has_retried(endpoints: Endpoints, times: int) -> None:
    retries = endpoints.scrape().values("workqueue_retries_total")
    [found] = [count for labels, count in retries.items() if labels[0].startswith("execution")]
    assert found >= times


def _version(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _aggregates(lab: Lab, template: Object, expected: dict[Group, tuple[bool, str]]) -> None:
    metadata = template["metadata"]
    path = (
        f"/apis/work.karmada.io/v1alpha2/namespaces/{metadata['namespace']}/resourcebindings/"
        f"{metadata['name']}-{template['kind'].lower()}"
    )
    items = lab.hub.get(path)["status"]["aggregatedStatus"]
    seen = {
        item["clusterName"]: (item.get("applied", False), item.get("appliedMessage", ""))
        for item in items
    }
    assert seen == {group.name: outcome for group, outcome in expected.items()}


def _has_event(lab: Lab, work: str, reason: str) -> None:
    namespace, name = lab.hub.get(work)["metadata"]["namespace"], work.rpartition("/")[2]
    events = lab.hub.list(f"/api/v1/namespaces/{namespace}/events")
    reasons = {e["reason"] for e in events if e["involvedObject"]["name"] == name}
    assert reason in reasons, reasons
