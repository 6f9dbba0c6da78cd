"""G-31, G-32, G-35: bodies go through the rules of Works."""

import copy
from typing import Any

import pytest

from karmada_vc_agent.features.gateway.mapping.responses import Forward
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, dig
from tests.fakes.gateway_view import FakeView, asked, forwarded, refused, sent, two_branches

EDGE = "/api/v1/namespaces/edge"
DEPLOYMENTS = "/apis/apps/v1/namespaces/edge/deployments"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/edge/networkpolicies"
MARKS = {vocabulary.CLUSTER_LABEL: "branch-a", vocabulary.NAMESPACE_LABEL: "edge"}
MARKS_OF_ALL = {vocabulary.CLUSTER_LABEL: "branch-a"}
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
def branch() -> FakeView:
    return two_branches()[0]


def deployment(**pod_spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "edge"},
        "spec": {"template": {"spec": pod_spec}},
    }


def test_what_is_created_is_translated(branch: FakeView) -> None:
    planned = forwarded(branch, "POST", DEPLOYMENTS, deployment(nodeSelector={"disk": "ssd"}))
    assert planned.path == "/apis/apps/v1/namespaces/edge-v-branch-a/deployments"
    assert planned.content_type == "application/json"
    found = sent(planned)
    assert found["metadata"] == {"name": "web", "namespace": "edge-v-branch-a", "labels": MARKS}
    assert found["spec"]["template"]["spec"]["nodeSelector"] == {"branch": "a", "disk": "ssd"}


def test_what_the_host_would_fill_in_may_be_missing(branch: FakeView) -> None:
    """Kind, namespace, and the name that is generated."""
    body = {"metadata": {"generateName": "web-"}, "data": {"a": "b"}}
    found = sent(forwarded(branch, "POST", f"{EDGE}/configmaps", body))
    assert found == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"generateName": "web-", "namespace": "edge-v-branch-a", "labels": MARKS},
        "data": {"a": "b"},
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"metadata": {"name": "x", "namespace": "shop"}}, 400),
        ({"metadata": {"name": "x", "namespace": "edge-v-branch-a"}}, 400),
        ({"kind": "Pod", "metadata": {"name": "x"}}, 400),
        ({"apiVersion": "v2", "metadata": {"name": "x"}}, 400),
        ({"metadata": []}, 400),
        ([], 400),
        (b"{", 400),
        (b"\xff", 400),
        (b"", 400),
        (b"[" * 100_000, 400),
        ({"metadata": {"name": "../x"}}, 422),
        ({"metadata": {"name": "x", "labels": {"a": 1}}}, 422),
    ],
)
def test_a_body_that_is_not_right_is_refused(branch: FakeView, body: Any, code: int) -> None:
    assert refused(branch, "POST", f"{EDGE}/configmaps", body).code == code


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason"),
    [
        (
            "POST",
            DEPLOYMENTS,
            deployment(nodeSelector={"branch": "b"}),
            403,
            "NodeSelectorConflict",
        ),
        ("PUT", f"{DEPLOYMENTS}/web", deployment(nodeName="node-2"), 403, "NodeNameForbidden"),
        ("POST", f"{EDGE}/events", {"metadata": {"name": "x"}}, 403, "KindForbidden"),
        (
            "POST",
            BINDINGS,
            {
                "metadata": {"name": "vc:crb:x"},
                "roleRef": {"kind": "Role", "name": "x"},
            },
            403,
            "NameReserved",
        ),
    ],
)
def test_a_refusal_has_the_code_and_text_of_works(
    branch: FakeView, method: str, path: str, body: Object, code: int, reason: str
) -> None:
    found = refused(branch, method, path, body)
    assert found.code == code
    assert found.details is not None
    assert found.details["causes"][0]["reason"] == reason
    assert found.message.startswith('virtual cluster "branch-a" refused ')
    assert "-v-" not in str(found.status())


def test_a_secret_that_the_host_would_fill_is_refused(branch: FakeView) -> None:
    secret = {"metadata": {"name": "t"}, "type": "kubernetes.io/service-account-token"}
    for found in (
        refused(branch, "POST", f"{EDGE}/secrets", secret),
        refused(branch, "PATCH", f"{EDGE}/secrets/t", secret, content_type=APPLY),
    ):
        assert found.code == 403
        assert found.message.endswith("forbidden: its credentials would be those of the host")


