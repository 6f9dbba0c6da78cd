"""What operators of a branch may try through the gateway, which shows the branch as a cluster."""

import itertools
import json
import uuid
from collections.abc import Iterable
from pathlib import Path

from e2e.escapes.attempt import (
    DOMAIN,
    Attempt,
    Scene,
    all_alike,
    answer,
    unchanged,
)
from e2e.escapes.by_work import NAMESPACES, RBAC, pod
from e2e.lab import objects
from e2e.lab.accounts import role_binding, subject
from e2e.lab.api import Api, ApiError, Object, collection, path_of
from e2e.lab.lab import NODES

_MAPS = "/api/v1/configmaps"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_JSON = "application/json"


def _code(error: ApiError) -> str:
    return f"refused ({error.code})"


def _of_another(scene: Scene) -> str:
    """Ask for an object of another branch in all ways to name it, and to change it."""
    foreign, text = scene.theirs.host_namespace("default"), uuid.uuid4().hex
    secret = scene.lab.host.create(objects.config_map(foreign, f"of-{text[:6]}", of=text))
    own = scene.operator.create(objects.config_map("default", f"own-{text[:6]}", of="own"))
    name, there = secret["metadata"]["name"], f"/api/v1/namespaces/{foreign}/configmaps"
    uid = secret["metadata"]["uid"].encode()
    put = json.dumps({**secret, "data": {}}).encode()
    puts = (put, put.replace(uid, b""))  # a host that is given a uid may repeat it
    requests = (
        *(("GET", path) for path in (_MAPS, f"{_MAPS}?limit=1000", there, f"{there}/{name}")),
        ("GET", f"{_MAPS}?fieldSelector=metadata.namespace={foreign}"),
        ("GET", f"{_MAPS}?fieldSelector=metadata.name={name}"),
        ("GET", f"{_MAPS}?labelSelector={DOMAIN}/cluster={scene.theirs.name}"),
        ("GET", f"{_MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0"),
        ("GET", f"/api/v1/watch/namespaces/{foreign}/configmaps"),
        *(
            (method, f"/api/v1/namespaces/default{between}{foreign}/configmaps/{name}")
            for method in ("GET", "DELETE")
            for between in ("/../", "%2F..%2F", "/%2e%2e/")
        ),
        *((method, f"{there}/{name}") for method in ("PUT", "DELETE")),
        ("DELETE", there),
        ("DELETE", f"{_MAPS}?fieldSelector=metadata.name={name}"),
    )
    with unchanged(scene.lab.host, path_of(secret)):
        for method, path in requests:
            bodies = puts if method == "PUT" else (b"",)
            for form, body in itertools.product((_JSON, _TABLE), bodies):
                headers = {"Accept": form, "Content-Type": _JSON}
                _, content = scene.operator.answer(method, path, body, headers)
                assert text.encode() not in content, (method, path)
                assert uid in body or uid not in content, (method, path)
    names = {found["metadata"]["name"] for found in scene.operator.list(_MAPS)}
    assert own["metadata"]["name"] in names
    return "sees and changes nothing of it"


def _another_cluster(scene: Scene) -> str:
    """Use its token at the path of another branch, and be somebody else."""
    kubeconfig: Path = scene.operator.kubeconfig
    elsewhere = kubeconfig.with_suffix(".elsewhere")
    elsewhere.write_text(kubeconfig.read_text().replace(scene.mine.name, scene.theirs.name))
    others = (
        Api(elsewhere),
        scene.operator.acting_as("admin", "system:masters"),
        scene.operator.acting_as(
            f"system:serviceaccount:{scene.theirs.host_namespace('default')}:x"
        ),
    )
    return all_alike(answer(_code, each.get, _MAPS) for each in others)


def _node_of_another(scene: Scene) -> str:
    """Read a node of another branch, and write its own."""
    mine, theirs = scene.mine.nodes[0], scene.theirs.nodes[0]
    found = {node["metadata"]["name"] for node in scene.operator.list(NODES)}
    assert found == {*scene.mine.nodes}
    for path in (f"{NODES}/{theirs}", f"{NODES}?labelSelector={scene.lab.label}=b"):
        _, content = scene.operator.answer("GET", path, b"", {"Accept": _JSON})
        assert b"kubelet" not in content
        assert b"allocatable" not in content
    label = {"metadata": {"labels": {scene.lab.label: "b"}}}
    return all_alike(
        answer(_code, scene.operator.patch, f"{NODES}/{name}{part}", label)
        for name in (mine, theirs)
        for part in ("", "/status")
    )


