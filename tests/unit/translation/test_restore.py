"""The way back: objects of the host and texts about them."""

import json

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import Object, copy_object
from karmada_vc_agent.translation.restore import restore, restore_text
from tests.unit.translation import given

D = "virtualcluster.kubeedge.io"
CLAIMS = {
    "edge": "edge-v-branch-a",
    "edge-2": "edge-v-branch-a-2",
    "old": "legacy",
}


def config_map(namespace: str, labels: dict[str, str] | None = None) -> Object:
    metadata = {"name": "c", "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def test_namespace_is_from_the_claim() -> None:
    context = given.context(claims={"edge": "legacy"})
    assert restore(config_map("legacy"), context)["metadata"]["namespace"] == "edge"


def test_namespace_is_from_the_label_when_it_is_not_claimed() -> None:
    context = given.context(claims={})
    obj = config_map("legacy", {f"{D}/namespace": "edge"})
    assert restore(obj, context)["metadata"] == {"name": "c", "namespace": "edge"}


def test_claim_beats_the_label() -> None:
    context = given.context(claims={"edge": "legacy"})
    obj = config_map("legacy", {f"{D}/namespace": "forged"})
    assert restore(obj, context)["metadata"]["namespace"] == "edge"


def test_foreign_namespace_stays() -> None:
    assert restore(config_map("kube-system"), given.context()) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "kube-system"},
    }


def test_status_and_server_fields_stay() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "edge-v-branch-a", "uid": "1"},
        "spec": {"nodeName": "node-1", "nodeSelector": {"branch": "a"}},
        "status": {"phase": "Running"},
    }
    before = copy_object(obj)
    restored = restore(obj, given.context())
    assert obj == before
    assert restored == {**obj, "metadata": {"name": "p", "namespace": "edge", "uid": "1"}}


def test_live_namespace_gets_its_virtual_name_and_label() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "legacy",
            "labels": {"kubernetes.io/metadata.name": "legacy", f"{D}/cluster": "branch-a"},
            "annotations": {f"{D}/adopted": "true", f"{D}/work": ""},
        },
        "status": {"phase": "Active"},
    }
    context = given.context(claims={"edge": "legacy"})
    assert restore(obj, context) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "edge", "labels": {"kubernetes.io/metadata.name": "edge"}},
        "status": {"phase": "Active"},
    }


def test_namespace_label_is_neither_made_up_nor_changed_elsewhere() -> None:
    label = {"kubernetes.io/metadata.name": "x"}
    context = given.context()
    assert restore(config_map("edge-v-branch-a", label), context)["metadata"]["labels"] == label
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge-v-branch-a"}}
    assert restore(obj, context)["metadata"] == {"name": "edge"}


def test_work_annotations_are_given_back() -> None:
    obj = config_map("edge-v-branch-a")
    obj["metadata"]["annotations"] = {f"{D}/work": "karmada-es-branch-a/w", "a": "b"}
    assert restore(obj, given.context())["metadata"]["annotations"] == {
        "a": "b",
        "work.karmada.io/name": "w",
        "work.karmada.io/namespace": "karmada-es-branch-a",
    }


def test_tenants_option_is_kept() -> None:
    obj = config_map("edge-v-branch-a")
    obj["metadata"]["annotations"] = {f"{D}/rewrite-dns": "env"}
    restored = restore(obj, given.context())
    assert restored["metadata"]["annotations"] == {f"{D}/rewrite-dns": "env"}


def test_dynamic_volume_keeps_its_name() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "db", "namespace": "edge-v-branch-a"},
        "spec": {"volumeName": "pvc-1b2c"},
    }
    assert restore(obj, given.context())["spec"] == {"volumeName": "pvc-1b2c"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('namespaces "edge-v-branch-a" not found', 'namespaces "edge" not found'),
        ("pods edge-v-branch-a/web", "pods edge/web"),
        ("web_edge-v-branch-a(1b2c)", "web_edge(1b2c)"),
        ("db.edge-v-branch-a.svc", "db.edge.svc"),
        ("system:serviceaccount:legacy:bot", "system:serviceaccount:old:bot"),
        ("edge-v-branch-a-2 and edge-v-branch-a", "edge-2 and edge"),
        ("edge-v-branch-a-3", "edge-v-branch-a-3"),
        ("my-edge-v-branch-a-1", "my-edge-v-branch-a-1"),
        ('clusterroles "pod-reader-v-branch-a" not found', 'clusterroles "pod-reader" not found'),
        ("io.example.reader-v-branch-a is gone.", "io.example.reader is gone."),
        ("waits for edge-v-branch-a.", "waits for edge."),
        ("later-v-branch-a/web", "later/web"),
        ("Legacy legacy2", "Legacy legacy2"),
        ("edge-v-branch-b", "edge-v-branch-b"),
        ("", ""),
    ],
)
def test_text_has_virtual_names(text: str, expected: str) -> None:
    assert restore_text(text, given.context(claims=CLAIMS).names()) == expected


@settings(deadline=None)
@for_all(st.text("abv-/. ", max_size=30))
def test_text_without_claims_stays(text: str) -> None:
    assert restore_text(text, given.context(claims={}).names()) == text


def test_notes_of_odd_shape_are_ignored() -> None:
    obj = config_map("edge-v-branch-a")
    for notes in ("", "no json", "[]", json.dumps({"a": 1})):
        obj["metadata"]["annotations"] = {f"{D}/names": notes}
        assert restore(obj, given.context())["metadata"]["namespace"] == "edge"


@pytest.mark.parametrize(
    ("api_version", "about"), [("v1", "involvedObject"), ("events.k8s.io/v1", "regarding")]
)
def test_event_names_objects_in_virtual_namespaces(api_version: str, about: str) -> None:
    def event(namespace: str) -> Object:
        pod = {"kind": "Pod", "name": "p", "namespace": namespace}
        metadata = {"name": "p.1", "namespace": namespace}
        event = {"apiVersion": api_version, "kind": "Event", "metadata": metadata}
        return event | {about: pod, "related": dict(pod)}

    assert restore(event("legacy"), given.context(claims=CLAIMS)) == event("old")