def test_a_replaced_object_keeps_what_its_controllers_set(branch: FakeView) -> None:
    """What was read is written back: owner, version, status, node; and the Work it is of."""
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "1"}
    read = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "namespace": "edge",
            "uid": "2",
            "resourceVersion": "3",
            "ownerReferences": [owner],
            "finalizers": ["a/b"],
            "annotations": {
                "work.karmada.io/name": "w",
                "work.karmada.io/namespace": "karmada-es-branch-a",
            },
        },
        "spec": {"nodeName": "node-1", "nodeSelector": {"branch": "a"}, "containers": []},
        "status": {"phase": "Running"},
    }
    found = sent(forwarded(branch, "PUT", f"{EDGE}/pods/web", read))
    metadata = found["metadata"]
    assert metadata["ownerReferences"] == [owner]
    assert (metadata["uid"], metadata["resourceVersion"]) == ("2", "3")
    assert metadata["finalizers"] == ["a/b"]
    assert metadata["annotations"] == {vocabulary.WORK_ANNOTATION: "karmada-es-branch-a/w"}
    assert found["spec"]["nodeName"] == "node-1"
    assert "affinity" not in found["spec"]
    assert found["status"] == {"phase": "Running"}


@pytest.mark.parametrize(("method", "form"), [("PUT", "application/json"), ("PATCH", APPLY)])
def test_what_is_written_back_names_own_nodes(branch: FakeView, method: str, form: str) -> None:
    """An object that is applied may not be there: its node would be chosen by the tenant."""
    pod = {"metadata": {"name": "web"}, "spec": {"nodeName": "node-2", "containers": []}}
    found = refused(branch, method, f"{EDGE}/pods/web", pod, content_type=form)
    assert found.details is not None
    assert found.details["causes"][0]["reason"] == "NodeNameForbidden"
    selected = "volume.kubernetes.io/selected-node"
    for node, kept in (("node-1", {selected: "node-1"}), ("node-2", None)):
        claim = {"metadata": {"name": "data", "annotations": {selected: node}}}
        path = f"{EDGE}/persistentvolumeclaims/data"
        written = sent(forwarded(branch, method, path, claim, content_type=form))
        assert written["metadata"].get("annotations") == kept


APPLICATIONS = "/apis/argoproj.io/v1alpha1/namespaces/edge/applications"
HERE = "https://kubernetes.default.svc"


@pytest.mark.parametrize(
    "destination",
    [{"server": HERE}, {"name": "in-cluster"}, {"server": None, "name": "in-cluster"}],
)
def test_a_destination_moves_with_its_namespace_only(branch: FakeView, destination: Any) -> None:
    """That of another cluster is not mapped, and would be a namespace of the host then."""
    path = f"{APPLICATIONS}/web"
    body = {"spec": {"destination": destination}}
    assert refused(branch, "PATCH", path, body, content_type=MERGE).code == 422
    operations = [
        {"op": "add", "path": f"/spec/destination/{key}", "value": value}
        for key, value in destination.items()
    ]
    assert refused(branch, "PATCH", path, operations, content_type=JSON_PATCH).code == 422
    whole = {"spec": {"destination": {**destination, "namespace": "edge"}}}
    found = sent(forwarded(branch, "PATCH", path, whole, content_type=MERGE))
    assert found["spec"]["destination"]["namespace"] == "edge-v-branch-a"


def test_no_one_claims_the_work_of_a_neighbour(branch: FakeView) -> None:
    annotations = {
        "work.karmada.io/name": "w",
        "work.karmada.io/namespace": "karmada-es-branch-b",
        vocabulary.WORK_ANNOTATION: "karmada-es-branch-b/w",
    }
    body = {"metadata": {"name": "x", "annotations": annotations}}
    found = sent(forwarded(branch, "POST", f"{EDGE}/configmaps", body))
    assert "annotations" not in found["metadata"]


