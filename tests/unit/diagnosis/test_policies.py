"""Policies and overrides of files do what Karmada 1.18 does with them."""

from typing import Any

import pytest

from karmada_vc_agent.config.decoding import decode
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.diagnosis.policies import (
    FilePolicy,
    PolicySpec,
    clusters_of,
    manifest_for,
    policy_of,
    unread,
)
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from tests.fakes import objects

A: dict[str, Any] = {"name": "branch-a", "nodeNames": ["n1"], "clusterLabels": {"size": "small"}}
B: dict[str, Any] = {"name": "branch-b", "nodeNames": ["n2"]}
TAINTED: dict[str, Any] = {
    "name": "branch-c",
    "nodeNames": ["n3"],
    "taints": [{"key": "closed", "effect": "NoSchedule"}],
}
DEPLOYMENTS = {"apiVersion": "apps/v1", "kind": "Deployment"}
ALL = [vc["name"] for vc in (A, B, TAINTED)]


def clusters() -> tuple[VirtualCluster, ...]:
    return decode({"virtualClusters": [A, B, TAINTED]}, AgentConfig, "").virtual_clusters


def policy(kind: str, namespace: str = "edge", name: str = "p", **spec: Any) -> FilePolicy:
    return FilePolicy(kind, namespace, name, decode(spec, PolicySpec, ""))


def propagation(name: str, *selectors: Object, namespace: str = "edge", **spec: Any) -> FilePolicy:
    kind = "PropagationPolicy" if namespace else "ClusterPropagationPolicy"
    return policy(kind, namespace, name, resourceSelectors=list(selectors), **spec)


TEMPLATE = objects.deployment(ns="edge")
NAME = TEMPLATE["metadata"]["name"]
BY_NAME = DEPLOYMENTS | {"name": NAME}
BY_LABEL = DEPLOYMENTS | {"labelSelector": {"matchLabels": {"app": "none"}}}

CHOICES = {
    "none": ([], None),
    "another kind": ([propagation("a", {"apiVersion": "v1", "kind": "Pod"})], None),
    "another namespace": ([propagation("a", DEPLOYMENTS, namespace="other")], None),
    "labels that it lacks": ([propagation("a", BY_LABEL)], None),
    "the first by name": ([propagation("b", DEPLOYMENTS), propagation("a", DEPLOYMENTS)], "a"),
    "the closer one": ([propagation("a", DEPLOYMENTS), propagation("b", BY_NAME)], "b"),
    "priority before closeness": (
        [propagation("a", BY_NAME), propagation("b", DEPLOYMENTS, priority=1)],
        "b",
    ),
    "of its namespace before of all": (
        [propagation("a", BY_NAME, namespace="", priority=9), propagation("b", DEPLOYMENTS)],
        "b",
    ),
    "of all": ([propagation("a", DEPLOYMENTS, namespace="")], "a"),
}


def test_namespace_that_is_null_is_none() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "namespace": None}}
    selector = {"apiVersion": "v1", "kind": "Node", "namespace": "edge"}
    assert policy_of([propagation("a", selector, namespace="")], node) is None


@pytest.mark.parametrize("case", CHOICES)
def test_a_template_is_claimed_by_one_policy(case: str) -> None:
    policies, expected = CHOICES[case]
    chosen = policy_of(policies, TEMPLATE)
    assert (chosen.name if chosen else None) == expected


TOLERATED = [{"key": "closed", "operator": "Exists"}]
PLACEMENTS: dict[str, tuple[Object, list[str]]] = {
    "none": ({}, ["branch-a", "branch-b"]),
    "names": ({"clusterAffinity": {"clusterNames": ["branch-b", "x"]}}, ["branch-b"]),
    "all but one": ({"clusterAffinity": {"excludeClusters": ["branch-a"]}}, ["branch-b"]),
    "labels": (
        {"clusterAffinity": {"labelSelector": {"matchLabels": {"size": "small"}}}},
        ["branch-a"],
    ),
    "tolerated": ({"clusterTolerations": TOLERATED}, ALL),
    "the first that fits": (
        {
            "clusterAffinities": [
                {"affinityName": "far", "clusterNames": ["x"]},
                {"affinityName": "near", "clusterNames": ["branch-b"]},
                {"affinityName": "last", "clusterNames": ["branch-a"]},
            ]
        },
        ["branch-b"],
    ),
    "nowhere": ({"clusterAffinity": {"clusterNames": ["x"]}}, []),
}


@pytest.mark.parametrize("case", PLACEMENTS)
def test_a_placement_selects_virtual_clusters(case: str) -> None:
    placement, expected = PLACEMENTS[case]
    chosen = propagation("p", DEPLOYMENTS, placement=placement)
    assert [vc.name for vc in clusters_of(chosen, clusters())] == expected


IMAGES = {
    ("nginx", "Registry", "replace", "r.io"): "r.io/nginx",
    ("nginx:1", "Registry", "add", "r.io"): "r.io/nginx:1",
    ("r.io:5000/a/b:1", "Registry", "replace", "q.io"): "q.io/a/b:1",
    ("r.io/a/b:1", "Registry", "remove", ""): "a/b:1",
    ("localhost/a", "Registry", "add", ":80"): "localhost:80/a",
    ("library/nginx:1", "Repository", "replace", "x/y"): "x/y:1",
    ("a:1", "Repository", "add", "-slim"): "a-slim:1",
    ("a:1", "Tag", "replace", "2"): "a:2",
    ("a:1", "Tag", "add", "-rc"): "a:1-rc",
    ("a", "Tag", "replace", "2"): "a:2",
    ("a:1", "Tag", "remove", ""): "a",
    ("a@sha256:aa", "Tag", "replace", "2"): "a:2",
    ("a:1@sha256:aa", "Registry", "replace", "r.io"): "r.io/a:1",
    ("a:1", "Tag", "replace", "sha256:bb"): "a@sha256:bb",
}


