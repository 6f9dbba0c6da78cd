"""Works written by hand, as Karmada's own controllers write them."""

import copy

from e2e.lab.api import Object, collection

FINALIZER = "karmada.io/execution-controller"


def execution_namespace(cluster: str) -> str:
    return f"karmada-es-{cluster}"


def works_path(cluster: str) -> str:
    return collection("work.karmada.io/v1alpha1", "Work", execution_namespace(cluster))


def hand_written(cluster: str, name: str, *manifests: Object, **spec: bool) -> Object:
    """Return a Work with what the control plane would put there (contract 5.2)."""
    return {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {
            "name": name,
            "namespace": execution_namespace(cluster),
            "finalizers": [FINALIZER],
        },
        "spec": {"workload": {"manifests": [_marked(cluster, name, m) for m in manifests]}} | spec,
    }


def condition(obj: Object, kind: str) -> Object:
    """Return a condition of any object; AssertionError where it is not there yet."""
    for found in (obj.get("status") or {}).get("conditions") or []:
        if found["type"] == kind:
            return dict(found)
    raise AssertionError(f"no condition {kind} in {obj.get('status')}")


def _marked(cluster: str, work: str, manifest: Object) -> Object:
    marked = copy.deepcopy(manifest)
    metadata = marked["metadata"]
    metadata["labels"] = metadata.get("labels", {}) | {"karmada.io/managed": "true"}
    metadata["annotations"] = metadata.get("annotations", {}) | {
        "work.karmada.io/name": work,
        "work.karmada.io/namespace": execution_namespace(cluster),
        "resourcetemplate.karmada.io/generation": "1",
    }
    return marked