PARTS = [
    # G-32: what touches a template gets the selector, and nothing else that was not sent.
    ({"spec": {"replicas": 2}}, {"spec": {"replicas": 2}}),
    (
        {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}},
        {
            "spec": {
                "template": {
                    "spec": {
                        "containers": [{"name": "a", "image": "b"}],
                        "nodeSelector": {"branch": "a"},
                    }
                }
            }
        },
    ),
    (
        {"spec": {"template": {"spec": {"nodeSelector": None}}}},
        {"spec": {"template": {"spec": {"nodeSelector": {"branch": "a"}}}}},
    ),
    (
        {"spec": {"template": {"spec": {"nodeSelector": {"disk": None}}}}},
        {"spec": {"template": {"spec": {"nodeSelector": {"disk": None, "branch": "a"}}}}},
    ),
    (
        {"spec": {"template": {"spec": {"tolerations": []}}}},
        {
            "spec": {
                "template": {
                    "spec": {"tolerations": [{"key": "x"}], "nodeSelector": {"branch": "a"}}
                }
            }
        },
    ),
    (
        {"spec": {"template": {"spec": {"nodeName": "node-1"}}}},
        {
            "spec": {
                "template": {
                    "spec": {
                        "nodeSelector": {"branch": "a"},
                        "affinity": {
                            "nodeAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": {
                                    "nodeSelectorTerms": [
                                        {
                                            "matchFields": [
                                                {
                                                    "key": "metadata.name",
                                                    "operator": "In",
                                                    "values": ["node-1"],
                                                }
                                            ]
                                        }
                                    ]
                                }
                            }
                        },
                    }
                }
            }
        },
    ),
    (
        {"metadata": {"labels": {"a": "b", "c": None}, "annotations": {"d": None}}},
        {"metadata": {"labels": {"a": "b", "c": None}, "annotations": {"d": None}}},
    ),
    (
        {
            "metadata": {
                "labels": {vocabulary.CLUSTER_LABEL: "branch-b", vocabulary.AGENT_LABEL: None}
            }
        },
        {"metadata": {}},
    ),
    (
        {"metadata": {"resourceVersion": "7", "finalizers": None}},
        {"metadata": {"resourceVersion": "7", "finalizers": None}},
    ),
    (
        {"kind": "Deployment", "metadata": {"name": "web", "namespace": "edge"}},
        {"kind": "Deployment", "metadata": {"name": "web", "namespace": "edge-v-branch-a"}},
    ),
]


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
@pytest.mark.parametrize(("patch", "expected"), PARTS)
def test_a_patch_is_translated(kind: str, patch: Object, expected: Object) -> None:
    branch, _ = two_branches()
    branch.vc_fields = {"tolerations": ({"key": "x"},), "service_names": "SearchDomain"}
    before = copy.deepcopy(patch)
    planned = forwarded(branch, "PATCH", f"{DEPLOYMENTS}/web", patch, content_type=kind)
    assert planned.content_type == kind
    assert sent(planned) == expected
    assert patch == before


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"template": {"spec": {"nodeSelector": {"branch": "b"}}}}},
        {"spec": {"template": {"spec": {"nodeSelector": {"branch": None}}}}},
        {"spec": {"template": {"spec": {"nodeName": "node-2"}}}},
    ],
)
def test_a_patch_that_leads_elsewhere_is_refused(branch: FakeView, patch: Object) -> None:
    """G-32."""
    for kind in (MERGE, STRATEGIC):
        found = refused(branch, "PATCH", f"{DEPLOYMENTS}/web", patch, content_type=kind)
        assert found.code == 403


@pytest.mark.parametrize(
    "selector",
    [{"$patch": "delete"}, {"$patch": "delete", "disk": "ssd"}, {"$retainKeys": ["disk"]}],
)
def test_a_directive_that_drops_the_selector_is_refused(branch: FakeView, selector: Object) -> None:
    """G-32."""
    patch = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
    found = refused(branch, "PATCH", f"{DEPLOYMENTS}/web", patch, content_type=STRATEGIC)
    assert (found.code, found.reason) == (422, "Invalid")


def test_labels_that_are_replaced_keep_our_marks(branch: FakeView) -> None:
    patch = {"metadata": {"labels": {"$patch": "replace", "a": "b"}}}
    found = sent(forwarded(branch, "PATCH", f"{DEPLOYMENTS}/web", patch, content_type=STRATEGIC))
    assert found == {"metadata": {"labels": {"$patch": "replace", "a": "b", **MARKS}}}


def test_a_patched_selector_stays_in_the_cluster(branch: FakeView) -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}
    patch = {"spec": {"ingress": [{"from": [{"namespaceSelector": selector}]}]}}
    found = sent(forwarded(branch, "PATCH", f"{POLICIES}/x", patch, content_type=MERGE))
    mapped = found["spec"]["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"]
    assert mapped == {
        "kubernetes.io/metadata.name": "shop-v-branch-a",
        vocabulary.CLUSTER_LABEL: "branch-a",
    }


