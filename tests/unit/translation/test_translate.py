"""Order of steps, step 8, claimed namespaces; properties of the whole trip."""

import gc
import json
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import Object, ObjectKey, copy_object, parse_api_version
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.translation.context import Draft, TranslationSettings
from karmada_vc_agent.translation.kind_policy import Code, Refusal
from karmada_vc_agent.translation.restore import assert_placement, restore
from karmada_vc_agent.translation.translate import (
    HostObject,
    claimed_namespace,
    translate,
)
from tests.unit.translation import given

D = "virtualcluster.kubeedge.io"
AROUND = given.context()


def deployment(spec: Object | None = None) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "edge"},
        "spec": {"template": {"spec": {} if spec is None else spec}},
    }


def pod(spec: Object | None = None) -> Object:
    metadata = {"name": "p", "namespace": "edge"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec or {}}


def namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}}


def kept(result: HostObject | Refusal) -> Object:
    assert isinstance(result, HostObject), result
    return result.obj


def test_keys_are_of_both_sides() -> None:
    gvk = parse_api_version("apps/v1", "Deployment")
    result = given.translated(deployment())
    assert result.virtual_key == ObjectKey(gvk, "edge", "web")
    assert result.host_key == ObjectKey(gvk, "edge-v-branch-a", "web")


def test_keys_of_a_namespace_are_of_both_sides() -> None:
    gvk = parse_api_version("v1", "Namespace")
    result = given.translated(namespace(), namespaced=False)
    assert result.virtual_key == ObjectKey(gvk, "", "edge")
    assert result.host_key == ObjectKey(gvk, "", "edge-v-branch-a")


def test_namespace_of_a_namespace_is_dropped() -> None:
    manifest = namespace()
    manifest["metadata"]["namespace"] = "edge"
    assert given.translated(manifest, namespaced=False).host_key.namespace == ""


def test_first_refusal_in_order_of_steps_is_returned() -> None:
    manifest = {**deployment({"nodeSelector": {"branch": "b"}}), "kind": "Deployment"}
    manifest["metadata"]["namespace"] = "kube-system"
    assert given.refusal(manifest).code is Code.NAMESPACE_FORBIDDEN
    manifest["apiVersion"], manifest["kind"] = "v1", "Event"
    assert given.refusal(manifest).code is Code.KIND_FORBIDDEN


def test_labels_do_not_reach_pod_templates() -> None:
    host = given.host_object(deployment({}))
    assert D not in json.dumps(host["spec"])


def test_no_empty_annotations_are_left() -> None:
    manifest = deployment()
    manifest["metadata"]["annotations"] = {"work.karmada.io/name": "w"}
    host = given.host_object(manifest, given.context(work=""))
    assert "annotations" not in host["metadata"]


def test_null_metadata_maps_are_allowed() -> None:
    manifest = deployment()
    manifest["metadata"] |= {"labels": None, "annotations": None}
    labels = given.host_object(manifest)["metadata"]["labels"]
    assert labels == {f"{D}/cluster": "branch-a", f"{D}/namespace": "edge"}


@pytest.mark.parametrize("value", ["", None])
def test_namespace_that_is_no_name_is_refused(value: Any) -> None:
    manifest = deployment()
    manifest["metadata"]["namespace"] = value
    assert given.refusal(manifest).code is Code.NAMESPACE_MISSING


def test_manifest_without_metadata_is_refused() -> None:
    refusal = given.refusal({"apiVersion": "v1", "kind": "ConfigMap"})
    assert refusal.code is Code.MANIFEST_INVALID
    assert refusal.detail == "metadata is not set"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"name": "../../ops/configmaps/prod"}, "metadata.name '../../ops/configmaps/prod'"),
        ({"name": ".."}, "metadata.name '..'"),
        ({"name": "x?dryRun=All"}, "metadata.name 'x?dryRun=All'"),
        ({"name": "a%2fb"}, "metadata.name 'a%2fb'"),
        ({"namespace": "../x"}, "metadata.namespace '../x'"),
        ({"namespace": 7}, "metadata.namespace 7"),
        ({"name": ["x"]}, "metadata.name ['x']"),
        ({"name": ""}, "metadata.name is not set"),
        ({"labels": "x"}, "metadata.labels is not a map of strings"),
        ({"annotations": {"a": 1}}, "metadata.annotations is not a map of strings"),
    ],
)
def test_frame_that_is_none_is_refused(change: dict[str, Any], detail: str) -> None:
    manifest = deployment()
    manifest["metadata"] |= change
    refusal = given.refusal(manifest)
    assert refusal.code is Code.MANIFEST_INVALID
    assert refusal.detail.startswith(detail)


