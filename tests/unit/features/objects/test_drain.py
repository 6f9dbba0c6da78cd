"""Drain: Cluster, host namespaces, record, object; and what a deletion waits for."""

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, ClusterRecord, cluster_id
from karmada_vc_agent.cluster.registration import VirtualClusterSources
from karmada_vc_agent.features.objects.definitions import PATH, ObjectsStart
from karmada_vc_agent.features.objects.operator import setup
from karmada_vc_agent.model.objects import labels_of
from karmada_vc_agent.model.vocabulary import (
    AGENT_ANNOTATION,
    CREATED_BY_AGENT_ANNOTATION,
    HOLD_ANNOTATION,
    MEMBERSHIP_LABEL,
)
from tests.fakes import objects
from tests.fakes.pages import PAGES, PageFault
from tests.fakes.world import HOST_UID
from tests.unit.features.objects.conftest import BRANCH_A, Served, virtual_cluster

CLUSTER = f"{CLUSTERS_PATH}/branch-a"
OBJECT = f"{PATH}/branch-a"
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
CONFIG_MAP = "/api/v1/namespaces/edge-v-branch-a/configmaps/settings"
DEFAULT = "/api/v1/namespaces/default-v-branch-a"


async def deleted(served: Served, policy: str = "Delete") -> Served:
    """Return one that is registered, has a Work and `default`, and is being deleted."""
    world = served.world
    world.register(finalizers=["karmada.io/cluster-controller"])
    await served.apply(virtual_cluster(spec=BRANCH_A | {"deletionPolicy": policy}))
    world.hub.seed(objects.work(objects.config_map()))
    world.look()
    world.host.seed(objects.namespace("agents"))
    await served.state.load()
    await served.state.remember("branch-a", ClusterRecord("uid", "settings"))
    await world.namespaces.reconcile(("branch-a", "default"))
    assert world.host.find(DEFAULT)
    world.host.mark_deleted(OBJECT)
    await served.see("MODIFIED", world.host.live(OBJECT))
    world.look()
    return served


async def step(served: Served) -> str:
    text = await served.step("branch-a")
    served.world.look()
    return text


def end_cluster(served: Served) -> None:
    """Do what hub and execution do of a Cluster that is being deleted."""
    served.world.hub.remove(WORK)
    served.world.hub.remove(CLUSTER)
    served.world.look()


async def test_everything_is_removed_in_order(served: Served) -> None:
    await deleted(served)
    assert await step(served) == "waiting for Works of Cluster branch-a to be finalised (1 left)"
    assert served.world.hub.live(CLUSTER)["metadata"]["deletionTimestamp"]
    assert served.world.host.find(DEFAULT), "nothing is taken while Works may use it"
    assert "branch-a" in served.world.virtual_clusters, "its Works have to be finalised"
    end_cluster(served)
    assert await step(served) == "waiting for host namespaces: default-v-branch-a"
    assert served.world.host.find(DEFAULT) is None
    assert await step(served) == ""
    assert "branch-a" not in served.world.virtual_clusters
    assert served.state.cluster("branch-a") is None
    assert list(served.definitions) == []
    # What was told of it before the finalizer went is told yet.
    await served.see("MODIFIED", served.world.host.live(OBJECT))
    assert "branch-a" not in served.world.virtual_clusters
    await served.see("DELETED", served.world.host.live(OBJECT))
    served.world.host.remove(OBJECT)
    await served.apply(virtual_cluster())
    assert "branch-a" in served.world.virtual_clusters


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
async def test_page_does_not_say_that_the_cluster_is_deleted(
    served: Served, page: PageFault
) -> None:
    """As at a start without a checkpoint: the Cluster is on the hub, and not cached yet."""
    await deleted(served)
    world = served.world
    world.clusters.store.replace_all([])
    world.hub.answer(page.body, page.code, times=1_000_000)
    assert await served.step("branch-a") != ""
    assert world.host.find(DEFAULT)
    assert served.state.cluster("branch-a") is not None
    world.hub.clear_faults()
    assert (await served.step("branch-a")).endswith("Cluster branch-a")


async def test_held_namespace_is_waited_for_and_the_others_are_deleted(served: Served) -> None:
    await deleted(served)
    await step(served)
    end_cluster(served)
    world = served.world
    world.host.seed(objects.claimed(annotations={CREATED_BY_AGENT_ANNOTATION: "true"}))
    live = world.host.live(DEFAULT)
    live["metadata"]["annotations"][HOLD_ANNOTATION] = "audit"
    world.host.seed(live)
    world.look()
    assert "an administrator holds the namespace: audit" in await step(served)
    assert world.host.find(DEFAULT)
    assert world.host.find("/api/v1/namespaces/edge-v-branch-a") is None


