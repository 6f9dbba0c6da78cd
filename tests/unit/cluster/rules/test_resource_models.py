"""Sorting of nodes into grades."""

import msgspec
import pytest

from karmada_vc_agent.cluster.rules.cluster_objects import allocatable_modelings
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import Object

MAX = "9223372036854775807"

# Contract 1.2: the default grades.
_CPU = ["0", "1", "2", "4", "8", "16", "32", "64", "128", MAX]
_MEMORY = ["0", "4Gi", "16Gi", "32Gi", "64Gi", "128Gi", "256Gi", "512Gi", "1Ti", MAX]
DEFAULT_MODELS: list[Object] = [
    {
        "grade": grade,
        "ranges": [
            {"name": "cpu", "min": _CPU[grade], "max": _CPU[grade + 1]},
            {"name": "memory", "min": _MEMORY[grade], "max": _MEMORY[grade + 1]},
        ],
    }
    for grade in range(9)
]


def _node(name: str, cpu: str, memory: str, pods: str = "110") -> Node:
    return _decoded(name, {"cpu": cpu, "memory": memory, "pods": pods})


def _decoded(name: str, allocatable: Object) -> Node:
    return msgspec.convert(
        {"metadata": {"name": name}, "status": {"allocatable": allocatable}}, Node
    )


def _pod(name: str, node: str, cpu: str, memory: str = "0", phase: str = "Running") -> Pod:
    requests = {"cpu": cpu, "memory": memory}
    spec = {"nodeName": node, "containers": [{"resources": {"requests": requests}}]}
    obj = {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(obj, Pod)


def _counts(nodes: list[Node], pods: list[Pod]) -> list[int]:
    modelings = allocatable_modelings(DEFAULT_MODELS, nodes, pods)
    assert [modeling["grade"] for modeling in modelings] == list(range(9))
    return [modeling["count"] for modeling in modelings]


@pytest.mark.parametrize(
    ("cpu", "memory", "grade"),
    [
        ("1", "4Gi", 1),
        ("999m", "4Gi", 0),
        ("64", "4Gi", 1),
        ("1", "1Ti", 1),
        ("8", "64Gi", 4),
        ("8", "65535Mi", 3),
        ("200", "2Ti", 8),
        ("0", "0", 0),
    ],
)
def test_the_scarcest_resource_decides_the_grade(cpu: str, memory: str, grade: int) -> None:
    expected = [int(index == grade) for index in range(9)]
    assert _counts([_node("n", cpu, memory)], []) == expected


def test_requests_are_taken_off_before() -> None:
    node = _node("n", "4", "32Gi")
    assert _counts([node], [])[3] == 1
    assert _counts([node], [_pod("p", "n", "1m")])[2] == 1
    assert _counts([node], [_pod("p", "n", "1m", phase="Succeeded")])[3] == 1
    assert _counts([node], [_pod("p", "other", "1m")])[3] == 1


def test_init_containers_count_node_by_node() -> None:
    pod = _pod("p", "n", "1")
    pod.spec.init_containers += _pod("init", "n", "3").spec.containers
    assert _counts([_node("n", "4", "16Gi")], [pod])[1] == 1


def test_an_overbooked_node_has_no_grade() -> None:
    assert _counts([_node("n", "1", "4Gi")], [_pod("p", "n", "2")]) == [0] * 9


def test_a_full_node_is_skipped_and_the_others_count() -> None:
    nodes = [_node("a", "1", "4Gi", pods="1"), _node("b", "1", "4Gi")]
    assert _counts(nodes, [_pod("p", "a", "0")]) == [0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert _counts(nodes[::-1], [_pod("p", "a", "0")]) == [0, 1, 0, 0, 0, 0, 0, 0, 0]


def test_a_node_without_pod_slots_counts_while_it_has_no_pods() -> None:
    assert _counts([_node("n", "1", "4Gi", pods="0")], [])[1] == 1


def test_a_resource_that_a_node_lacks_is_zero() -> None:
    models: list[Object] = [
        {"grade": 0, "ranges": [{"name": "nvidia.com/gpu", "min": "0", "max": "1"}]},
        {"grade": 1, "ranges": [{"name": "nvidia.com/gpu", "min": "1", "max": MAX}]},
    ]
    with_gpu = _decoded("g", {"nvidia.com/gpu": "2"})
    nodes = [_node("n", "1", "4Gi"), with_gpu]
    assert allocatable_modelings(models, nodes, []) == [
        {"grade": 0, "count": 1},
        {"grade": 1, "count": 1},
    ]


def test_no_models_give_no_entries() -> None:
    assert allocatable_modelings([], [_node("n", "1", "4Gi")], []) == []
    assert allocatable_modelings([{"grade": 0, "ranges": []}], [_node("n", "1", "4Gi")], []) == []


def test_no_nodes_give_zeros() -> None:
    assert _counts([], []) == [0] * 9
