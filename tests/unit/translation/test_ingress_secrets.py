"""Annotations by which a proxy reads Secrets and ConfigMaps stay in the virtual cluster."""

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.kind_policy import Code
from tests.unit.translation import given


def ingress(key: str, value: str) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "i", "namespace": "edge", "annotations": {key: value}},
        "spec": {"rules": [{"host": "a.example.com"}]},
    }


KEYS = [
    "haproxy.org/server-crt",
    "haproxy.org/server-ca",
    "haproxy.org/client-ca",
    "haproxy-ingress.github.io/secure-verify-ca-secret",
    "nginx.ingress.kubernetes.io/auth-proxy-set-headers",
    "nginx.ingress.kubernetes.io/custom-headers",
    "example.com/auth-secret",
]


@pytest.mark.parametrize("key", KEYS)
def test_the_namespace_is_mapped(key: str) -> None:
    obj = given.host_object(ingress(key, "edge/key"))
    assert obj["metadata"]["annotations"][key] == "edge-v-branch-a/key"
    assert given.host_object(ingress(key, "key"))["metadata"]["annotations"][key] == "key"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["secret://edge/key", "edge/a/b", "file:///etc/x", "/key"])
def test_what_is_not_understood_is_refused(key: str, value: str) -> None:
    assert given.refusal(ingress(key, value)).code is Code.REFERENCE_FORBIDDEN


def test_annotations_of_others_are_none_of_ours() -> None:
    obj = given.host_object(ingress("example.com/web-headers", "a/b/c"))
    assert obj["metadata"]["annotations"]["example.com/web-headers"] == "a/b/c"


@pytest.mark.parametrize("kind", ["StorageClass", "ClusterRole"])
def test_no_finalizer_keeps_an_object_in_no_namespace(kind: str) -> None:
    group = {"StorageClass": "storage.k8s.io/v1", "ClusterRole": "rbac.authorization.k8s.io/v1"}
    metadata = {"name": "x", "finalizers": ["example.com/mine"]}
    manifest = {"apiVersion": group[kind], "kind": kind, "metadata": metadata}
    assert "finalizers" not in given.host_object(manifest, namespaced=False)["metadata"]
