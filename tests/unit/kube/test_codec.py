"""Codecs: pages and watch events as raw dicts and as structs."""

import orjson
import pytest

from karmada_vc_agent.kube.codec import Codec, RawCodec
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import Object

NODE: Object = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {
        "name": "n1",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"branch": "a"},
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {"podCIDR": "10.0.0.0/24"},
    "status": {
        "allocatable": {"cpu": "2"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "images": [{"names": ["a"]}],
    },
}


def page(items: list[Object], **metadata: str) -> bytes:
    return orjson.dumps(
        {
            "kind": "NodeList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "9", **metadata},
            "items": items,
        }
    )


def event(kind: str, obj: Object) -> bytes:
    return orjson.dumps({"type": kind, "object": obj})


def bare(obj: Object) -> Object:
    """Return an object as lists of built-in kinds hold it."""
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def test_raw_items_of_a_list_are_given_api_version_and_kind() -> None:
    found = RawCodec().page(page([bare(NODE)]))
    assert (found.items[0]["apiVersion"], found.items[0]["kind"]) == ("v1", "Node")
    assert found.resource_version == "9"


def test_raw_item_that_names_its_kind_keeps_it() -> None:
    item = {"apiVersion": "v1beta1", "kind": "Other", "metadata": {"name": "n1"}}
    assert RawCodec().page(page([item])).items == [item]


@pytest.mark.parametrize("codec", [RawCodec(), Codec(Node)])
@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({}, ""), ({"continue": ""}, ""), ({"continue": "token"}, "token")],
)
def test_continue_token_is_empty_on_the_last_page(
    codec: RawCodec | Codec[Node], metadata: dict[str, str], expected: str
) -> None:
    assert codec.page(page([bare(NODE)], **metadata)).continue_token == expected


def test_raw_list_whose_items_are_null_is_empty() -> None:
    assert RawCodec().page(b'{"kind":"NodeList","metadata":{},"items":null}').items == []


@pytest.mark.parametrize("codec", [RawCodec(), Codec(Node)])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_event_carries_object_key_and_version(codec: RawCodec | Codec[Node], kind: str) -> None:
    found = codec.event(event(kind, NODE))
    assert (found.type, found.resource_version) == (kind, "7")
    assert found.obj is not None
    assert codec.key(found.obj) == ("", "n1")  # type: ignore[arg-type]  # the codec's own object
    assert codec.uid(found.obj) == "u1"  # type: ignore[arg-type]  # same


@pytest.mark.parametrize("codec", [RawCodec(), Codec(Node)])
def test_bookmark_carries_a_version_only(codec: RawCodec | Codec[Node]) -> None:
    found = codec.event(event("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": "12"}}))
    assert (found.type, found.obj, found.resource_version) == ("BOOKMARK", None, "12")


@pytest.mark.parametrize("codec", [RawCodec(), Codec(Node)])
def test_error_event_carries_the_status(codec: RawCodec | Codec[Node]) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired"}
    found = codec.event(event("ERROR", status))
    assert (found.type, found.obj) == ("ERROR", None)
    assert orjson.loads(found.error) == status


def test_raw_objects_lose_managed_fields_from_lists_watches_and_answers() -> None:
    codec = RawCodec()
    from_list = codec.page(page([bare(NODE)])).items[0]
    from_watch = codec.event(event("ADDED", NODE)).obj
    from_answer = codec.trim(orjson.loads(orjson.dumps(NODE)))
    assert "managedFields" not in from_list["metadata"]
    assert from_list == from_watch == from_answer


def test_struct_keeps_what_is_used_of_a_node() -> None:
    node = Codec(Node).page(page([bare(NODE)])).items[0]
    assert node.metadata.labels == {"branch": "a"}
    assert node.status.allocatable == {"cpu": "2"}
    assert node.is_ready


def test_struct_of_a_pod_has_its_node_selector_requests_and_phase() -> None:
    raw = {
        "metadata": {"name": "p", "namespace": "edge", "deletionTimestamp": None},
        "spec": {
            "nodeName": "n1",
            "nodeSelector": {"branch": "a"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": 5}}}],
        },
        "status": {"phase": "Succeeded"},
    }
    codec = Codec(Pod)
    pod = codec.event(event("ADDED", raw)).obj
    assert pod is not None
    assert codec.key(pod) == ("edge", "p")
    assert (pod.spec.node_name, pod.spec.node_selector) == ("n1", {"branch": "a"})
    assert pod.spec.containers[0].resources.requests == {"cpu": "1", "memory": 5}
    assert pod.is_finished
