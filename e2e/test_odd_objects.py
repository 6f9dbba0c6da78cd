"""One object that nobody can work with costs one object: the agent lives, and its neighbours."""

import json
from typing import Any

import pytest

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object, collection, path_of
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import eventually, wait_until_deleted
from e2e.lab.works import condition, hand_written, works_path

CLUSTER_LABEL = "virtualcluster.kubeedge.io/cluster"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MARK = "NESTED"
LEVELS = (300, 1100, 3000)


def nested(obj: Object, levels: int) -> bytes:
    """Return an object as JSON with a value nested this deep in place of MARK."""
    value = '{"a":' * levels + "1" + "}" * levels
    return json.dumps(obj).replace(f'"{MARK}"', value).encode()


@pytest.fixture
def served(lab: Lab) -> tuple[Agent, Endpoints, Group, Group]:
    """Return an agent with two virtual clusters: the first is odd, the second is its neighbour."""
    endpoints = Endpoints.new()
    odd, neighbour = lab.group("a"), lab.group("b")
    agent = lab.new_agent(odd, neighbour, flags=(*FAST, *endpoints.flags())).start()
    lab.wait_serving(agent)
    return agent, endpoints, odd, neighbour


def test_what_is_nested_too_deep_costs_its_manifest(
    lab: Lab, served: tuple[Agent, Endpoints, Group, Group]
) -> None:
    agent, endpoints, odd, neighbour = served
    namespace = lab.namespace()
    works, goods = [], []
    for levels in LEVELS:
        good = objects.config_map(namespace, f"good-{levels}")
        deep = objects.config_map(namespace, f"deep-{levels}") | {"data": {"deep": MARK}}
        works.append(_post_deep(lab, odd, f"deep-{levels}", levels, deep, good))
        goods.append(good)
    _neighbour_is_served(lab, neighbour, namespace, "before")
    for _ in range(2):
        for work, good in zip(works, goods, strict=True):
            eventually(_is_too_deep, lab, work)
            lab.on_host(good, odd)
        assert agent.is_running()
        agent.restart()  # it lists now what it was told by a watch before
        lab.wait_serving(agent)
    _neighbour_is_served(lab, neighbour, namespace, "after")
    eventually(_names, endpoints, f"{odd.name}/deep-{LEVELS[-1]}")
    for work in works:
        lab.hub.delete(work)
    for work in works:
        wait_until_deleted(lab.hub, work)
    eventually(_names_nothing, endpoints)
    assert agent.is_running()


def test_an_override_that_makes_metadata_odd_costs_its_manifest(
    lab: Lab, served: tuple[Agent, Endpoints, Group, Group]
) -> None:
    agent, _, odd, neighbour = served
    namespace = lab.namespace()
    changes: dict[str, object] = {"list": [namespace], "map": {"a": namespace}, "number": 7}
    templates = [objects.config_map(namespace, name) for name in changes]
    plain = objects.config_map(namespace, "plain")
    for template, value in zip(templates, changes.values(), strict=True):
        lab.hub.create(_override(template, value))
    lab.propagate([*templates, plain], odd, neighbour)
    lab.on_host(plain, odd)
    for template in templates:
        eventually(_is_no_name, lab, odd, template["metadata"]["name"])
    _neighbour_is_served(lab, neighbour, namespace, "before")
    assert agent.is_running()
    agent.restart()
    lab.wait_serving(agent)
    _neighbour_is_served(lab, neighbour, namespace, "after")
    for template in templates:
        _is_no_name(lab, odd, template["metadata"]["name"])
    assert agent.is_running()


def test_a_host_object_nested_deep_costs_its_status(
    lab: Lab, served: tuple[Agent, Endpoints, Group, Group]
) -> None:
    agent, endpoints, odd, neighbour = served
    namespace, api_group = lab.namespace(), f"{lab.id}.example.com"
    crd = f"{CRDS}/widgets.{api_group}"
    lab.host.create(objects.custom_definition(api_group))
    try:
        widget = _widget(api_group, "known", namespace)
        work = lab.create_work(odd, "widget", widget)
        lab.wait_applied(work)
        live = lab.on_host(widget, odd)
        labels = {CLUSTER_LABEL: odd.name}
        host_namespace = odd.host_namespace(namespace)
        for levels in LEVELS:
            deep = _widget(api_group, f"deep-{levels}", host_namespace, spec={"deep": MARK})
            deep["metadata"]["labels"] = labels
            path = collection(f"{api_group}/v1", "Widget", host_namespace)
            lab.as_agent().post(path, nested(deep, levels))
        body = nested(live | {"status": {"deep": MARK, "seen": 1}}, LEVELS[-1])
        lab.host.replace(f"{lab.host_path(widget, odd)}/status", body)
        eventually(_names, endpoints, f"{host_namespace}/deep-{LEVELS[-1]}")
        eventually(_has_health_only, lab, work)
        for name in ("before", "after"):
            _neighbour_is_served(lab, neighbour, namespace, name)
            assert agent.is_running()
            agent.restart()
            lab.wait_serving(agent)
        lab.wait_applied(work)
    finally:
        lab.host.delete(crd)


def _post_deep(lab: Lab, group: Group, name: str, levels: int, *manifests: Object) -> str:
    work = hand_written(group.name, name, *manifests)
    eventually(lab.hub.get, f"/api/v1/namespaces/{work['metadata']['namespace']}")
    lab.hub.post(works_path(group.name), nested(work, levels))
    return path_of(work)


def _neighbour_is_served(lab: Lab, group: Group, namespace: str, name: str) -> None:
    manifest = objects.config_map(namespace, name)
    lab.wait_applied(lab.create_work(group, name, manifest))
    lab.on_host(manifest, group)


def _is_too_deep(lab: Lab, work: str) -> None:
    applied = condition(lab.hub.get(work), "Applied")
    assert applied["status"] == "False"
    assert "(1/2)" in applied["message"]
    assert "ManifestInvalid: it is nested deeper than 200 levels" in applied["message"]


def _names(endpoints: Endpoints, name: str) -> None:
    status, text = endpoints.ask("/readyz?verbose")
    assert status == 200, text
    assert name in text


def _names_nothing(endpoints: Endpoints) -> None:
    assert endpoints.ask("/readyz?verbose")[1].count("[+]objects ok\n") == 1


def _work_of(lab: Lab, group: Group, name: str) -> Object:
    for work in lab.works(group):
        for manifest in work["spec"]["workload"]["manifests"]:
            if manifest["metadata"].get("name") == name:
                return work
    raise AssertionError(f"no Work of {name}")


def _is_no_name(lab: Lab, group: Group, name: str) -> None:
    applied = condition(_work_of(lab, group, name), "Applied")
    assert applied["status"] == "False"
    assert "ManifestInvalid: metadata.namespace" in applied["message"]


def _has_health_only(lab: Lab, work: str) -> None:
    (entry,) = lab.hub.get(work)["status"]["manifestStatuses"]
    assert entry["health"] == "Healthy"
    assert not entry.get("status")


def _widget(api_group: str, name: str, namespace: str, **more: Any) -> Object:
    return {
        "apiVersion": f"{api_group}/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"size": 1},
    } | more


def _override(template: Object, value: object) -> Object:
    """Return an OverridePolicy that puts something else into metadata.namespace."""
    name, namespace = template["metadata"]["name"], template["metadata"]["namespace"]
    change = {"path": "/metadata/namespace", "operator": "replace", "value": value}
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "name": name}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "resourceSelectors": [selector],
            "overrideRules": [{"overriders": {"plaintext": [change]}}],
        },
    }