TEMPLATE = "/spec/template/spec"
JSON_PATCHED = [
    # path of the collection, operation, the merge patch of the host; None: 422.
    (DEPLOYMENTS, ("replace", "/spec/replicas", 2), {"spec": {"replicas": 2}}),
    (DEPLOYMENTS, ("add", "/metadata/labels/a~1b", "c"), {"metadata": {"labels": {"a/b": "c"}}}),
    (DEPLOYMENTS, ("add", "/metadata/labels/00", "c"), {"metadata": {"labels": {"00": "c"}}}),
    (DEPLOYMENTS, ("remove", "/metadata/labels/a"), {"metadata": {"labels": {"a": None}}}),
    (DEPLOYMENTS, ("remove", "/metadata/finalizers"), {"metadata": {"finalizers": None}}),
    (f"{EDGE}/configmaps", ("add", "/data/a", "b"), {"data": {"a": "b"}}),
    (
        BINDINGS,
        ("replace", "/subjects", [{"kind": "User", "name": "bob"}]),
        {"subjects": [{"kind": "User", "name": "vc:branch-a:bob"}]},
    ),
    (
        POLICIES,
        ("replace", "/spec/ingress", [{"from": [{"namespaceSelector": {}}]}]),
        {"spec": {"ingress": [{"from": [{"namespaceSelector": {"matchLabels": MARKS_OF_ALL}}]}]}},
    ),
    (DEPLOYMENTS, ("add", f"{TEMPLATE}/nodeName", "node-2"), None),
    (DEPLOYMENTS, ("replace", "/spec", {}), None),
    (POLICIES, ("add", "/spec/ingress/-1", 1), None),
    (POLICIES, ("add", "/spec/ingress/+0/from", [{"namespaceSelector": {}}]), None),
]


def operation(kind: str, path: str, *value: Any) -> Object:
    return {"op": kind, "path": path} | ({"value": value[0]} if value else {})


@pytest.mark.parametrize(("path", "patch", "expected"), JSON_PATCHED)
def test_a_json_patch_is_sent_as_a_merge_patch(path: str, patch: Any, expected: Any) -> None:
    """G-32."""
    branch, _ = two_branches()
    body = [operation(*patch)]
    planned = asked(branch, "PATCH", f"{path}/web", body, content_type=JSON_PATCH)
    if expected is None:
        assert getattr(planned, "code", None) in (403, 422), planned
        assert "-v-" not in str(planned)
    else:
        found = forwarded(branch, "PATCH", f"{path}/web", body, content_type=JSON_PATCH)
        assert found.content_type == MERGE
        assert sent(found) == expected


