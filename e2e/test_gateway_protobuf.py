"""Bodies in protobuf, as kubectl sends them: they make what they make without a gateway."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lab.api import Object
from e2e.lab.kubectl import kubectl
from e2e.lab.lone_gateway import LoneGateway, lone_gateway
from e2e.lab.lone_server import lone_api_server
from e2e.lab.pair import Pair

PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(name="lone", scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneGateway]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with lone_api_server(folder / "host") as host, lone_gateway(host, folder) as lone:
        yield lone


@pytest.fixture
def gateway(lone: LoneGateway) -> Pair:
    """Give each test two virtual clusters of its own."""
    return Pair(lone)


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("api/v1/{}/configmaps/x", ("configmap", "x", "--from-literal=a=b")),
        ("api/v1/{}/secrets/x", ("secret", "generic", "x", "--from-literal=a=b")),
        ("apis/apps/v1/{}/deployments/x", ("deployment", "x", "--image=nginx", "--replicas=2")),
        ("apis/batch/v1/{}/jobs/x", ("job", "x", "--image=nginx", "--", "sleep", "1")),
        (
            "apis/batch/v1/{}/cronjobs/x",
            ("cronjob", "x", "--image=nginx", "--schedule=* * * * *"),
        ),
        ("api/v1/{}/services/x", ("service", "clusterip", "x", "--tcp=80:8080")),
        ("api/v1/{}/serviceaccounts/x", ("serviceaccount", "x")),
        (
            "apis/rbac.authorization.k8s.io/v1/{}/roles/x",
            ("role", "x", "--verb=get", "--resource=pods"),
        ),
        (
            "apis/networking.k8s.io/v1/{}/ingresses/x",
            ("ingress", "x", "--rule=example.com/*=web:80"),
        ),
        (
            "apis/policy/v1/{}/poddisruptionbudgets/x",
            ("poddisruptionbudget", "x", "--selector=a=b", "--min-available=50%"),
        ),
    ],
)
def test_kubectl_creates_by_its_commands(
    gateway: Pair, path: str, arguments: tuple[str, ...]
) -> None:
    """The same command in a plain namespace makes the same object, but for what is injected."""
    kubeconfig = gateway.gateway.kubeconfig(gateway.names["a"])
    told = kubectl(kubeconfig, "-v=8", "-n", "shop", "create", *arguments, with_errors=True)
    assert f"Content-Type: {PROTOBUF}" in told, told
    made = gateway.ask("/" + path.format("namespaces/shop")).json()
    plain = f"plain-{gateway.id}"
    gateway.host.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plain}})
    kubectl(gateway.host.kubeconfig, "-n", plain, "create", *arguments)
    wanted = gateway.host.get("/" + path.format(f"namespaces/{plain}"))
    assert _comparable(made) == _comparable(wanted)
    if template := _pod_spec(made):
        assert template["nodeSelector"] == {"branch": gateway.names["a"]}


def _pod_spec(obj: Object) -> Object:
    spec = obj.get("spec", {})
    template = spec.get("jobTemplate", {"spec": spec})["spec"].get("template", {})
    found: Object = template.get("spec", {})
    return found


def _comparable(obj: Object) -> Object:
    """Return an object without what the server makes anew, and without what is injected."""
    found: Object = json.loads(json.dumps(obj))
    found["metadata"] = {key: found["metadata"].get(key) for key in ("name", "labels")}
    if obj["kind"] == "Job":  # one without labels reads as if it had those of its template
        del found["metadata"]["labels"]
    _pod_spec(found).pop("nodeSelector", None)
    _pod_spec(found).pop("tolerations", None)
    for key in ("clusterIP", "clusterIPs"):
        found.get("spec", {}).pop(key, None)
    text = json.dumps(found)
    uid = obj["metadata"]["uid"]
    loaded: Object = json.loads(text.replace(uid, "uid"))
    return loaded


def test_what_kubectl_must_not_create_is_refused_by_the_rules(gateway: Pair) -> None:
    for namespace, why in (("kube-system", "orbidden"), (gateway.space("edge", "b"), "not found")):
        told = gateway.kubectl("a", "create", "configmap", "x", "-n", namespace, fails=True)
        assert why in told
    told = gateway.kubectl("a", "create", "quota", "x", "-n", "shop", "--hard=pods=1", fails=True)
    assert "orbidden" in told
    assert "-v-" not in told