async def test_what_it_waits_for_is_a_condition(served: Served) -> None:
    await deleted(served)
    served.due.clear()
    text = await step(served)
    assert await step(served) == text
    assert served.due == ["branch-a"]
    status = await served.status()
    assert status["phase"] == "Deleting"
    assert status["conditions"][0]["reason"] == "Deleting"
    assert status["conditions"][0]["message"] == text


async def test_preserved_objects_stay_though_the_hub_takes_the_mark_off(served: Served) -> None:
    """The hub writes a Work anew from its binding, which knows nothing of the mark."""
    await deleted(served, "Preserve")
    world, key = served.world, ("branch-a", "web-1")
    await world.execution.reconcile(key)
    world.look()
    await step(served)
    await step(served)
    assert world.hub.live(CLUSTER)["metadata"]["deletionTimestamp"]
    made = world.host.live(CONFIG_MAP)
    spec = {**world.hub.live(WORK)["spec"], "preserveResourcesOnDeletion": False}
    world.hub.change(WORK, spec=spec)
    world.look()
    await world.execution.reconcile(key)
    after = world.host.live(CONFIG_MAP)
    assert after["metadata"]["uid"] == made["metadata"]["uid"]
    assert not after["metadata"].get("labels"), "it was released"


@pytest.mark.parametrize("is_taken", [False, True], ids=["its own", "of the settings file"])
async def test_next_process_preserves_what_is_being_removed(
    served: Served, *, is_taken: bool
) -> None:
    """Works of a Cluster that goes are finalised before objects are watched."""
    await deleted(served, "Preserve")
    world, key = served.world, ("branch-a", "web-1")
    await world.execution.reconcile(key)
    assert world.host.find(CONFIG_MAP)
    world.hub.mark_deleted(CLUSTER)
    await served.status()
    definition = served.definitions.of("branch-a")
    assert definition is not None
    assert definition.virtual_cluster is not None
    world.restart()
    sources = VirtualClusterSources(world.virtual_clusters)
    sources.add("the settings file", (definition.virtual_cluster,) if is_taken else ())
    started = ObjectsStart(sources.add("objects"))
    await started.read(world.host_client, served.live, served.state)
    setup(world.parts, started)
    world.look()
    await world.execution.reconcile(key)
    assert (world.host.find(CONFIG_MAP) is None) == is_taken


async def test_preserved_objects_stay(served: Served) -> None:
    await deleted(served, "Preserve")
    assert await step(served) == "waiting for Works to be marked as preserved (1 left)"
    assert served.world.hub.live(WORK)["spec"]["preserveResourcesOnDeletion"] is True
    cluster = served.world.hub.live(CLUSTER)
    assert not cluster["metadata"].get("deletionTimestamp"), "the mark has to be seen first"
    assert await step(served) == "waiting for Works of Cluster branch-a to be finalised (1 left)"
    end_cluster(served)
    await step(served)
    namespace = served.world.host.live(DEFAULT)
    assert not namespace["metadata"].get("labels")
    assert await step(served) == ""


async def test_policy_may_change_while_it_waits(served: Served) -> None:
    await deleted(served)
    await step(served)
    spec = BRANCH_A | {"deletionPolicy": "Preserve"}
    served.world.host.change(OBJECT, spec=spec)
    end_cluster(served)
    await step(served)
    assert served.world.host.find(DEFAULT)


@pytest.mark.parametrize("code", [403, 500])
async def test_hub_that_refuses_the_deletion_is_reported(served: Served, code: int) -> None:
    await deleted(served)
    served.world.hub.fail(code, method="DELETE", path=CLUSTER, times=5)
    text = await step(served)
    assert ("may not delete" if code == 403 else "refused") in text
    assert "branch-a" in served.world.virtual_clusters


async def test_missing_right_does_not_say_that_the_cluster_is_deleted(served: Served) -> None:
    await deleted(served)
    world = served.world
    cluster = world.hub.live(CLUSTER)
    world.hub.remove(CLUSTER)
    world.look()
    world.hub.seed(cluster)  # not cached: as where it cannot be decoded
    world.hub.fail(403, method="GET", path=CLUSTER)
    world.hub.fail(403, method="GET", path=CLUSTERS_PATH)
    assert "refused" in await step(served)
    assert world.host.find(DEFAULT)
    assert "waiting for" in await step(served)
    assert world.hub.live(CLUSTER)["metadata"]["deletionTimestamp"]
    assert world.host.find(DEFAULT)


async def test_nodes_lose_the_label_however_often_it_takes(served: Served) -> None:
    """Nothing else says later which of them had it."""
    served.world.host.seed(
        objects.namespace("agents"),
        objects.node("n1", {MEMBERSHIP_LABEL: "named"}),
        objects.node("n2", {MEMBERSHIP_LABEL: "another"}),
    )
    body = virtual_cluster("named", spec={"nodeNames": ["n1"]})
    await served.apply(body)
    served.world.host.mark_deleted(f"{PATH}/named")
    await served.see("MODIFIED", served.world.host.live(f"{PATH}/named"))
    served.world.look()
    await served.state.load()
    served.world.host.fail(500, method="PATCH", path="/api/v1/nodes/n1")
    assert "refused" in await served.step("named")
    assert "named" in served.world.virtual_clusters
    assert await served.step("named") == ""
    assert "named" not in served.world.virtual_clusters
    labels = [labels_of(served.world.host.live(f"/api/v1/nodes/{n}")) for n in ("n1", "n2")]
    assert labels == [{}, {MEMBERSHIP_LABEL: "another"}]