@pytest.mark.parametrize("manifest", [None, [], "x", 7, True, {}, [{"kind": "ConfigMap"}]])
def test_manifest_that_is_no_object_is_refused(manifest: Any) -> None:
    assert given.refusal(manifest).code is Code.MANIFEST_INVALID


class TestClaimedNamespace:
    def test_carries_claim_and_selector(self) -> None:
        settings = TranslationSettings(agent_name="agent-1")
        vc = given.virtual_cluster(required={"z": "1", "branch": "a"})
        assert claimed_namespace(vc, VirtualNamespace("edge"), settings, "") == {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": "edge-v-branch-a",
                "labels": {
                    f"{D}/cluster": "branch-a",
                    f"{D}/namespace": "edge",
                    f"{D}/agent": "agent-1",
                },
                "annotations": {
                    f"{D}/created-by-agent": "true",
                    f"{D}/work": "",
                    "scheduler.alpha.kubernetes.io/node-selector": "branch=a,z=1",
                },
            },
        }

    def test_is_what_an_empty_namespace_manifest_becomes(self) -> None:
        work = "karmada-es-branch-a/edge-1"
        context = given.context(claims={}, work=work)
        host = given.host_object(namespace(), context, namespaced=False)
        made = claimed_namespace(context.vc, VirtualNamespace("edge"), context.settings, work)
        assert host == made


class TestAssertPlacement:
    def test_what_retain_left_alone_stays(self) -> None:
        result = given.translated(deployment())
        assert assert_placement(result.obj, result, None, AROUND) == result

    def test_selector_that_a_script_dropped_is_added_again(self) -> None:
        result = given.translated(deployment())
        retained = copy_object(result.obj)
        retained["spec"]["template"]["spec"] = {"replaced": True}
        before = copy_object(retained)
        obj = kept(assert_placement(retained, result, None, AROUND))
        assert obj["spec"]["template"]["spec"] == {
            "replaced": True,
            "nodeSelector": {"branch": "a"},
        }
        assert retained == before

    def test_selector_that_a_script_changed_is_refused(self) -> None:
        result = given.translated(deployment())
        retained = copy_object(result.obj)
        retained["spec"]["template"]["spec"]["nodeSelector"] = {"branch": "b"}
        refusal = assert_placement(retained, result, None, AROUND)
        assert isinstance(refusal, Refusal)
        assert refusal.code is Code.NODE_SELECTOR_CONFLICT

    @pytest.mark.parametrize(
        ("field", "value"), [("namespace", "kube-system"), ("name", "x"), ("namespace", None)]
    )
    def test_object_that_a_script_moved_is_refused(self, field: str, value: Any) -> None:
        result = given.translated(deployment())
        retained = copy_object(result.obj)
        retained["metadata"][field] = value
        refusal = assert_placement(retained, result, None, AROUND)
        assert isinstance(refusal, Refusal)
        assert refusal.code is Code.NAMESPACE_FORBIDDEN

    def test_our_keys_that_a_script_changed_are_set_again(self) -> None:
        result = given.translated(deployment())
        retained = copy_object(result.obj)
        retained["metadata"]["labels"] = {f"{D}/cluster": "branch-b", "other": "1"}
        del retained["metadata"]["annotations"]
        metadata = kept(assert_placement(retained, result, None, AROUND))["metadata"]
        assert metadata["labels"] == {**result.obj["metadata"]["labels"], "other": "1"}
        assert metadata["annotations"] == result.obj["metadata"]["annotations"]

    def test_pod_keeps_the_node_it_runs_on(self) -> None:
        result = given.translated(pod())
        live = {**result.obj, "spec": {"nodeName": "node-9", "nodeSelector": {"branch": "a"}}}
        retained = copy_object(result.obj)
        retained["spec"]["nodeName"] = "node-9"
        assert kept(assert_placement(retained, result, live, AROUND)) == retained

    def test_pod_gets_no_other_foreign_node(self) -> None:
        result = given.translated(pod())
        retained = copy_object(result.obj)
        retained["spec"]["nodeName"] = "node-9"
        for live in (None, result.obj, {"spec": {"nodeName": "node-8"}}):
            refusal = assert_placement(retained, result, live, AROUND)
            assert isinstance(refusal, Refusal)
            assert refusal.code is Code.NODE_NAME_FORBIDDEN

    def test_node_of_a_template_is_never_kept(self) -> None:
        result = given.translated(deployment())
        retained = copy_object(result.obj)
        retained["spec"]["template"]["spec"]["nodeName"] = "node-9"
        refusal = assert_placement(retained, result, retained, AROUND)
        assert isinstance(refusal, Refusal)

    def test_adopted_namespace_is_not_called_created(self) -> None:
        result = given.translated(namespace(), namespaced=False)
        live = copy_object(result.obj)
        del live["metadata"]["annotations"][f"{D}/created-by-agent"]
        live["metadata"]["annotations"][f"{D}/adopted"] = "true"
        annotations = kept(assert_placement(result.obj, result, live, AROUND))["metadata"][
            "annotations"
        ]
        assert annotations[f"{D}/adopted"] == "true"
        assert f"{D}/created-by-agent" not in annotations

    def test_selector_annotation_of_a_namespace_is_set_again(self) -> None:
        result = given.translated(namespace(), namespaced=False)
        retained = copy_object(result.obj)
        key = "scheduler.alpha.kubernetes.io/node-selector"
        retained["metadata"]["annotations"][key] = "branch=b"
        assert kept(assert_placement(retained, result, None, AROUND)) == result.obj


