"""WorkParts: who tells whom of what, as the agent connects them."""

from unittest.mock import Mock

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.virtual_clusters import NODE_GROUP
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.informers import PartedReflector
from karmada_vc_agent.model.objects import Object, copy_object
from karmada_vc_agent.model.vocabulary import WORK_ANNOTATION
from karmada_vc_agent.runner import controllers
from tests.fakes import objects
from tests.fakes.served import Served
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
SETTINGS = "/api/v1/namespaces/edge-v-branch-a/configmaps/settings"


@pytest.fixture
async def applied(world: World) -> World:
    """A world in which a Work with a ConfigMap was carried out."""
    world.register()
    world.hub.seed(objects.work(objects.config_map(), objects.namespace_manifest()))
    world.look()
    await world.execution.reconcile(KEY)
    world.look()
    world.enqueued.clear()
    return world


async def test_work_is_due_when_the_hub_changes_it(applied: World) -> None:
    applied.hub.change(WORK, spec=objects.work(objects.config_map(value="2"))["spec"])
    applied.look()
    assert applied.enqueued == [KEY]


async def test_own_status_does_not_make_a_work_due(applied: World) -> None:
    applied.look()
    assert applied.enqueued == []


async def test_work_is_due_when_its_object_changes(applied: World) -> None:
    applied.host.change(SETTINGS, data={"value": "by hand"})
    applied.look()
    assert applied.enqueued == [KEY]


async def test_object_of_a_work_that_is_not_listed_waits_for_it(applied: World) -> None:
    applied.hub.remove(WORK)
    applied.look()
    applied.enqueued.clear()
    applied.host.change(SETTINGS, data={"value": "by hand"})
    applied.look()
    assert applied.enqueued == []


async def test_work_is_due_when_its_namespace_changes(applied: World) -> None:
    path = "/api/v1/namespaces/edge-v-branch-a"
    metadata = applied.host.live(path)["metadata"]
    assert metadata["annotations"][WORK_ANNOTATION] == "karmada-es-branch-a/web-1"
    applied.host.change(path, metadata={**metadata, "labels": {**metadata["labels"], "x": "y"}})
    applied.look()
    assert applied.enqueued == [KEY]


async def test_object_elsewhere_speaks_for_no_one(applied: World) -> None:
    copied: Object = copy_object(applied.host.live(SETTINGS))
    metadata = {k: v for k, v in copied["metadata"].items() if k in ("labels", "annotations")}
    applied.host.seed(objects.namespace("elsewhere"))
    copied["metadata"] = {**metadata, "name": "settings", "namespace": "elsewhere"}
    applied.host.seed(copied)
    applied.look()
    assert applied.enqueued == []


async def test_node_groups_are_notified_once_requested(world: World) -> None:
    served = Served(NODE_GROUP.api_version, "nodegroups", NODE_GROUP.kind, namespaced=False)
    world.host.storage.served.append(served)
    await world.host_discovery.refresh()
    told: list[object] = []
    world.parts.common.signals.node_group.subscribe(lambda *change: told.append(change))
    nodes_of_group = world.context_for(world.vc(), "").nodes_of_group
    with pytest.raises(UnreachableError):
        nodes_of_group("east")
    metadata = {"name": "east"}
    world.host.seed(
        {"apiVersion": NODE_GROUP.api_version, "kind": "NodeGroup", "metadata": metadata}
    )
    world.look()
    assert len(told) == 1
    assert nodes_of_group("east") is not None


async def test_works_are_read_while_their_cluster_is_ours(applied: World) -> None:
    assert applied.works.names("branch-a") == ["web-1"]
    applied.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    applied.look()
    assert applied.works.store("branch-a") is None


async def test_namespaces_to_watch_are_looked_at_when_claims_or_virtual_clusters_change(
    world: World,
) -> None:
    scope = world.parts.works.scope
    follower = Mock(spec=PartedReflector)
    scope.followers.add(follower)
    assert set(scope.namespaces()) == set()
    world.host.seed(objects.claimed())
    world.look()
    follower.parts_changed.assert_called()
    assert set(scope.namespaces()) == {"edge-v-branch-a"}
    follower.reset_mock()
    world.virtual_clusters.replace_all([world.vc("branch-b")])
    follower.parts_changed.assert_called()
    assert set(scope.namespaces()) == set()


async def test_lease_begins_again_with_another_cluster_of_the_name(applied: World) -> None:
    due: list[str] = []
    applied.parts.leases.due.subscribe(due.append)
    for _ in range(2):
        applied.parts.leases.start("branch-a")
    assert due == ["branch-a"]
    applied.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    applied.look()
    applied.parts.leases.start("branch-a")
    assert due == ["branch-a"] * 2


async def test_lease_is_begun_again_after_a_status_that_outlived_its_cluster(
    applied: World,
) -> None:
    """A Cluster may be lost while its status is computed, and registered again at once."""
    lease = applied.spec(controllers.cluster_lease)
    due: list[str] = []
    applied.parts.leases.due.subscribe(due.append)
    applied.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    applied.look()
    applied.parts.leases.start("branch-a")
    assert await lease.reconcile("branch-a") is None
    applied.register()
    applied.look()
    applied.parts.leases.start("branch-a")
    assert due == ["branch-a"] * 2
