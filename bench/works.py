"""Works as Karmada's own controllers write them, made by hand (contract 5.1, 5.2)."""

from typing import Any

import orjson

from karmada_vc_agent.model.vocabulary import EXECUTION_FINALIZER, execution_namespace

Object = dict[str, Any]

NAMESPACE = "bench"
"""The namespace of all objects, as the hub knows it."""


def config_map(name: str, text: str = "value") -> Object:
    """Return a ConfigMap; a small one unless told."""
    return _manifest("v1", "ConfigMap", name, data={"key": text})


def service(name: str) -> Object:
    """Return a Service without an address."""
    spec = {"clusterIP": "None", "selector": {"app": name}}
    return _manifest("v1", "Service", name, spec=spec)


def widget(name: str) -> Object:
    """Return an object of a kind that no server serves."""
    return _manifest("bench.example/v1", "Widget", name)


def deployment(name: str) -> Object:
    """Return a Deployment of one pod; kwok simulates it."""
    container = {"name": "app", "image": "registry.example/app:1"}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
    }
    return _manifest("apps/v1", "Deployment", name, spec=spec)


def pod(number: int, node: int) -> Object:
    """Return a Pod of the host alone, on the node of a number; kwok simulates it."""
    container = {"name": "app", "image": "registry.example/app:1"}
    spec = {"nodeName": f"node-{node}", "containers": [container]}
    metadata = {"name": f"bench-{number}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def work(cluster: str, manifest: Object) -> bytes:
    """Return a Work of one manifest, encoded; it has the manifest's name."""
    name, namespace = manifest["metadata"]["name"], execution_namespace(cluster)
    marks = {
        "work.karmada.io/name": name,
        "work.karmada.io/namespace": namespace,
        "resourcetemplate.karmada.io/generation": "1",
    }
    labels = {"karmada.io/managed": "true"}
    marked = manifest | {
        "metadata": manifest["metadata"] | {"annotations": marks, "labels": labels}
    }
    return orjson.dumps(
        {
            "apiVersion": "work.karmada.io/v1alpha1",
            "kind": "Work",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "finalizers": [EXECUTION_FINALIZER],
            },
            "spec": {"workload": {"manifests": [marked]}},
        }
    )


def _manifest(api_version: str, kind: str, name: str, **fields: Object) -> Object:
    head = {"apiVersion": api_version, "kind": kind}
    return head | {"metadata": {"name": name, "namespace": NAMESPACE}} | fields
