"""What an object of the hub must look like to be read; neighbours are read all the same."""

from typing import Any

import orjson
import pytest

from karmada_vc_agent.cluster.hub_clusters import ClusterCodec
from karmada_vc_agent.interpretation import user_hooks
from karmada_vc_agent.interpretation.user_hooks import index_scripts
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.memory_bounds import WorkBounds, WorkCodec
from karmada_vc_agent.work.rules.ownership import namespaces_needed
from karmada_vc_agent.work.works import namespaces_used
from tests.fakes import objects

WORKS = WorkCodec(WorkBounds({}))


def listed(codec: RawCodec, *items: Object) -> tuple[list[str], list[str]]:
    """Return the names of the items that could be read, and why others could not."""
    page = codec.page(orjson.dumps({"metadata": {"resourceVersion": "7"}, "items": items}))
    names = [item["metadata"]["name"] for item in page.items]
    return names, [found.reason for found in page.unreadable]


@pytest.mark.parametrize(
    ("codec", "odd", "where"),
    [
        (WORKS, {"spec": []}, "$.spec"),
        (WORKS, {"spec": {"workload": {"manifests": {}}}}, "$.spec.workload.manifests"),
        (WORKS, {"status": {"conditions": ["x"]}}, "$.status.conditions[0]"),
        (WORKS, {"status": {"manifestStatuses": [{}]}}, "$.status.manifestStatuses[0]"),
        (ClusterCodec(), {"spec": {"taints": [7]}}, "$.spec.taints[0]"),
        (ClusterCodec(), {"status": {"conditions": [{"type": "Ready"}]}}, "conditions"),
    ],
)
def test_object_that_breaks_its_schema_is_reported_and_its_neighbours_are_read(
    codec: RawCodec, odd: Object, where: str
) -> None:
    one, two = (
        {"metadata": {"name": name, "namespace": "karmada-es-a"}} for name in ("one", "two")
    )
    names, (reason,) = listed(codec, one, {"metadata": {"name": "odd"}, **odd}, two)
    assert names == ["one", "two"]
    assert where in reason


def test_kind_that_is_no_text_is_named() -> None:
    assert listed(RawCodec(), {"kind": ["x"], "metadata": {"name": "odd"}}) == (
        [],
        ["Expected `str`, got `array` - at `$.kind`"],
    )


@pytest.mark.parametrize("namespace", [["x"], {"a": "b"}, 7, None])
def test_manifest_with_an_odd_namespace_does_not_hide_the_others(namespace: Any) -> None:
    odd = objects.config_map()
    odd["metadata"]["namespace"] = namespace
    work = objects.work(odd, objects.config_map(ns="shop"), "x", ["y"])  # type: ignore[arg-type]  # no objects
    assert list(namespaces_used(work)) == ["shop"]
    assert namespaces_needed([work]) == {"shop"}


@pytest.mark.parametrize("target", [[], "x", {"kind": ["x"]}, None])
def test_customization_with_an_odd_target_does_not_hide_the_others(target: Any) -> None:
    script = {"healthInterpretation": {"luaScript": "x"}}
    odd, good = (
        {"metadata": {"name": name}, "spec": {"target": target_, "customizations": script}}
        for name, target_ in (("a", target), ("b", {"apiVersion": "v1", "kind": "Pod"}))
    )
    assert "Pod" in {kind.kind for kind, _ in index_scripts([odd, good])}


def test_hook_with_an_odd_certificate_and_time_does_not_hide_the_others() -> None:
    client = {"url": "https://hook.example", "caBundle": "%é"}
    odd: Object = {"name": "odd", "clientConfig": client, "timeoutSeconds": -3}
    configuration = {"metadata": {"name": "c"}, "webhooks": [odd, {"name": "good"}]}
    hooks = {hook.uid: hook for hook in user_hooks.webhooks_of([configuration])}
    assert hooks.keys() == {"c/odd", "c/good"}
    assert hooks["c/odd"].timeout_s == user_hooks.LONGEST_TIMEOUT_S