JSON_KEPT = [
    # path of the collection, operation that only a JSON patch says, its value there; None: 422
    (DEPLOYMENTS, ("replace", f"{TEMPLATE}/containers/0/image", "b"), ...),
    (DEPLOYMENTS, ("add", f"{TEMPLATE}/containers/0/env/-", {"name": "a", "value": "b"}), ...),
    (DEPLOYMENTS, ("remove", f"{TEMPLATE}/containers/1"), ...),
    (DEPLOYMENTS, ("add", f"{TEMPLATE}/tolerations/-", {"key": "y"}), ...),
    (f"{EDGE}/pods", ("replace", "/spec/containers/0/image", "b"), ...),
    (DEPLOYMENTS, ("test", "/metadata/resourceVersion", "1"), ...),
    (DEPLOYMENTS, ("add", "/metadata/finalizers/-", "a/b"), ...),
    (DEPLOYMENTS, ("remove", "/metadata/finalizers/0"), ...),
    (DEPLOYMENTS, ("test", "/status/conditions/0/type", "x"), ...),
    (DEPLOYMENTS, ("add", "/metadata/labels", {"a": "b"}), {"a": "b", **MARKS}),
    (POLICIES, ("remove", "/spec/ingress/0"), ...),
    (
        BINDINGS,
        ("add", "/subjects/-", {"kind": "User", "name": "bob"}),
        {"kind": "User", "name": "vc:branch-a:bob"},
    ),
    (
        POLICIES,
        ("add", "/spec/ingress/0/from/-", {"namespaceSelector": {}}),
        {"namespaceSelector": {"matchLabels": MARKS_OF_ALL}},
    ),
    (BINDINGS, ("add", "/subjects/-", {"kind": "Group", "name": "system:serviceaccounts"}), None),
    (f"{EDGE}/configmaps", ("test", "/data/0", "x"), ...),
    (f"{EDGE}/services", ("replace", "/spec/ports/0/port", 80), ...),
    (DEPLOYMENTS, ("test", f"{TEMPLATE}/nodeName", "node-2"), None),
    (DEPLOYMENTS, ("replace", f"{TEMPLATE}/nodeSelector", {}), None),
    (DEPLOYMENTS, ("add", f"{TEMPLATE}/affinity", {}), None),
    (DEPLOYMENTS, ("remove", f"{TEMPLATE}/affinity/podAffinity/0"), None),
    (DEPLOYMENTS, ("replace", TEMPLATE, {}), None),
    (DEPLOYMENTS, ("replace", "/spec", {}), None),
    (DEPLOYMENTS, ("replace", "/metadata", {}), None),
    (DEPLOYMENTS, ("test", "/metadata/namespace", "edge-v-branch-a"), None),
    (DEPLOYMENTS, ("copy", "/spec/x"), None),
    (DEPLOYMENTS, ("move", "/spec/x"), None),
    (DEPLOYMENTS, ("test", f"/metadata/labels/{vocabulary.CLUSTER_LABEL}", "x"), None),
    (
        DEPLOYMENTS,
        ("add", f"{TEMPLATE}/containers/-1/securityContext", {"privileged": True}),
        None,
    ),
    (BINDINGS, ("replace", "/subjects/0/name", "vc:branch-b:x"), None),
    (BINDINGS, ("replace", "/subjects/0/namespace", "shop"), None),
    (BINDINGS, ("add", "/subjects/00", {"kind": "User", "name": "vc:branch-b:x"}), None),
    (POLICIES, ("replace", "/spec/ingress/0/from/0/namespaceSelector/matchLabels", {}), None),
    (POLICIES, ("remove", "/spec/ingress/0/from/0/namespaceSelector/matchLabels"), None),
    (POLICIES, ("remove", "/spec/ingress/0/from/0/namespaceSelector"), None),
    ("/api/v1/namespaces", ("test", "/metadata/labels/a", "x"), None),
]


@pytest.mark.parametrize(("path", "patch", "expected"), JSON_KEPT)
def test_what_no_merge_patch_says_stays_a_json_patch(path: str, patch: Any, expected: Any) -> None:
    """G-32."""
    branch, _ = two_branches()
    branch.vc_fields = {"tolerations": ({"key": "x"},)}
    body, name = [operation(*patch)], "edge" if path.endswith("/namespaces") else "web"
    planned = asked(branch, "PATCH", f"{path}/{name}", body, content_type=JSON_PATCH)
    if expected is None:
        assert getattr(planned, "code", None) == 422, planned
        assert "-v-" not in str(planned).replace(str(body), "")
    else:
        found = forwarded(branch, "PATCH", f"{path}/{name}", body, content_type=JSON_PATCH)
        assert found.content_type == JSON_PATCH
        assert sent(found) == (body if expected is ... else [{**body[0], "value": expected}])


def test_the_guards_hold_for_entries_of_a_json_patch() -> None:
    branch, _ = two_branches()
    node = operation("add", f"{TEMPLATE}/containers/0/env/-", {"name": "a", "value": "b"})
    bound = operation("replace", f"{TEMPLATE}/nodeName", "node-2")
    path = f"{DEPLOYMENTS}/web"
    assert refused(branch, "PATCH", path, [node, bound], content_type=JSON_PATCH).code == 422


@pytest.mark.parametrize(
    "path",
    [
        f"{TEMPLATE}/nodeSelector",
        f"{TEMPLATE}/nodeSelector/branch",
        "/metadata/labels/virtualcluster.kubeedge.io~1cluster",
    ],
)
def test_a_json_patch_leaves_the_placement(branch: FakeView, path: str) -> None:
    body = [operation("remove", path)]
    planned = asked(branch, "PATCH", f"{DEPLOYMENTS}/web", body, content_type=JSON_PATCH)
    if isinstance(planned, Forward):
        found = sent(planned)
        assert dig(found, "metadata", "labels", vocabulary.CLUSTER_LABEL) is None
        template = dig(found, "spec", "template", "spec")
        assert template is None or template["nodeSelector"] == {"branch": "a"}
        assert vocabulary.CLUSTER_LABEL not in str(found)
    else:
        assert getattr(planned, "code", None) in (403, 422)


