"""What a server completes in kinds without a generation costs no PUT; what differs does.

The live objects are as kube-apiserver v1.34 answered (e2e/test_restart.py sees the same).
"""

import copy
from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules import apply_plan

CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "volumeMode": "Filesystem",
    "storageClassName": "standard",
}
ROWS: list[tuple[str, str, Object, Object]] = [
    # kind, manifest, as the server has it
    (
        *("v1", "PersistentVolumeClaim"),
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1024Mi"}},
            }
        },
        {"spec": CLAIM},
    ),
    ("v1", "Namespace", {}, {"spec": {"finalizers": ["kubernetes"]}}),
]
SERVED = pytest.mark.parametrize(
    ("api_version", "kind", "asked", "found"),
    ROWS,
    ids=[f"{row[1]}-{n}" for n, row in enumerate(ROWS)],
)


def made(api_version: str, kind: str, content: Object) -> Object:
    labels = {"karmada.io/managed": "true", "kubernetes.io/metadata.name": "x"}
    metadata = {"name": "x", "labels": labels, "annotations": {"a": "b"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **copy.deepcopy(content)}


@SERVED
def test_an_object_as_the_server_completed_it_is_kept(
    api_version: str, kind: str, asked: Object, found: Object
) -> None:
    live = made(api_version, kind, found)
    assert apply_plan.decide(made(api_version, kind, asked), live) is None


@pytest.mark.parametrize(
    "changed", [{"storageClassName": None}, {"volumeMode": "Block"}, {"volumeName": "other"}]
)
def test_what_a_put_would_change_of_a_claim_is_put(changed: Object) -> None:
    live, (asked, _) = made("v1", "PersistentVolumeClaim", {"spec": CLAIM | changed}), ROWS[0][2:]
    asked = {"spec": {**asked["spec"], "storageClassName": "standard"}}
    desired = made("v1", "PersistentVolumeClaim", asked)
    assert apply_plan.decide(desired, live) is not None


@pytest.mark.parametrize("value", [None, [], "text", 1, {"ports": 1, "type": []}, {"ports": [1]}])
@pytest.mark.parametrize("kind", sorted({(row[0], row[1]) for row in ROWS}))
def test_what_no_server_takes_is_left_to_it(kind: tuple[str, str], value: Any) -> None:
    """It answers with its own words."""
    odd = made(*kind, {"spec": value, "subjects": value, "stringData": value})
    live = made(*kind, {"spec": CLAIM})
    apply_plan.decide(odd, live)
