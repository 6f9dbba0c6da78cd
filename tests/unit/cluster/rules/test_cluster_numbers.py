"""The numbers of a Cluster status that are shown as metrics."""

from karmada_vc_agent.cluster.rules.cluster_objects import cluster_numbers

READY = [{"type": "Ready", "status": "True"}]


def test_numbers_are_in_bytes_cores_and_pieces() -> None:
    status = {
        "conditions": READY,
        "nodeSummary": {"totalNum": 3, "readyNum": 2},
        "resourceSummary": {
            "allocatable": {"cpu": "7500m", "memory": "16Gi", "pods": "330"},
            "allocated": {"cpu": "250m", "memory": "1500M", "pods": "4"},
        },
    }
    assert cluster_numbers(status) == {
        "cluster_ready_state": 1,
        "cluster_node_number": 3,
        "cluster_ready_node_number": 2,
        "cluster_cpu_allocatable_number": 7.5,
        "cluster_memory_allocatable_bytes": 16 * 2**30,
        "cluster_pod_allocatable_number": 330,
        "cluster_cpu_allocated_number": 0.25,
        "cluster_memory_allocated_bytes": 1_500_000_000,
        "cluster_pod_allocated_number": 4,
    }


def test_what_is_not_reported_has_no_number() -> None:
    assert cluster_numbers({}) == {"cluster_ready_state": 0}
    assert cluster_numbers({"conditions": READY}) == {"cluster_ready_state": 1}


def test_zeros_that_a_status_leaves_out_are_zeros() -> None:
    numbers = cluster_numbers({"nodeSummary": {}, "resourceSummary": {"allocatable": {"cpu": "2"}}})
    assert numbers["cluster_node_number"] == 0
    assert numbers["cluster_cpu_allocatable_number"] == 2
    assert numbers["cluster_memory_allocatable_bytes"] == 0
    assert numbers["cluster_pod_allocated_number"] == 0


def test_cluster_that_is_not_ready_is_zero() -> None:
    for status in ("False", "Unknown"):
        conditions = [{"type": "Ready", "status": status}]
        assert cluster_numbers({"conditions": conditions})["cluster_ready_state"] == 0
