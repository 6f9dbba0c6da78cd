"""Membership: nodes by virtual cluster, and who wins a node that several select."""

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from karmada_vc_agent.cluster.virtual_clusters import Membership, VirtualClusters
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.virtual_cluster import LabelSelector, Requirement, VirtualCluster

SITE = VirtualCluster("site", LabelSelector({"site": "one"}))
RACK = VirtualCluster("rack", LabelSelector({"rack": "two"}))
NAMED = VirtualCluster("named", node_names=("n9",))
BOTH = {"site": "one", "rack": "two"}


class Nodes:
    """A store of nodes, and who is told of what."""

    def __init__(self, created: Mapping[str, str] | None = None) -> None:
        self.store: Store[Node] = Store(Codec(Node))
        self.created = dict(created or {})
        self.virtual_clusters = VirtualClusters((SITE, RACK, NAMED))
        self.membership = Membership(
            self.virtual_clusters, self.store, lambda name: self.created.get(name, "")
        )
        self.told: list[str] = []
        self.membership.changed.subscribe(self.told.append)
        self._version = 0

    def put(self, name: str, labels: Mapping[str, str], ready: str = "True") -> None:
        self._version += 1
        version = str(self._version)
        obj = {
            "metadata": {"name": name, "uid": name, "resourceVersion": version, "labels": labels},
            "status": {
                "allocatable": {"cpu": "1"},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }
        self.store.apply(msgspec.convert(obj, Node))

    def remove(self, name: str) -> None:
        node = self.store.get("", name)
        assert node is not None
        self.store.remove(node)

    def names(self, cluster: str) -> list[str]:
        return [node.metadata.name for node in self.membership.nodes_of(cluster)]


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_nodes_belong_by_labels_and_by_name(nodes: Nodes) -> None:
    nodes.put("n2", {"site": "one"})
    nodes.put("n1", {"site": "one"})
    nodes.put("n3", {"site": "two"})
    nodes.put("n9", {})
    assert nodes.names("site") == ["n1", "n2"]
    assert nodes.names("named") == ["n9"]
    assert nodes.membership.owner_of("n3") is None
    assert nodes.membership.owner_of("unknown") is None


def test_node_moves_with_its_labels(nodes: Nodes) -> None:
    nodes.put("n1", {"site": "one"})
    nodes.put("n1", {"rack": "two"})
    assert nodes.names("site") == []
    assert nodes.names("rack") == ["n1"]
    assert nodes.told == ["site", "site", "rack"]


def test_deleted_node_belongs_to_no_one(nodes: Nodes) -> None:
    nodes.put("n1", {"site": "one"})
    nodes.remove("n1")
    assert nodes.names("site") == []
    assert nodes.membership.owner_of("n1") is None
    assert nodes.told == ["site", "site"]


def test_heartbeat_is_not_notified(nodes: Nodes) -> None:
    nodes.put("n1", {"site": "one"})
    nodes.told.clear()
    nodes.put("n1", {"site": "one"})
    assert nodes.told == []


def test_listener_that_fails_costs_no_other_one(nodes: Nodes) -> None:
    told: list[str] = []
    nodes.membership.changed.subscribe(lambda _: 1 / 0)
    nodes.membership.changed.subscribe(told.append)
    nodes.put("n1", {"site": "one"})
    assert told == nodes.told == ["site"]


def test_change_of_readiness_is_notified(nodes: Nodes) -> None:
    nodes.put("n1", {"site": "one"})
    nodes.told.clear()
    nodes.put("n1", {"site": "one"}, ready="False")
    assert nodes.told == ["site"]


@pytest.mark.parametrize(
    ("created", "owner"),
    [
        ({"site": "2026-01-01T00:00:00Z", "rack": "2026-01-02T00:00:00Z"}, "site"),
        ({"site": "2026-01-02T00:00:00Z", "rack": "2026-01-01T00:00:00Z"}, "rack"),
        ({"site": "2026-01-01T00:00:00Z", "rack": "2026-01-01T00:00:00Z"}, "rack"),
        ({"site": "2026-01-01T00:00:00Z"}, "site"),
        ({}, "rack"),
    ],
)
def test_shared_node_counts_for_the_older_cluster(created: dict[str, str], owner: str) -> None:
    nodes = Nodes(created)
    nodes.put("n1", BOTH)
    loser = "rack" if owner == "site" else "site"
    assert nodes.membership.owner_of("n1") == owner
    assert nodes.names(owner) == ["n1"]
    assert nodes.names(loser) == []
    assert nodes.membership.lost_node(loser) == "n1"
    assert nodes.membership.lost_node(owner) is None


def test_overlap_is_reported_to_both_with_the_other_name(nodes: Nodes) -> None:
    nodes.put("n1", BOTH)
    nodes.put("n2", {"site": "one"})
    assert nodes.membership.overlaps("site") == [("n1", "rack")]
    assert nodes.membership.overlaps("rack") == [("n1", "site")]
    assert nodes.membership.overlaps("named") == []


def test_overlap_ends_with_the_label(nodes: Nodes) -> None:
    nodes.put("n1", BOTH)
    nodes.told.clear()
    nodes.put("n1", {"site": "one"})
    assert nodes.membership.overlaps("site") == []
    assert nodes.membership.lost_node("site") is None
    assert sorted(nodes.told) == ["rack", "site"]


OTHER_SITE = VirtualCluster("site", LabelSelector({"site": "two"}))


def test_changed_selector_lets_nodes_go_and_takes_others(nodes: Nodes) -> None:
    nodes.put("n1", {"site": "one"})
    nodes.put("n2", {"site": "two"})
    nodes.told.clear()
    nodes.virtual_clusters.put(OTHER_SITE)
    assert nodes.names("site") == ["n2"]
    assert nodes.membership.owner_of("n1") is None
    assert nodes.told == ["site"]
    nodes.put("n3", {"site": "two"})
    assert nodes.names("site") == ["n2", "n3"]


def test_removed_virtual_cluster_leaves_its_nodes_to_others(nodes: Nodes) -> None:
    nodes.put("n1", BOTH)
    assert nodes.names("rack") == ["n1"]
    nodes.told.clear()
    nodes.virtual_clusters.replace_all([SITE, NAMED])
    assert nodes.names("site") == ["n1"]
    assert nodes.names("rack") == []
    assert nodes.membership.overlaps("site") == []
    assert set(nodes.told) == {"rack", "site"}


def test_added_virtual_cluster_finds_its_nodes_and_names_who_shares_them() -> None:
    nodes = Nodes({"site": "2026-01-01T00:00:00Z"})
    nodes.virtual_clusters.replace_all([SITE])
    nodes.put("n1", BOTH)
    nodes.told.clear()
    nodes.virtual_clusters.replace_all([SITE, RACK])
    assert nodes.names("site") == ["n1"]
    assert nodes.membership.overlaps("rack") == [("n1", "site")]
    assert set(nodes.told) == {"rack", "site"}


def test_change_of_other_settings_is_notified_and_checks_no_node(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.put("n1", {"site": "one"})
    nodes.told.clear()
    monkeypatch.setattr(Store, "__iter__", lambda _: pytest.fail("looks at all nodes"))
    nodes.virtual_clusters.put(replace(SITE, namespaces="OnDemand"))
    assert nodes.told == ["site"]
    assert nodes.names("site") == ["n1"]


def test_sharers_of_a_node_are_notified_where_seniority_may_differ() -> None:
    nodes = Nodes()
    nodes.put("n1", {"site": "one"})
    nodes.put("n2", BOTH)
    nodes.put("n9", {})
    nodes.told.clear()
    assert nodes.membership.reconsider() == ["n2"]
    assert sorted(nodes.told) == ["rack", "site"]
    nodes.put("n2", {"rack": "two"})
    nodes.told.clear()
    assert nodes.membership.reconsider() == []
    assert nodes.told == []


def test_each_way_to_select_is_found_among_others(nodes: Nodes) -> None:
    in_town = (Requirement("site", "In", frozenset(("one", "two"))),)
    others = (
        VirtualCluster("both", LabelSelector({"rack": "two"}), ("n9",)),
        VirtualCluster("either", LabelSelector(match_expressions=in_town)),
        VirtualCluster("exact", LabelSelector({"rack": "two"}, in_town)),
        VirtualCluster("none"),
    )
    nodes.put("n1", BOTH)
    nodes.virtual_clusters.replace_all((SITE, RACK, NAMED, *others))
    nodes.put("n2", {"site": "two"})
    nodes.put("n3", BOTH)
    nodes.put("n9", {})
    selecting = {
        name: [vc.name for vc in nodes.virtual_clusters.values() if vc.selects(name, labels)]
        for name, labels in {"n1": BOTH, "n2": {"site": "two"}, "n3": BOTH, "n9": {}}.items()
    }
    for name, expected in selecting.items():
        assert sorted(nodes.membership._claimants[name]) == sorted(expected)
    assert len(selecting["n3"]) == 5
    assert selecting["n9"] == ["named", "both"]


def test_new_nodes_are_compared_with_few_of_many_virtual_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 5,000 of both that was half a minute of CPU before anything was served."""
    many = [VirtualCluster(f"vc-{n}", LabelSelector({"site": str(n)})) for n in range(100)]
    store: Store[Node] = Store(Codec(Node))
    membership = Membership(VirtualClusters(many), store, lambda _: "")
    compared = []
    selects = VirtualCluster.selects

    def counted(vc: VirtualCluster, name: str, labels: Mapping[str, str]) -> bool:
        compared.append(name)
        return selects(vc, name, labels)

    monkeypatch.setattr(VirtualCluster, "selects", counted)
    for n in range(100):
        metadata = {"name": f"n-{n}", "uid": f"n-{n}", "labels": {"site": str(n), "zone": "a"}}
        store.apply(msgspec.convert({"metadata": metadata}, Node))
    assert [node.metadata.name for node in membership.nodes_of("vc-7")] == ["n-7"]
    assert len(compared) == 100
