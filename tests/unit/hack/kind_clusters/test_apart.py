"""Real nodes and simulated ones are kept apart."""

from typing import Any

from kind_clusters import apart


def node(name: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": annotations or {}}}


def test_only_real_nodes_are_tainted() -> None:
    nodes = {"items": [node("real"), node("played", {"kwok.x-k8s.io/node": "fake"})]}
    (taint,) = apart.commands(nodes, {"items": []})
    assert taint == ("taint", "--overwrite", "node", "real", apart.TAINT)


def test_workloads_of_kind_stay_off_the_edge_before_nodes_are_tainted() -> None:
    proxy = {"kind": "DaemonSet", "metadata": {"name": "kube-proxy", "namespace": "kube-system"}}
    patch, rollout, taint = apart.commands({"items": [node("real")]}, {"items": [proxy]})
    assert patch[:4] == ("patch", "-n", "kube-system", "daemonset/kube-proxy")
    assert apart.EDGE in patch[-1]
    assert rollout[:2] == ("rollout", "status")
    assert taint[0] == "taint"
