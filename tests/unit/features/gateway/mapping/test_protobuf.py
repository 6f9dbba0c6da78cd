"""G-43: protobuf is read into what JSON would have said, whole or not at all.

examples.json has each kind empty and with all fields, as Kubernetes' own code encodes it
(hack/update-protobuf); kubectl's bodies are seen by e2e/test_gateway_protobuf.py.
"""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.features.gateway.mapping import decoding
from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from tests.fakes.gateway_view import FakeView, forwarded, refused, sent, two_branches

PROTOBUF = "application/vnd.kubernetes.protobuf"


EXAMPLES = Path(__file__).parents[4] / "cases" / "protobuf" / "examples.json"


def varint(number: int) -> bytes:
    number %= 1 << 64
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def part(number: int, content: bytes | str | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def body(api_version: str, kind: str, raw: bytes, more: bytes = b"") -> bytes:
    return b"k8s\0" + part(1, part(1, api_version) + part(2, kind)) + part(2, raw) + more


METADATA = part(1, part(1, "settings") + part(3, ""))
DATA = part(2, part(1, "a") + part(2, "b"))


@pytest.fixture
def branch() -> FakeView:
    return two_branches()[0]


def test_object_is_what_json_would_have_said() -> None:
    found = decoding.decode_protobuf(body("v1", "ConfigMap", METADATA + DATA))
    wanted: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert found == wanted | {"metadata": {"name": "settings"}, "data": {"a": "b"}}


def test_parts_that_json_has_inline_are_inline() -> None:
    secret = part(1, part(1, "password")) + part(2, "key")
    env = part(7, part(1, "X") + part(3, part(4, secret)))
    pod = decoding.decode_protobuf(body("v1", "Pod", part(2, part(2, part(1, "app") + env))))
    (container,) = pod["spec"]["containers"]
    reference = {"secretKeyRef": {"name": "password", "key": "key"}}
    assert container["env"] == [{"name": "X", "valueFrom": reference}]


def test_all_fields_of_all_kinds_are_read_as_kubernetes_writes_them() -> None:
    examples = json.loads(EXAMPLES.read_text())
    kinds = decoding._fields().kinds
    assert {f"{obj['apiVersion']}/{obj['kind']}" for _, obj in examples} == {*kinds} - {
        "DeleteOptions"
    }
    for encoded, obj in examples:
        assert decoding.decode_protobuf(b64decode(encoded)) == without_nulls(obj), obj["kind"]


def without_nulls(value: Any) -> Any:
    """Return a value without what Kubernetes writes as null, which is nothing in protobuf."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def test_lists_that_are_messages_are_lists() -> None:
    extra = part(5, part(1, "scopes") + part(2, part(1, "x") + part(1, "y")))
    review = decoding.decode_protobuf(
        body("authorization.k8s.io/v1", "SubjectAccessReview", part(2, extra))
    )
    assert review["spec"]["extra"] == {"scopes": ["x", "y"]}


def test_numbers_may_be_below_zero_and_options_are_of_any_group() -> None:
    found = decoding.decode_protobuf(
        body("apps/v1", "DeleteOptions", part(1, -1) + part(4, "Orphan"))
    )
    assert (found["gracePeriodSeconds"], found["propagationPolicy"]) == (-1, "Orphan")


@pytest.mark.parametrize(
    ("sent_body", "why"),
    [
        (body("v1", "ConfigMap", part(99, "x")), "field 99 of ConfigMap is not listed"),
        (body("v1", "ConfigMap", part(1, part(99, 1))), "field 99 of ObjectMeta is not listed"),
        (body("v9", "ConfigMap", METADATA), "ConfigMap in v9 is not listed"),
        (body("example.com/v1", "Widget", b""), "Widget in example.com/v1 is not listed"),
        (body("v1", "ConfigMap", METADATA, part(3, "gzip")), "encoded once more"),
        (body("v1", "ConfigMap", METADATA, part(4, "application/json")), "encoded once more"),
        (body("v1", "ConfigMap", METADATA, part(5, "x")), "a field that is not listed"),
        (b"k8s\0" + part(1, part(1, "v1") + part(3, "x")), "a field that is not listed"),
        (
            body("v1", "ConfigMap", part(2, part(1, "a") + part(3, "b"))),
            "a field that is not listed",
        ),
    ],
)
def test_unknown_form_is_refused(sent_body: bytes, why: str) -> None:
    with pytest.raises(RefusalError, match=why):
        decoding.decode_protobuf(sent_body)


@pytest.mark.parametrize(
    "sent_body",
    [
        b"",
        b"{}",
        b"k8s\0\xff",
        body("v1", "ConfigMap", METADATA)[:-3],
        body("v1", "ConfigMap", METADATA + METADATA),  # decoders would join them, or take the last
        body("v1", "ConfigMap", part(1, part(1, "a") + part(1, "b"))),
        body("v1", "ConfigMap", part(1, part(3, b"edge\xff"))),
        body("v1", "ConfigMap", part(1, 7)),
        body("v1", "ConfigMap", part(4, "true")),
        body("v1", "ConfigMap", b"\x0b\x0c"),  # a group
        body("v1", "ConfigMap", b"\x20" + b"\xff" * 10),
        body("v1", "ConfigMap", METADATA) + part(2, DATA),
        body("v1", "ConfigMap", METADATA) + part(1, part(1, "v1") + part(2, "Secret")),
    ],
)
def test_what_is_not_valid_is_refused(sent_body: bytes) -> None:
    with pytest.raises(RefusalError):
        decoding.decode_protobuf(sent_body)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(content: bytes) -> None:
    for sent_body in (content, b"k8s\0" + content, body("v1", "Pod", content)):
        try:
            found = decoding.decode_protobuf(sent_body)
        except RefusalError:
            continue
        assert set(found) >= {"apiVersion", "kind"}


def test_every_type_of_a_field_can_be_read() -> None:
    fields = decoding._fields()
    for entries in fields.messages.values():
        for _, code, *_ in entries.values():
            inner = code.lstrip("[({")
            known = inner in fields.messages or inner in {**decoding._NUMBERS, **decoding._TEXTS}
            assert known, code
            assert not (code[0] == "{" and inner in decoding._NUMBERS), code


def test_a_body_meets_the_rules_of_json(branch: FakeView) -> None:
    spec = part(
        2, part(2, part(1, "app") + part(2, "nginx")) + part(7, part(1, "x") + part(2, "y"))
    )
    pod = body("v1", "Pod", part(1, part(1, "web")) + spec)
    path = "/api/v1/namespaces/edge/pods"
    found = sent(forwarded(branch, "POST", path, pod, content_type=PROTOBUF))
    assert found["metadata"]["namespace"] == "edge-v-branch-a"
    assert found == sent(forwarded(branch, "POST", path, decoding.decode_protobuf(pod)))
    assert found["spec"]["nodeSelector"].items() >= branch.vc.required_selector.items()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (body("v1", "ConfigMap", part(1, part(1, "x") + part(3, "other"))), 400),
        (body("v1", "Secret", METADATA), 400),
        (body("v1", "ConfigMap", part(99, "x")), 415),
        (b"k8s\0\xff", 400),
    ],
)
def test_a_body_is_refused_as_in_json(branch: FakeView, content: bytes, code: int) -> None:
    path = "/api/v1/namespaces/edge/configmaps"
    assert refused(branch, "POST", path, content, content_type=PROTOBUF).code == code
