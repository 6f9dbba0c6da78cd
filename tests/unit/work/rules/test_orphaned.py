"""Which host objects no Work stands behind."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, WORK_ANNOTATION
from karmada_vc_agent.work.rules.ownership import (
    is_foreign,
    is_orphan,
    is_orphaned_namespace,
    namespaces_needed,
    work_of,
)
from tests.fakes import objects

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def live(work: str = "karmada-es-branch-a/web", cluster: str = "branch-a", **more: Any) -> Object:
    metadata: Object = {"name": "web", "labels": {CLUSTER_LABEL: cluster} if cluster else {}}
    if work:
        metadata["annotations"] = {WORK_ANNOTATION: work}
    return {"metadata": metadata | more}


def test_an_object_whose_work_is_there_is_none() -> None:
    assert work_of(live()) == "web"
    assert not is_orphan(live(), {"web"})


def test_object_whose_work_is_deleted_is_one() -> None:
    assert is_orphan(live(), {"other"})


@pytest.mark.parametrize(
    "obj",
    [
        live(work=""),
        live(work="/"),
        live(cluster=""),
        live(cluster="branch-b"),
        live(work="elsewhere/web"),
        live(ownerReferences=[{"kind": "Service", "name": "web", "controller": True}]),
    ],
)
def test_what_no_work_of_the_cluster_made_is_none(obj: Object) -> None:
    assert not is_orphan(obj, set())


def test_an_owner_that_does_not_control_makes_no_difference() -> None:
    assert is_orphan(live(ownerReferences=[{"kind": "X", "name": "x"}]), set())


def test_namespaces_are_needed_by_what_brings_or_fills_them() -> None:
    works = [
        objects.work(objects.namespace_manifest("brought")),
        objects.work(objects.config_map(ns="filled"), objects.deployment(ns="too")),
        {"metadata": {}, "spec": {"workload": {}}},
    ]
    assert namespaces_needed(works) == {"brought", "filled", "too"}


@pytest.mark.parametrize(
    ("namespace", "orphaned"),
    [("edge", True), ("needed", False), ("default", False), ("vc-system", False)],
)
def test_unneeded_namespace_is_orphaned_except_those_without_a_work(
    namespace: str, orphaned: bool
) -> None:
    assert is_orphaned_namespace(namespace, {"needed"}) is orphaned


@pytest.mark.parametrize(
    ("obj", "foreign"),
    [
        (live(), False),
        (live(work=""), False),
        (live(cluster=""), True),
        (live(cluster="branch-b"), True),
        (live(cluster="", ownerReferences=[{"kind": "Job", "controller": True}]), False),
        (live(cluster="", ownerReferences=[{"kind": "Job"}]), True),
        (live(cluster="", name="kube-root-ca.crt"), False),
    ],
)
def test_what_is_neither_ours_nor_made_for_something_is_foreign(obj: Object, foreign: bool) -> None:
    assert is_foreign(CONFIG_MAP, obj, "branch-a") is foreign