# Property tests: manifests put together from parts that the rules look at.

NAMESPACES = st.sampled_from(["edge", "ops", "a-v-b", "a--b", "x" * 40, "y" * 63, "legacy"])
CLUSTER_ROLES = st.sampled_from(["admin", "cluster-admin", "reader", "a-v-b", "z" * 200])
NODE_TERMS = st.sampled_from(
    [
        {"matchExpressions": [{"key": "branch", "operator": "In", "values": ["a", "b"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
        {},
    ]
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries({}, optional=dict(fields))


SELECTORS = optional(
    matchLabels=st.dictionaries(
        st.sampled_from(["kubernetes.io/metadata.name", "team", f"{D}/cluster"]), NAMESPACES
    ),
    matchExpressions=st.lists(
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(["kubernetes.io/metadata.name", "team"]),
                "operator": st.just("In"),
                "values": st.lists(NAMESPACES, max_size=2),
            }
        ),
        max_size=2,
    ),
)
POD_SPECS = optional(
    nodeSelector=st.sampled_from([{}, {"disk": "ssd"}, {"branch": "a"}]),
    nodeName=st.sampled_from(["node-1", "node-2"]),
    tolerations=st.lists(st.sampled_from([{"key": "edge"}, {"operator": "Exists"}]), max_size=2),
    affinity=optional(
        nodeAffinity=st.builds(
            lambda terms: {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            },
            st.lists(NODE_TERMS, min_size=1, max_size=3),
        ),
        podAffinity=st.builds(
            lambda namespaces, selector: {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"namespaces": namespaces, "namespaceSelector": selector}
                ]
            },
            st.lists(NAMESPACES, max_size=3),
            SELECTORS,
        ),
    ),
)
SUBJECTS = st.one_of(
    st.builds(lambda ns: {"kind": "ServiceAccount", "name": "s", "namespace": ns}, NAMESPACES),
    st.builds(
        lambda ns: {"kind": "User", "name": f"system:serviceaccount:{ns}:s"},
        NAMESPACES,
    ),
    st.builds(
        lambda ns: {"kind": "Group", "name": f"system:serviceaccounts:{ns}"},
        NAMESPACES,
    ),
    st.sampled_from(
        [
            {"kind": "User", "name": "vc:branch-a:x"},
            {"kind": "User", "name": "system:serviceaccount:x"},
            {"kind": "Group", "name": "vc:branch-a"},
            {"kind": "Group", "name": "system:authenticated"},
        ]
    ),
)


def _object(api_version: str, kind: str, **fields: Any) -> st.SearchStrategy[Object]:
    parts = {key: part for key, part in fields.items() if isinstance(part, st.SearchStrategy)}
    metadata = st.builds(
        lambda namespace, labels: {"name": "x", "namespace": namespace, "labels": labels},
        NAMESPACES,
        st.sampled_from([None, {}, {"a": "b"}, {f"{D}/cluster": "c"}]),
    )
    return st.fixed_dictionaries(
        {"apiVersion": st.just(api_version), "kind": st.just(kind), "metadata": metadata, **parts}
    )


MANIFESTS = st.one_of(
    _object("v1", "Pod", spec=POD_SPECS),
    _object(
        "apps/v1", "Deployment", spec=st.builds(lambda s: {"template": {"spec": s}}, POD_SPECS)
    ),
    _object(
        "v1",
        "PersistentVolumeClaim",
        spec=optional(
            volumeName=CLUSTER_ROLES,
            dataSourceRef=st.builds(lambda ns: {"namespace": ns}, NAMESPACES),
        ),
    ),
    _object(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        spec=st.builds(lambda s: {"ingress": [{"from": [{"namespaceSelector": s}]}]}, SELECTORS),
    ),
    _object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        subjects=st.lists(SUBJECTS, max_size=4),
        roleRef=st.builds(lambda name: {"kind": "ClusterRole", "name": name}, CLUSTER_ROLES),
    ),
    _object(
        "v1",
        "Service",
        spec=optional(
            clusterIP=st.sampled_from(["None", "", "10.0.0.1"]),
            externalName=st.builds(lambda ns: f"db.{ns}.svc.cluster.local", NAMESPACES),
        ),
    ),
)
ARRANGEMENTS = st.sampled_from(
    [
        given.context(),
        given.context(claims={}, work=""),
        given.context(claims={"edge": "legacy", "legacy": "ops-v-branch-a", "y" * 63: "long"}),
        given.context(
            vc={"offline_tolerations": True, "tolerations": [{"key": "edge"}]},
            settings={"namespace_template": "{cluster}-{namespace}"},
        ),
    ]
)


