"""The CustomResourceDefinition of VirtualCluster objects."""

from karmada_vc_agent.features.objects.object_names import (
    DELETION_POLICIES,
    KIND,
    OBJECTS,
    PHASES,
    VERSION,
)
from karmada_vc_agent.features.objects.schema import schema_of
from karmada_vc_agent.features.objects.schema_rules import NAME_RULES
from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_OF_OBJECTS: Object = {
    "deletionPolicy": {
        "description": "What happens on the host when this object is deleted. Delete: the "
        "objects of its Works are deleted. Preserve: they stay, without the agent's labels. In "
        "both cases the Cluster on the hub is deleted.",
        "type": "string",
        "enum": list(DELETION_POLICIES),
        "default": DELETION_POLICIES[0],
    },
}
"""Settings of the object, and not of the virtual cluster that it describes."""

_COUNT: Object = {"type": "integer", "format": "int32"}


def definition() -> Object:
    """Return the CRD."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{OBJECTS}.{DOMAIN}"},
        "spec": {
            "group": DOMAIN,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": OBJECTS,
                "singular": KIND.lower(),
                "shortNames": ["vc"],
                "categories": ["karmada"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [*_columns()],
                    "schema": {"openAPIV3Schema": _schema()},
                }
            ],
        },
    }


def _schema() -> Object:
    spec = schema_of(VirtualCluster, without=frozenset({"name"}))
    spec["properties"] = {**spec["properties"], **_OF_OBJECTS}
    return {
        "description": "A group of nodes of this cluster that Karmada has as a member cluster.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"description": "The virtual cluster; its name is that of the object.", **spec},
            "status": _status(),
        },
        "x-kubernetes-validations": list(NAME_RULES),
    }


def _status() -> Object:
    return {
        "description": "What the agent that serves it sees.",
        "type": "object",
        "properties": {
            "observedGeneration": {
                "description": "Generation of the object that this status is about.",
                "type": "integer",
                "format": "int64",
            },
            "phase": {
                "description": "Where it stands, in one word; conditions say more.",
                "type": "string",
                "enum": list(PHASES),
            },
            "nodes": _counts("Nodes that count for it.", "total", "ready"),
            "works": _counts("Its Works.", "applied", "failed", "pending"),
            "lastHubContact": {
                "description": "When the hub accepted something last, as this status was "
                "written: while HubReachable is True it accepts more since.",
                "type": "string",
                "format": "date-time",
            },
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": _condition(),
            },
        },
    }


def _counts(description: str, *names: str) -> Object:
    return {
        "description": description,
        "type": "object",
        "properties": {name: dict(_COUNT) for name in names},
    }


def _condition() -> Object:
    text = {"type": "string"}
    return {
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": dict(text),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": dict(text),
            "message": dict(text),
            "observedGeneration": {"type": "integer", "format": "int64"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    }


def _columns() -> list[Object]:
    def of_condition(kind: str) -> str:
        return f'.status.conditions[?(@.type=="{kind}")].status'

    return [
        _column("Ready", "string", of_condition("Ready")),
        _column("Nodes", "integer", ".status.nodes.total"),
        _column("Works", "integer", ".status.works.applied"),
        _column("Failed", "integer", ".status.works.failed"),
        _column("Hub", "string", of_condition("HubReachable")),
        _column("Age", "date", ".metadata.creationTimestamp"),
        # What is not served has nothing above; `kubectl get -o wide` says why.
        _wide("Phase", ".status.phase"),
        _wide("Message", '.status.conditions[?(@.type=="Registered")].message'),
    ]


def _column(name: str, kind: str, path: str) -> Object:
    return {"name": name, "type": kind, "jsonPath": path}


def _wide(name: str, path: str) -> Object:
    return {**_column(name, "string", path), "priority": 1}
