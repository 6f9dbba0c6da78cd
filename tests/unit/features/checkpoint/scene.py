"""Builds checkpoints for tests."""

import base64
from typing import Any

from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint.entries import (
    CLUSTER,
    CONTACT,
    CONTACT_KEY,
    FORMAT,
    RULES,
    RULES_KEY,
    WORKS,
    Header,
    encoded,
    head_key,
    works_key,
)
from karmada_vc_agent.features.checkpoint.reader import Expected

Object = dict[str, Any]
SAVED = "2026-05-01T10:00:00Z"
TEMPLATE = "{namespace}-v-{cluster}"


def cluster(name: str = "a", uid: str = "uid-a") -> Object:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "uid": uid, "labels": {"x": "y"}, "resourceVersion": "7"},
        "spec": {"id": "an-id"},
        "status": {"conditions": []},
    }


def work(name: str = "one", of: str = "a", **metadata: Any) -> Object:
    return {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {
            "name": name,
            "namespace": f"karmada-es-{of}",
            "uid": f"uid-{name}",
            "generation": 1,
            "resourceVersion": "12",
            "managedFields": [{"manager": "m"}],
            **metadata,
        },
        "spec": {"workload": {"manifests": [{"kind": "ConfigMap", "metadata": {"name": name}}]}},
        "status": {"conditions": []},
    }


def header(kind: str, **fields: Any) -> Header:
    given = {"hub": "hub-1", "cluster": "a", "uid": "uid-a", "template": TEMPLATE, "saved": SAVED}
    return Header(format=FORMAT, kind=kind, **{**given, **fields})


def entry(kind: str, *objects: Object, **fields: Any) -> bytes:
    contents = [content for each in objects if (content := encoded(each)) is not None]
    return entries.encode(header(kind, **fields), contents)


def secret(**others: bytes) -> dict[str, str]:
    """Return the data of a Secret with Cluster `a` and one Work; others: keys in another form."""
    found = {
        head_key("a"): entry(CLUSTER, cluster(), parts=1),
        works_key("a", 1, 0): entry(WORKS, work(), parts=1),
        RULES_KEY: entry(RULES, cluster="", uid=""),
        CONTACT_KEY: entry(CONTACT, cluster="", uid=""),
        **others,
    }
    return {key: base64.b64encode(content).decode() for key, content in found.items()}


def expected(**fields: Any) -> Expected:
    return Expected(**{"template": TEMPLATE, "uids": {"a": "uid-a"}, "hub": "hub-1", **fields})