async def test_hub_that_is_away_is_reported(served: Served) -> None:
    await deleted(served)
    with served.world.hub.down():
        assert "does not answer" in await step(served)


async def test_one_that_was_never_served_is_removed_at_once(served: Served) -> None:
    served.file.replace_all([objects.virtual_cluster("branch-a")])
    await deleted(served)
    assert await step(served) == ""
    assert not served.world.hub.live(CLUSTER)["metadata"].get("deletionTimestamp")
    assert "branch-a" in served.world.virtual_clusters


async def test_foreign_cluster_of_its_name_stays(served: Served) -> None:
    await served.apply(virtual_cluster())
    served.world.hub.seed(objects.cluster("branch-a", "somebody-else"))
    served.world.host.seed(objects.namespace("agents"))
    await served.state.load()
    served.world.look()
    served.world.host.mark_deleted(OBJECT)
    assert await step(served) == ""
    assert served.world.hub.find(CLUSTER)


async def test_cluster_of_another_agent_not_yet_reported_stays(served: Served) -> None:
    await served.apply(virtual_cluster())
    other = objects.cluster("branch-a", cluster_id(HOST_UID, "branch-a"))
    other["metadata"]["annotations"] = {AGENT_ANNOTATION: "home/other"}
    served.world.hub.seed(other)
    served.world.host.seed(objects.namespace("agents"))
    await served.state.load()
    served.world.host.mark_deleted(OBJECT)
    assert served.world.clusters.store.get("", "branch-a") is None
    assert await step(served) == ""
    assert not served.world.hub.live(CLUSTER)["metadata"].get("deletionTimestamp")


async def test_object_whose_finalizer_was_taken_off_is_forgotten(served: Served) -> None:
    await served.apply(virtual_cluster())
    served.world.host.remove(OBJECT)
    assert await step(served) == ""
    assert "branch-a" not in served.world.virtual_clusters
    assert await step(served) == ""


@pytest.mark.parametrize("is_other", [True, False], ids=["made anew", "of a backup"])
async def test_object_that_is_not_being_deleted_keeps_what_it_has(
    served: Served, *, is_other: bool
) -> None:
    """Kopf goes on with the deletion of one that is gone, or was deleted after the backup."""
    await deleted(served)
    before = served.world.host.live(OBJECT)
    served.world.host.remove(OBJECT)
    uid = "another" if is_other else before["metadata"]["uid"]
    await served.apply(virtual_cluster(uid=uid))
    assert await step(served) == ""
    assert not served.world.hub.live(CLUSTER)["metadata"].get("deletionTimestamp")
    assert served.world.host.find(DEFAULT)
    assert "branch-a" in served.world.virtual_clusters
    assert list(served.definitions) == ["branch-a"]
    served.world.host.mark_deleted(OBJECT)
    await served.see("MODIFIED", served.world.host.live(OBJECT))
    assert (await served.status())["conditions"][0]["message"] == "waiting for the agent"


@pytest.mark.parametrize("side", ["hub", "host"])
async def test_nothing_is_removed_while_a_server_may_be_rolled_back(
    served: Served, side: str
) -> None:
    await deleted(served)
    world = served.world
    {"hub": world.hub_client, "host": world.host_client}[side].history.notice("restored")
    assert await step(served) == f"waiting: {side} went back in time and is being listed again"
    assert not world.hub.live(CLUSTER)["metadata"].get("deletionTimestamp")
    assert world.host.find(DEFAULT)
    assert served.state.cluster("branch-a") is not None


@pytest.mark.parametrize("is_held", [False, True], ids=["deleted", "held by another finalizer"])
async def test_what_another_process_removes_is_waited_for_here(
    served: Served, *, is_held: bool
) -> None:
    """Kopf reports nothing of an object, so not its end either, while its deletion is handled."""
    await deleted(served)
    served.definitions.source.serves = lambda name: False  # noqa: ARG005
    writes = len(served.world.host.writes())
    assert await step(served) == "another process of the agent removes it"
    if is_held:
        live = served.world.host.live(OBJECT)
        served.world.host.seed(
            {**live, "metadata": {**live["metadata"], "finalizers": ["example.com/other"]}}
        )
    else:
        served.world.host.remove(OBJECT)
    assert await step(served) == ""
    assert "branch-a" not in served.world.virtual_clusters, "its nodes and names are free"
    assert len(served.world.host.writes()) == writes