def references_in(obj: Any) -> list[str]:
    """Return every name that the rules map, in order of its place."""
    if isinstance(obj, list):
        return [name for each in obj for name in references_in(each)]
    if not isinstance(obj, dict):
        return []
    found = []
    for key, value in sorted(obj.items()):
        if key in ("namespace", "volumeName", "externalName"):
            found.append(value)
        elif key == "namespaces" or (
            key == "values" and obj.get("key") == "kubernetes.io/metadata.name"
        ):
            found += value
        elif key == "kubernetes.io/metadata.name" or (key == "name" and "kind" in obj):
            found.append(value)
        else:
            found += references_in(value)
    return found


@settings(deadline=None)
@for_all(MANIFESTS, ARRANGEMENTS)
def test_translation_is_pure_and_idempotent_over_restore(manifest: Object, context: Any) -> None:
    before = copy_object(manifest)
    first = translate(manifest, True, context)
    second = translate(manifest, True, context)
    assert manifest == before
    assert first == second
    if isinstance(first, Refusal):
        return
    assert isinstance(first, HostObject)
    assert isinstance(second, HostObject)
    assert json.dumps(first.obj) == json.dumps(second.obj)
    restored = restore(first.obj, context)
    again = translate(restored, True, context)
    assert isinstance(again, HostObject)
    assert again.obj == first.obj


@settings(deadline=None)
@for_all(MANIFESTS, ARRANGEMENTS)
def test_restore_gives_back_every_mapped_name(manifest: Object, context: Any) -> None:
    result = translate(manifest, True, context)
    if isinstance(result, HostObject):
        restored = restore(result.obj, context)
        assert references_in(restored) == references_in(manifest)
        assert not any(D in key for key in restored["metadata"].get("labels", {}))


def test_translated_manifest_is_freed_at_once() -> None:
    """A circle of references would keep large ones in memory until a collection."""
    gc.collect()
    gc.disable()
    try:
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "m", "namespace": "edge"},
            "data": {"key": "value"},
        }
        before = sum(isinstance(each, Draft) for each in gc.get_objects())
        assert isinstance(translate(manifest, True, AROUND), HostObject)
        assert sum(isinstance(each, Draft) for each in gc.get_objects()) == before
    finally:
        gc.enable()