@pytest.mark.parametrize("change", IMAGES)
def test_image_overriders_replace_parts(change: tuple[str, str, str, str]) -> None:
    image, component, operator, value = change
    template = objects.deployment(ns="edge")
    template["spec"]["template"]["spec"]["containers"] = [{"name": "c", "image": image}]
    overrider = {"component": component, "operator": operator, "value": value}
    manifest = overridden(template, imageOverrider=[overrider])
    assert containers(manifest)[0]["image"] == IMAGES[change]


def overridden(template: Object, kind: str = "OverridePolicy", **overriders: Any) -> Object:
    rules = [{"overriders": overriders}]
    by = policy(kind, "edge" if kind == "OverridePolicy" else "", overrideRules=rules)
    manifest, applied = manifest_for(template, clusters()[0], None, [by])
    assert applied == [by]
    return manifest


def containers(manifest: Object) -> list[Object]:
    found: list[Object] = manifest["spec"]["template"]["spec"]["containers"]
    return found


def test_words_are_added_and_removed_of_the_named_container() -> None:
    template = objects.deployment(ns="edge")
    pod = template["spec"]["template"]["spec"]
    pod["containers"] = [{"name": "a", "image": "i", "args": ["x", "y"]}, {"name": "b"}]
    manifest = overridden(
        template,
        argsOverrider=[
            {"containerName": "a", "operator": "remove", "value": ["x"]},
            {"containerName": "a", "operator": "add", "value": ["z"]},
        ],
        commandOverrider=[{"containerName": "b", "operator": "add", "value": ["run"]}],
    )
    assert [c.get("args") for c in containers(manifest)] == [["y", "z"], None]
    assert [c.get("command") for c in containers(manifest)] == [None, ["run"]]


def test_plaintext_is_a_patch_and_one_that_fails_makes_no_work() -> None:
    patch = {"path": "/spec/replicas", "operator": "replace", "value": 7}
    assert overridden(TEMPLATE, plaintext=[patch])["spec"]["replicas"] == 7
    with pytest.raises(ValueError, match="OverridePolicy edge/p cannot be applied"):
        overridden(TEMPLATE, plaintext=[patch | {"path": "/spec/none/x"}])


def test_an_override_for_another_cluster_changes_nothing() -> None:
    patch = [{"path": "/spec/replicas", "operator": "replace", "value": 7}]
    for target, replicas in ((["branch-b"], 1), (["branch-a"], 7)):
        by = policy(
            "OverridePolicy",
            targetCluster={"clusterNames": target},
            overriders={"plaintext": patch},
        )
        template = objects.deployment(ns="edge")
        template["spec"]["replicas"] = 1
        manifest, applied = manifest_for(template, clusters()[0], None, [by])
        assert (manifest["spec"]["replicas"], bool(applied)) == (replicas, replicas == 7)


def test_overrides_of_a_namespace_follow_those_of_all() -> None:
    def patch(value: int) -> Object:
        return {"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": value}]}

    own = policy("OverridePolicy", "edge", "a", overrideRules=[{"overriders": patch(1)}])
    of_all = policy("ClusterOverridePolicy", "", "b", overrideRules=[{"overriders": patch(2)}])
    manifest, applied = manifest_for(TEMPLATE, clusters()[0], None, [own, of_all])
    assert (manifest["spec"]["replicas"], applied) == (1, [of_all, own])


def test_karmada_marks_what_it_manages_and_how_conflicts_end() -> None:
    by, before = propagation("p", DEPLOYMENTS, conflictResolution="Overwrite"), repr(TEMPLATE)
    manifest, _ = manifest_for(TEMPLATE, clusters()[0], by, [by])
    assert manifest["metadata"]["labels"]["karmada.io/managed"] == "true"
    key = "work.karmada.io/conflict-resolution"
    assert manifest["metadata"]["annotations"][key] == "overwrite"
    assert repr(TEMPLATE) == before, "a template was changed"


def test_what_is_not_evaluated_and_strangers_are_named() -> None:
    spec: dict[str, Any] = {
        "resourceSelectors": [DEPLOYMENTS],
        "propagateDeps": True,
        "placement": {
            "clusterAffinity": {"clusterNames": ["brnach-a"], "fieldSelector": {}},
            "spreadConstraints": [],
        },
    }
    assert list(unread(spec)) == [
        "propagateDeps",
        "placement.clusterAffinity.fieldSelector",
        "placement.spreadConstraints",
    ]
    by = policy("PropagationPolicy", **spec)
    (text,) = by.strangers(ALL)
    assert text == '"brnach-a" is none of these virtual clusters; did you mean "branch-a"?'
    rules: Object = {"overrideRules": [{"overriders": {"labelsOverrider": []}}]}
    assert list(unread(rules)) == ["overrideRules.overriders.labelsOverrider"]
