"""VirtualClusters: who hears of which change, and what they see then."""

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters, name_of_change
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from tests.fakes import objects

A, B, C = (objects.virtual_cluster(name) for name in "abc")
OTHER_B = objects.virtual_cluster("b", provider="other")


class Heard:
    """What a listener was told, and which virtual clusters there were then."""

    def __init__(self, registry: VirtualClusters) -> None:
        self.changes: list[tuple[VirtualCluster | None, VirtualCluster | None]] = []
        self.seen: list[list[str]] = []
        self._registry = registry
        registry.changed.subscribe(self._changed)

    def _changed(self, old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        self.changes.append((old, new))
        self.seen.append(list(self._registry))


def test_differences_are_notified_once_all_of_them_are_in_place() -> None:
    registry = VirtualClusters([A, B])
    heard = Heard(registry)
    registry.replace_all([OTHER_B, C])
    assert heard.changes == [(A, None), (B, OTHER_B), (None, C)]
    assert heard.seen == [["b", "c"]] * 3
    assert [name_of_change(*change) for change in heard.changes] == ["a", "b", "c"]
    assert dict(registry) == {"b": OTHER_B, "c": C}


def test_unchanged_virtual_cluster_notifies_no_one() -> None:
    registry = VirtualClusters([A, B])
    heard = Heard(registry)
    registry.replace_all([B, A])
    registry.put(A)
    assert heard.changes == []


def test_listener_that_fails_costs_neither_others_nor_other_virtual_clusters() -> None:
    registry = VirtualClusters()

    def fails(_old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        if new is A:
            raise RuntimeError("a bug")

    registry.changed.subscribe(fails)
    heard = Heard(registry)
    registry.replace_all([A, B])
    assert heard.changes == [(None, A), (None, B)]
    assert "a" in registry
    assert len(registry) == 2


def test_registry_may_change_during_an_iteration() -> None:
    registry = VirtualClusters([A, B])
    seen = []
    for name in registry:
        registry.replace_all([C])
        seen.append(name)
    assert seen == ["a", "b"]