def _pod_elsewhere(scene: Scene) -> str:
    specs: Iterable[Object] = (
        {"nodeName": scene.theirs.nodes[0]},
        {"nodeSelector": scene.theirs.selector},
    )
    return all_alike(
        answer(_code, scene.operator.create, pod("default", "elsewhere", **spec)) for spec in specs
    )


def _rights_for_another(scene: Scene) -> str:
    """Give rights to an account by the name of another branch's namespace on the host."""
    foreign = scene.theirs.host_namespace("default")
    binding = role_binding("default", "view", subject(foreign, "default"))
    binding["metadata"]["name"] = name = f"foreign-{uuid.uuid4().hex[:6]}"
    made = answer(str, scene.operator.create, binding)
    path = f"{collection(RBAC, 'RoleBinding', scene.home)}/{name}"
    live = scene.lab.host.find(path)
    if live is None:
        return made
    assert [each["namespace"] for each in live["subjects"]] != [foreign]
    return "an account of its own is meant"


def _kinds_of_the_host(scene: Scene) -> str:
    name = f"{scene.lab.id}-by-gateway"
    kinds = (
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("storage.k8s.io/v1", "StorageClass"),
        (RBAC, "ClusterRoleBinding"),
        ("v1", "PersistentVolume"),
        ("v1", "Node"),
    )
    manifests = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}} for version, kind in kinds
    ]
    outcome = all_alike(answer(_code, scene.operator.create, each) for each in manifests)
    assert not any(scene.lab.host.find(path_of(each)) for each in manifests)
    return outcome


def _namespace_of_another(scene: Scene) -> str:
    """Make a Namespace with the claim of another branch, and give away its own."""
    name = f"given-{uuid.uuid4().hex[:6]}"
    claim = {f"{DOMAIN}/cluster": scene.theirs.name, f"{DOMAIN}/namespace": "default"}
    made = objects.namespace(name)
    made["metadata"]["labels"] = dict(claim)
    own = _labels(scene, scene.home)
    answer(_code, scene.operator.patch, f"{NAMESPACES}/default", {"metadata": {"labels": claim}})
    assert _labels(scene, scene.home) == own
    scene.operator.create(made)
    labels = _labels(scene, scene.mine.host_namespace(name))
    scene.operator.delete(path_of(made))
    assert labels[f"{DOMAIN}/cluster"] == scene.mine.name
    assert labels[f"{DOMAIN}/namespace"] == name
    return "dropped; its own claim stands there"


def _labels(scene: Scene, host: str) -> Object:
    found: Object = scene.lab.host.get(f"{NAMESPACES}/{host}")["metadata"]["labels"]
    return found


def _ways_past_rights(scene: Scene) -> str:
    """Bind a pod, mint a token, and reach pods, Services and nodes by the API server's proxy."""
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "x"},
        "target": {"kind": "Node", "name": scene.theirs.nodes[0]},
    }
    home = "/api/v1/namespaces/default"
    return all_alike(
        (
            answer(_code, scene.operator.post, f"{home}/serviceaccounts/default/token", token),
            answer(_code, scene.operator.post, f"{home}/pods/x/binding", binding),
            *(
                answer(_code, scene.operator.get, f"{path}/proxy/")
                for path in (
                    f"{home}/pods/x",
                    f"{home}/services/kubernetes",
                    f"{NODES}/{scene.mine.nodes[0]}",
                )
            ),
        )
    )


ATTEMPTS = (
    Attempt(
        "Gateway: an object of another branch, by every path, selector and watch",
        "sees and changes nothing of it",
        _of_another,
    ),
    Attempt(
        "Gateway: the path of another branch with its own token, or another's name",
        "refused (401); refused (403)",
        _another_cluster,
    ),
    Attempt(
        "Gateway: nodes of another branch, labels of its own", "refused (403)", _node_of_another
    ),
    Attempt(
        "Gateway: a pod on a node of another branch",
        "refused (403)",
        _pod_elsewhere,
    ),
    Attempt(
        "Gateway: rights for an account in a namespace of another branch",
        "an account of its own is meant",
        _rights_for_another,
    ),
    Attempt(
        "Gateway: makes policies, webhooks, definitions, classes, volumes, nodes",
        "refused (403)",
        _kinds_of_the_host,
    ),
    Attempt(
        "Gateway: a Namespace with the claim of another branch",
        "dropped; its own claim stands there",
        _namespace_of_another,
    ),
    Attempt(
        "Gateway: binds pods, mints tokens, reaches pods, Services and nodes by proxy",
        "refused (403)",
        _ways_past_rights,
    ),
)
