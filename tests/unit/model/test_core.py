"""Nodes and Pods as they are kept: what tenants and nodes fill them with does not count."""

from typing import Any

import msgspec
import orjson
import pytest

from karmada_vc_agent.model.core import OF_NODE, OF_POD, LabelledPod, Node, Pod
from karmada_vc_agent.model.objects import bytes_of

MANY = {f"k{number}": f"v{number}" for number in range(30_000)}
REQUESTS = {"resources": {"requests": MANY}}
KEPT = 2**20


def held(obj: Any) -> int:
    return bytes_of(msgspec.to_builtins(obj))


def decoded(kind: type[Any], **fields: Any) -> Any:
    return msgspec.json.decode(orjson.dumps({"metadata": {"name": "x"}} | fields), type=kind)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Pod, {"metadata": {"name": "x", "labels": MANY}}),
        (Pod, {"spec": {"nodeSelector": MANY}}),
        (Pod, {"spec": {"containers": [{}] * 30_000, "initContainers": [{}] * 30_000}}),
        (Pod, {"spec": {"containers": [REQUESTS], "initContainers": [REQUESTS]}}),
        (LabelledPod, {"metadata": {"name": "x", "labels": MANY}}),
        (Node, {"metadata": {"name": "x", "labels": MANY}}),
        (Node, {"status": {"allocatable": MANY}}),
        (Node, {"status": {"addresses": [{"address": key} for key in MANY]}}),
        (Node, {"status": {"conditions": [{"type": key, "status": "True"} for key in MANY]}}),
    ],
)
def test_of_many_entries_few_are_kept(kind: type[Any], fields: Any) -> None:
    assert held(fields) > 2 * KEPT
    assert held(decoded(kind, **fields)) < KEPT


def test_what_real_ones_have_is_kept() -> None:
    labels = dict(list(MANY.items())[:OF_NODE])
    assert decoded(Node, metadata={"labels": labels}).metadata.labels == labels
    selector = dict(list(MANY.items())[:OF_POD])
    containers = [{"resources": {"requests": {"cpu": "1"}}}] * OF_POD
    spec = decoded(Pod, spec={"nodeSelector": selector, "containers": containers}).spec
    assert spec.node_selector == selector
    assert len(spec.containers) == OF_POD
