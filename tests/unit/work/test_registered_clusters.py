"""RegisteredClusters: what begins and ends with a Cluster on the hub."""

from typing import Any
from unittest.mock import MagicMock, call

import pytest

from karmada_vc_agent.cluster.hub_clusters import ClusterCodec
from karmada_vc_agent.cluster.virtual_clusters import Scopes, VirtualClusters
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import Bounds
from karmada_vc_agent.work.work_watches import RegisteredClusters
from tests.fakes import objects


class Given:
    """branch-a is served; whose its Cluster is can be set."""

    def __init__(self) -> None:
        self.store: Store[Object] = Store(ClusterCodec())
        self.is_ours = True
        self.virtual_clusters = VirtualClusters([objects.virtual_cluster("branch-a")])
        self.watches, self.membership = MagicMock(), MagicMock()
        self.membership.reconsider.return_value = ["n1"]
        self.watches.works.of.return_value = []
        clusters = MagicMock(store=self.store)
        clusters.is_ours.side_effect = lambda cluster: cluster is not None and self.is_ours
        clusters.ours.side_effect = lambda name: self.store.get("", name) if self.is_ours else None
        scopes = Scopes()
        registered = RegisteredClusters(
            self.virtual_clusters, clusters, self.membership, self.watches, scopes
        )
        self.told = MagicMock()
        scopes.ended.subscribe(self.told.gone)
        registered.became.subscribe(self.told.became)
        registered.disputed.subscribe(self.told.disputed)

    def change(self, version: int, name: str = "branch-a", ready: str = "True") -> Object:
        conditions = [objects.ready(ready)]
        obj = objects.cluster(name, "id", conditions=conditions)
        obj["metadata"] |= {"uid": "u", "resourceVersion": str(version)}
        self.store.apply(obj)
        return obj


def test_added_cluster_is_watched_and_its_readiness_notified_once() -> None:
    given = Given()
    given.change(1)
    given.change(2)
    given.change(3, ready="False")
    assert given.watches.start.call_args_list == [call("branch-a")] * 3
    assert given.told.became.call_args_list == [call("branch-a")] * 2
    assert given.told.disputed.call_args_list == [call("n1")]
    given.told.gone.assert_not_called()


def test_deleted_cluster_is_forgotten_and_notified_again() -> None:
    given = Given()
    given.store.remove(given.change(1))
    given.watches.stop.assert_called_once_with("branch-a")
    given.told.gone.assert_called_once_with("branch-a")
    given.change(2)
    assert given.told.became.call_count == 2


def test_cluster_that_is_anothers_by_now_counts_as_deleted() -> None:
    given = Given()
    given.change(1)
    given.is_ours = False
    given.change(2)
    given.told.gone.assert_called_once_with("branch-a")


def test_events_of_a_cluster_of_another_agent_end_nothing() -> None:
    given = Given()
    given.is_ours = False
    given.change(1)
    given.store.remove(given.change(2))
    given.told.gone.assert_not_called()


def test_works_that_are_listed_already_are_notified_once_the_cluster_is_ours() -> None:
    given = Given()
    work = objects.work(objects.config_map())
    given.watches.works.of.return_value = [work]
    given.is_ours = False
    given.change(1, ready="Unknown")
    given.watches.on_change.assert_not_called()
    given.is_ours = True
    given.change(2, ready="Unknown")
    given.change(3)
    given.watches.on_change.assert_called_once_with("branch-a", None, work)


@pytest.mark.parametrize("conditions", [None, [objects.ready("True")]])
def test_cluster_that_this_agent_created_may_be_the_oldest_of_a_node(conditions: Any) -> None:
    given = Given()
    created = objects.cluster("branch-a", "id", conditions=conditions)
    created["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    given.store.observe(created)
    given.store.apply({**created, "metadata": created["metadata"] | {"resourceVersion": "2"}})
    assert given.told.disputed.call_args_list == [call("n1")]
    given.store.remove(given.change(3))
    given.told.gone.assert_called_once_with("branch-a")


def test_unserved_cluster_belongs_to_no_one() -> None:
    given = Given()
    given.change(1, name="stranger")
    given.watches.start.assert_not_called()
    given.told.became.assert_not_called()


def test_unserved_virtual_cluster_is_removed_though_its_cluster_stays() -> None:
    given = Given()
    given.change(1)
    given.virtual_clusters.replace_all([])
    given.told.gone.assert_called_once_with("branch-a")
    given.watches.stop.assert_called_once_with("branch-a")


def test_returning_virtual_cluster_finds_its_cluster() -> None:
    given = Given()
    given.change(1)
    (vc,) = given.virtual_clusters.values()
    given.virtual_clusters.replace_all([])
    given.watches.start.reset_mock()
    given.told.became.reset_mock()
    given.virtual_clusters.put(vc)
    given.watches.start.assert_called_once_with("branch-a")
    given.told.became.assert_called_once_with("branch-a")


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize(
    ("changed", "is_listed_again"),
    [({"bounds": Bounds(works=1)}, True), ({"provider": "p"}, False)],
)
def test_other_bounds_have_the_works_listed_again(
    changed: dict[str, Any], *, is_listed_again: bool, is_ours: bool
) -> None:
    given = Given()
    given.change(1)
    given.is_ours = is_ours
    given.change(2)
    given.watches.reset_mock()
    given.virtual_clusters.put(objects.virtual_cluster("branch-a", **changed))
    expected = [call.leave("branch-a"), call.start("branch-a")]
    steps = expected if is_ours else expected[:1]
    assert given.watches.mock_calls == (steps if is_listed_again else [])
