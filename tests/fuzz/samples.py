"""Good inputs of each way in, which the fuzzer then spoils: made ones, and recorded ones."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fuzz.record import recorded
from tests.unit.translation.cases import CASES

SETTINGS = Path(__file__).parent / "settings.yaml"
KUBECONFIG = Path(__file__).parent / "kubeconfig.yaml"


def manifests() -> list[Object]:
    """Return manifests of every kind that a rule knows."""
    plain = [objects.config_map(), objects.deployment(), objects.job(), *_more_manifests()]
    return [*plain, objects.namespace_manifest(), *(case.given["manifest"] for case in CASES)]


def _more_manifests() -> Iterator[Object]:
    metadata = objects.managed("one", "edge")
    ports = [{"port": 80, "protocol": "TCP", "nodePort": 30080, "targetPort": "http"}]
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": ports},
    }
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "secrets": [{"name": "one-token-x"}],
        "imagePullSecrets": [{"name": "pull"}],
    }
    yield {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment"}},
    }


def host_objects() -> list[Object]:
    """Return live objects of the host as this agent left them, with a status."""
    labels = {vocabulary.CLUSTER_LABEL: "branch-a", vocabulary.NAMESPACE_LABEL: "edge"}
    work = {vocabulary.WORK_ANNOTATION: "karmada-es-branch-a/web-1"}
    found = []
    for manifest in manifests():
        live = copy.deepcopy(manifest)
        metadata = live.setdefault("metadata", {})
        metadata.setdefault("name", "one")
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            **work,
            vocabulary.TEMPLATE_GENERATION_ANNOTATION: "1",
            vocabulary.NAME_ANNOTATION: "reader",
            vocabulary.OWNERS_ANNOTATION: '{"branch-a":"0123456789abcdef"}',
            vocabulary.NODE_PORTS_ANNOTATION: '{"80/TCP": 30080}',
            f"{vocabulary.DOMAIN}/names": '{"edge-v-branch-a": "edge", "x-v-branch-a": "x"}',
        }
        metadata |= {"uid": "uid-1", "resourceVersion": "7", "generation": 2}
        metadata["ownerReferences"] = [{"kind": "Deployment", "name": "x", "controller": True}]
        if metadata.get("namespace"):
            metadata["namespace"] = f"{metadata['namespace']}-v-branch-a"
        live["status"] = _status()
        found.append(live)
    return [*found, *recorded("deployments"), *recorded("rolebindings")]


def _status() -> Object:
    condition = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "fine"}
    return {
        "observedGeneration": 2,
        "replicas": 2,
        "readyReplicas": 2,
        "updatedReplicas": 2,
        "availableReplicas": 2,
        "phase": "Running",
        "active": 1,
        "succeeded": 1,
        "conditions": [condition, {"type": "Complete", "status": "True"}],
        "loadBalancer": {"ingress": [{"ip": "192.0.2.1", "hostname": "edge-v-branch-a.example"}]},
        "hard": {"pods": "10"},
        "used": {"pods": "1"},
    }


def nodes() -> list[Object]:
    """Return a node and what of it counts."""
    node = objects.node("node-1", {"branch": "a"})
    node["metadata"] |= {"uid": "uid-1", "resourceVersion": "7", "annotations": {"a": "b"}}
    node["spec"] = {"taints": [{"key": "edge", "value": "true", "effect": "NoExecute"}]}
    return [node, *recorded("nodes")[:2]]


def pods() -> list[Object]:
    """Return pods on a node and waiting for one."""
    waiting = objects.pod("waiting", "edge-v-branch-a", nodeSelector={"branch": "a"})
    init = [{"resources": {"requests": {"memory": "1Gi"}}}]
    running = objects.pod(
        "running", "edge-v-branch-a", "node-1", initContainers=init, overhead={"cpu": "10m"}
    )
    return [waiting, running, *recorded("pods")]


def namespaces() -> list[Object]:
    """Return claimed host namespaces with all that is put on them."""
    annotations = {
        vocabulary.CREATED_BY_AGENT_ANNOTATION: "true",
        vocabulary.WORK_ANNOTATION: "karmada-es-branch-a/edge-x",
        vocabulary.NODE_SELECTOR_ANNOTATION: "branch=a",
        vocabulary.POD_SECURITY_ANNOTATION: "baseline",
    }
    claimed = objects.claimed(annotations=annotations, uid="uid-1", resourceVersion="7")
    made = [claimed, objects.claimed("branch-b"), objects.namespace("plain")]
    return [*made, *recorded("namespaces")]


def works() -> list[Object]:
    """Return Works with one and with many manifests."""
    status = {
        "conditions": [objects.condition("Applied", "True", "AppliedSuccessful", "fine")],
        "manifestStatuses": [
            {
                "identifier": {"ordinal": 0, "version": "v1", "kind": "ConfigMap", "name": "one"},
                "status": {"replicas": 1},
                "health": "Healthy",
            }
        ],
    }
    many = objects.work(objects.config_map(), objects.deployment(), name="many")
    told = {**objects.work(objects.config_map(), name="told"), "status": status}
    one = objects.work(objects.namespace_manifest(), name="edge-1")
    return [one, many, told, *recorded("works")]


def clusters() -> list[Object]:
    """Return a Cluster as the hub has it."""
    models = [{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]}]
    cluster = objects.cluster(
        "branch-a",
        "some-id",
        conditions=[objects.ready()],
        resourceModels=models,
        taints=[{"key": "cluster.karmada.io/not-ready", "effect": "NoSchedule"}],
        provider="p",
        region="r",
        zones=["z"],
    )
    enablements = [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}]
    cluster["status"] |= {"apiEnablements": enablements, "remedyActions": ["TrafficControl"]}
    cluster["metadata"] |= {"uid": "uid-1", "resourceVersion": "7", "labels": {"a": "b"}}
    return [cluster, *recorded("clusters")]


def leases() -> list[Object]:
    """Return Leases: ours, one of another process, one of a Cluster."""
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 3,
    }
    metadata = {"name": "one", "namespace": "ns", "uid": "uid-1", "resourceVersion": "7"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    noted = {"annotations": {vocabulary.LEASE_HOLDER_ANNOTATION: "me"}}
    return [
        {**lease, "spec": spec},
        {**lease, "spec": {**spec, "holderIdentity": "another"}},
        {**lease, "metadata": {**metadata, **noted}, "spec": spec},
    ]


def customizations() -> list[Object]:
    """Return ResourceInterpreterCustomizations."""
    script = "function GetHealth(observedObj) return observedObj.status.ready end"
    return [
        {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "widgets"},
            "spec": {
                "target": {"apiVersion": "example.com/v1", "kind": "Widget"},
                "customizations": {
                    "healthInterpretation": {"luaScript": script},
                    "statusReflection": {"luaScript": script},
                    "retention": {"luaScript": script},
                },
            },
        }
    ]


def webhook_configurations() -> list[Object]:
    """Return ResourceInterpreterWebhookConfigurations."""
    rule = {
        "operations": ["InterpretHealth"],
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "kinds": ["Widget"],
    }
    service = {"namespace": "ns", "name": "hook", "port": 443, "path": "/interpret"}
    hook = {"rules": [rule], "timeoutSeconds": 3, "interpreterContextVersions": ["v1alpha1"]}
    by_url = {"url": "https://hook.example/interpret", "caBundle": "Zm9v"}
    hooks = [
        {**hook, "name": "by-url", "clientConfig": by_url},
        {**hook, "name": "by-service", "clientConfig": {"service": service}},
    ]
    return [
        {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": "hooks"},
            "webhooks": hooks,
        }
    ]


def webhook_answers() -> list[Object]:
    """Return answers of a webhook to each operation; the uid asked for is `asked`."""
    patch = "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9kYXRhIiwidmFsdWUiOnt9fV0="
    parts: tuple[Object, ...] = (
        {"patch": patch, "patchType": "JSONPatch"},
        {"rawStatus": {"replicas": 1}},
        {"healthy": True},
        {"successful": False, "status": {"code": 500, "message": "no"}},
    )
    head = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext"}
    return [{**head, "response": {"uid": "asked", "successful": True, **part}} for part in parts]


def services() -> list[Object]:
    """Return Services of the hub that hooks name."""
    metadata = {"name": "hook", "namespace": "ns"}
    spec = {"type": "ClusterIP", "clusterIP": "192.0.2.7", "ports": [{"port": 443}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    external = {"type": "ExternalName", "externalName": "hook.example"}
    return [service, {**service, "spec": external}]


def states() -> list[Object]:
    """Return ConfigMaps of what the agent remembers."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "karmada-vc-agent-state", "namespace": "karmada-vc-agent"},
            "data": {
                "namespaceTemplate": "{namespace}-v-{cluster}",
                "cluster.branch-a": '{"uid":"uid-1","settings":"0123"}',
                "cluster.branch-b": '{"uid":"uid-2","settings":"0123","has_left":true}',
            },
        }
    ]


def settings() -> Object:
    """Return settings with every field that a file can have."""
    return _yaml(SETTINGS)


def kubeconfig() -> Object:
    """Return a kubeconfig with each way to be known."""
    return _yaml(KUBECONFIG)


def _yaml(path: Path) -> Object:
    found: Any = yaml.safe_load(path.read_text())
    return dict(found)
