"""HubClusters: which Clusters of the hub are ours."""

import uuid

import pytest

from karmada_vc_agent.cluster.hub_clusters import (
    ClusterCodec,
    HubClusters,
    cluster_id,
    cluster_store,
    digest,
)
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.world import HOST_UID

OWN = cluster_id(HOST_UID, "branch-a")


@pytest.fixture
def clusters() -> HubClusters:
    return HubClusters(cluster_store(), HOST_UID, ["branch-a", "branch-b"])


def put(clusters: HubClusters, obj: Object) -> None:
    metadata = {"uid": obj["metadata"]["name"], "resourceVersion": "1", **obj["metadata"]}
    clusters.store.apply({**obj, "metadata": metadata})


def test_id_is_stable_and_neither_the_host_uid_nor_anothers() -> None:
    assert cluster_id(HOST_UID, "branch-a") == str(uuid.uuid5(uuid.UUID(HOST_UID), "branch-a"))
    assert len({HOST_UID, OWN, cluster_id(HOST_UID, "branch-b")}) == 3


def test_cluster_with_name_and_id_is_ours(clusters: HubClusters) -> None:
    put(clusters, objects.cluster("branch-a", OWN))
    assert clusters.ours("branch-a") is not None
    assert clusters.conflicting_cluster("branch-a") is None
    assert clusters.ours("branch-b") is None


def test_cluster_with_our_name_only_is_a_namesake(clusters: HubClusters) -> None:
    put(clusters, objects.cluster("branch-a", "another"))
    assert clusters.ours("branch-a") is None
    found = clusters.conflicting_cluster("branch-a")
    assert found is not None
    assert found["metadata"]["name"] == "branch-a"


def test_cluster_with_our_id_only_is_a_double(clusters: HubClusters) -> None:
    put(clusters, objects.cluster("renamed", OWN))
    found = clusters.conflicting_cluster("branch-a")
    assert found is not None
    assert found["metadata"]["name"] == "renamed"


def test_clusters_of_others_are_neither(clusters: HubClusters) -> None:
    put(clusters, objects.cluster("member-1", "another"))
    assert clusters.conflicting_cluster("branch-a") is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [([], False), ([objects.ready("Unknown")], False), ([objects.ready("True")], True)],
)
def test_readiness_is_the_hubs_condition(
    clusters: HubClusters, conditions: list[Object], *, expected: bool
) -> None:
    put(clusters, objects.cluster("branch-a", OWN, conditions=conditions))
    assert clusters.is_ready("branch-a") is expected


def test_foreign_cluster_of_our_name_is_not_ready(clusters: HubClusters) -> None:
    put(clusters, objects.cluster("branch-a", "another", conditions=[objects.ready()]))
    assert not clusters.is_ready("branch-a")


def test_deletion_mark_and_creation_are_seen(clusters: HubClusters) -> None:
    assert not clusters.is_deleting("branch-a")
    assert clusters.created_at("branch-a") == ""
    obj = objects.cluster("branch-a", OWN)
    obj["metadata"] |= {
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
    }
    put(clusters, obj)
    assert clusters.is_deleting("branch-a")
    assert clusters.created_at("branch-a") == "2026-01-01T00:00:00Z"


def test_api_enablements_are_kept_as_a_digest_that_changes_with_them() -> None:
    def kept(enablements: list[Object]) -> str:
        obj = objects.cluster("branch-a", OWN)
        obj["status"] = {"apiEnablements": enablements}
        digested: str = ClusterCodec().trim(obj)["status"]["apiEnablements"]
        return digested

    one = [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}]
    assert kept(one) == digest(one)
    assert kept(one) != kept([{"groupVersion": "v1"}])


def test_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