@pytest.mark.timeout(10)
def test_a_long_key_is_not_repeated_for_each_entry(branch: FakeView) -> None:
    body: Object = {"k" * 1_000_000: [{}] * 400_000}
    assert forwarded(branch, "PATCH", f"{DEPLOYMENTS}/web", body, content_type=STRATEGIC)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [1],
        [{"op": "add"}],
        [{"op": "add", "path": "x"}],
        b"[",
        [{"op": "add", "path": "/0" * 500_000}],
        [{"op": "add", "path": "/spec/ports/0/x", "value": 1}] * 501,
    ],
)
def test_what_is_no_json_patch_is_refused(branch: FakeView, body: Any) -> None:
    path = f"{DEPLOYMENTS}/web"
    assert refused(branch, "PATCH", path, body, content_type=JSON_PATCH).code == 400


def test_yaml_is_not_read_unless_it_is_json(branch: FakeView) -> None:
    """Clients of Kubernetes send JSON, also for a server-side apply."""
    path = f"{EDGE}/configmaps"
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
    assert refused(branch, "POST", path, text, content_type="application/yaml").code == 415
    assert refused(branch, "PATCH", f"{path}/x", text, content_type=APPLY).code == 400
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    apply = forwarded(branch, "PATCH", f"{path}/x", body, content_type=APPLY)
    assert apply.content_type == APPLY
    assert sent(apply)["metadata"]["namespace"] == "edge-v-branch-a"


def test_a_deletion_passes_its_options(branch: FakeView) -> None:
    """G-31: lists in bodies too."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
    assert sent(forwarded(branch, "DELETE", f"{EDGE}/pods/web", options)) == options
    assert sent(forwarded(branch, "DELETE", f"{EDGE}/pods", options)) == options
    assert forwarded(branch, "DELETE", f"{EDGE}/pods/web").body == b""


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{EDGE}/pods/web/eviction", {"metadata": {"name": "web", "namespace": "edge"}}),
        (
            "PUT",
            f"{DEPLOYMENTS}/web/scale",
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": "web", "namespace": "edge", "resourceVersion": "1"},
                "spec": {"replicas": 2},
            },
        ),
    ],
)
def test_a_subresource_with_a_kind_of_its_own_is_mapped(
    branch: FakeView, method: str, path: str, body: Object
) -> None:
    """G-35."""
    found = sent(forwarded(branch, method, path, body))
    metadata = {**body["metadata"], "namespace": "edge-v-branch-a"}
    assert found == {**body, "metadata": metadata}
    body["metadata"]["namespace"] = "shop"
    assert refused(branch, method, path, body).code == 400


def test_a_scale_is_patched(branch: FakeView) -> None:
    path = f"{DEPLOYMENTS}/web/scale"
    patch = {"spec": {"replicas": 3}}
    assert sent(forwarded(branch, "PATCH", path, patch, content_type=MERGE)) == patch
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    planned = forwarded(branch, "PATCH", path, operations, content_type=JSON_PATCH)
    assert sent(planned) == patch
    operations[0] |= {"path": "/metadata/namespace", "value": "shop"}
    assert refused(branch, "PATCH", path, operations, content_type=JSON_PATCH).code == 400


def test_a_status_is_written(branch: FakeView) -> None:
    """G-35."""
    body = deployment() | {"status": {"replicas": 1}}
    found = sent(forwarded(branch, "PUT", f"{DEPLOYMENTS}/web/status", body))
    assert found["status"] == {"replicas": 1}
    assert found["metadata"]["namespace"] == "edge-v-branch-a"


def test_a_pod_is_bound_to_own_nodes(branch: FakeView) -> None:
    """G-35."""
    path = f"{EDGE}/pods/web/binding"
    body = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "node-1"}}
    assert sent(forwarded(branch, "POST", path, body)) == body
    body["target"]["name"] = "node-2"
    assert refused(branch, "POST", path, body).code == 403


@pytest.mark.parametrize("levels", [100, 300, 900, 5000])
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("DELETE", "/pods/x", "application/json"),
        ("POST", "/pods/x/eviction", "application/json"),
        ("PATCH", "/deployments/x/scale", "application/merge-patch+json"),
    ],
)
def test_what_nests_too_deep_to_be_sent_on_is_400(
    method: str, path: str, kind: str, levels: int
) -> None:
    body = b'{"status":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"
    branch = two_branches()[0]
    group = "/apis/apps/v1" if "scale" in path else "/api/v1"
    found = asked(branch, method, f"{group}/namespaces/edge{path}", body, content_type=kind)
    assert getattr(found, "code", None) == (None if levels == 100 else 400)
