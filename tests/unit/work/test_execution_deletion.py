"""ExecutionController, deleting: what goes from the host, what stays, and the finalizer."""

import asyncio
from typing import Any

import orjson
import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.codec import Unreadable
from karmada_vc_agent.kube.controller import NotReadyError, RetryError
from karmada_vc_agent.kube.errors import (
    DENIED_FOR_S,
    ConflictError,
    Denials,
    ForbiddenError,
    PageError,
)
from karmada_vc_agent.kube.flows import WRITE_ATTEMPTS
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, DOMAIN, PRESERVE_ANNOTATION
from karmada_vc_agent.runner import controllers
from karmada_vc_agent.work.reporting import WorkManifest
from karmada_vc_agent.work.works import Works
from tests.fakes import objects
from tests.fakes.misled import mislead
from tests.fakes.pages import PAGES
from tests.fakes.served import Served
from tests.fakes.virtual_time import Clock
from tests.fakes.world import World, fill

KEY = ("branch-a", "web-1")
WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works"
WORK = f"{WORKS}/web-1"
NAMESPACE = "/api/v1/namespaces/edge-v-branch-a"
SETTINGS = f"{NAMESPACE}/configmaps/settings"
DEPLOYMENT = "/apis/apps/v1/namespaces/edge-v-branch-a/deployments/web"

JOB = "/apis/batch/v1/namespaces/edge-v-branch-a/jobs/once"


async def applied(world: World, *manifests: Object, preserve: bool = False) -> None:
    """Apply a Work."""
    world.register()
    spec = {"preserveResourcesOnDeletion": True} if preserve else {}
    world.hub.seed(objects.work(*manifests, spec=spec))
    world.look()
    await world.execution.reconcile(KEY)


async def applied_and_deleted(world: World, *manifests: Object, preserve: bool = False) -> None:
    """Apply a Work, then give it a deletion mark."""
    await applied(world, *manifests, preserve=preserve)
    world.hub.mark_deleted(WORK)
    world.look()
    world.forget_requests()


async def test_host_objects_go_in_the_background_then_the_work(world: World) -> None:
    await applied_and_deleted(world, objects.deployment(), objects.config_map())
    uid = world.host.live(DEPLOYMENT)["metadata"]["uid"]
    await world.execution.reconcile(KEY)
    assert world.host.find(DEPLOYMENT) is None
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is None
    (deletion,) = world.host.asked("DELETE", DEPLOYMENT)
    assert deletion.body["propagationPolicy"] == "Background"
    assert deletion.body["preconditions"] == {"uid": uid}


async def test_deleted_work_is_not_finalised_again_before_the_watch_says_so(
    world: World,
) -> None:
    await applied_and_deleted(world, objects.config_map())
    await world.execution.reconcile(KEY)
    world.forget_requests()
    await world.execution.reconcile(KEY)  # because its host object is gone
    assert world.hub.requests == []
    assert world.host.requests == []


async def test_removing_the_finalizer_leaves_the_workload_as_it_was(world: World) -> None:
    manifest = objects.config_map()
    manifest["data"] = {"z": "1", "a": "ü", "n": "007"}
    await applied_and_deleted(world, manifest)
    live = world.hub.live(WORK)
    finalizers = ["example.com/other", vocabulary.EXECUTION_FINALIZER]
    world.hub.seed({**live, "metadata": {**live["metadata"], "finalizers": finalizers}})
    world.look()
    before = orjson.dumps(world.hub.live(WORK)["spec"])
    await world.execution.reconcile(KEY)
    after = world.hub.live(WORK)
    assert orjson.dumps(after["spec"]) == before
    assert after["metadata"]["finalizers"] == ["example.com/other"]


async def test_work_without_the_finalizer_is_not_ours_to_clean(world: World) -> None:
    await applied_and_deleted(world, objects.config_map())
    live = world.hub.live(WORK)
    world.hub.seed({**live, "metadata": {**live["metadata"], "finalizers": ["example.com/other"]}})
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
    assert world.hub.writes() == []


async def test_object_deleted_already_is_fine(world: World) -> None:
    await applied_and_deleted(world, objects.config_map())
    world.host.remove(SETTINGS)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None


async def test_nothing_is_left_behind_where_a_kind_is_said_to_be_served_elsewhere(
    world: World,
) -> None:
    await applied_and_deleted(world, objects.config_map())
    await mislead(world)
    with pytest.raises(RetryError, match="could not find the requested resource"):
        await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is not None
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is None


async def test_nothing_is_left_behind_where_an_api_group_does_not_answer(world: World) -> None:
    await applied_and_deleted(world, objects.job())
    world.host.stale_groups = frozenset({"batch/v1"})
    await world.host_discovery.refresh()
    with pytest.raises(RetryError, match="does not report what it serves of batch/v1"):
        await world.execution.reconcile(KEY)
    assert world.host.find(JOB)
    world.host.stale_groups = frozenset()
    await world.host_discovery.refresh()
    await world.execution.reconcile(KEY)
    assert world.host.find(JOB) is None
    assert world.hub.find(WORK) is None


async def test_object_at_a_path_that_is_not_served_for_now_holds_its_work(world: World) -> None:
    """Discovery has the kind: a page of 404, as of a load balancer, says nothing of the object."""
    await applied_and_deleted(world, objects.config_map())
    world.host.answer(b"404 page not found", 404, path=SETTINGS, times=2)
    for _ in range(2):
        with pytest.raises(RetryError, match="could not find the requested resource"):
            await world.execution.reconcile(KEY)
        assert world.hub.find(WORK) is not None
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is None


WIDGETS = "/apis/example.com/v2/namespaces/edge-v-branch-a/widgets"


@pytest.mark.parametrize("says", ["nothing", "v1 on the hub"])
async def test_object_is_removed_at_a_version_that_is_served(world: World, says: str) -> None:
    await applied_and_deleted(world, widget())
    await serve_widgets_at_v2(world)
    if says != "nothing":
        world.hub.storage.served.append(Served("example.com/v1", "widgets", "Widget"))
    await world.execution.reconcile(KEY)
    assert world.host.find(f"{WIDGETS}/dial") is None
    assert world.hub.find(WORK) is None


async def test_object_is_released_at_a_version_that_is_served(world: World) -> None:
    await applied_and_deleted(world, widget(), preserve=True)
    await serve_widgets_at_v2(world, size=2)
    await world.execution.reconcile(KEY)
    live = world.host.live(f"{WIDGETS}/dial")
    assert live["apiVersion"] == "example.com/v2"
    assert live["spec"] == {"size": 2}, "what v1 says may mean nothing here"
    assert not labels_of(live)
    assert not annotations_of(live)
    assert world.hub.find(WORK) is None


async def test_object_waits_where_another_version_of_its_kind_does_not_answer(
    world: World,
) -> None:
    await applied_and_deleted(world, widget())
    await serve_widgets_at_v2(world)
    world.host.stale_groups = frozenset({"example.com/v2"})
    await world.host_discovery.refresh()
    with pytest.raises(RetryError, match=r"does not report what it serves of example.com/v1"):
        await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is not None


def widget() -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": "dial",
            "namespace": "edge",
            "labels": {vocabulary.MANAGED_LABEL: "true"},
        },
        "spec": {"size": 1},
    }


async def serve_widgets_at_v2(world: World, **spec: int) -> None:
    """Have the host serve v2 instead of v1; the server converts what it stores."""
    storage = world.host.storage
    storage.served = [each for each in storage.served if each.kind != "Widget"]
    storage.served.append(Served("example.com/v2", "widgets", "Widget"))
    for key, obj in list(storage.objects.items()):
        if obj["kind"] == "Widget":
            del storage.objects[key]
            converted = {**obj, "apiVersion": "example.com/v2", "spec": spec or obj["spec"]}
            storage.objects["example.com/v2", *key[1:]] = converted
    await world.host_discovery.refresh()


async def test_object_without_the_managed_label_stays(world: World) -> None:
    await applied_and_deleted(world, objects.config_map())
    live = world.host.live(SETTINGS)
    world.host.seed({**live, "metadata": {**live["metadata"], "labels": {}}})
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
    assert world.hub.find(WORK) is None


async def test_refused_manifest_has_nothing_to_remove(world: World) -> None:
    await applied_and_deleted(world, objects.deployment(nodeSelector={"branch": "b"}))
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None


async def test_kind_no_longer_served_has_nothing_to_remove(world: World) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    world.register()
    world.hub.seed(objects.work(widget))
    world.hub.mark_deleted(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None


async def test_failure_to_delete_keeps_the_finalizer(world: World) -> None:
    await applied_and_deleted(world, objects.config_map())
    world.host.fail(500, method="DELETE")
    with pytest.raises(Exception, match="as the test wants"):
        await world.execution.reconcile(KEY)
    assert world.hub.live(WORK)["metadata"]["finalizers"] == [vocabulary.EXECUTION_FINALIZER]


@pytest.mark.parametrize("code", [403, 409, 422, 500])
@pytest.mark.parametrize("preserve", [False, True])
async def test_what_cannot_be_removed_is_reported_and_stops_no_other(
    world: World, code: int, *, preserve: bool
) -> None:
    """A webhook may deny with any code: a conflict that stays is none of another writer."""
    await applied_and_deleted(
        world, objects.config_map(), objects.config_map("other"), preserve=preserve
    )
    method, times = "PUT" if preserve else "DELETE", WRITE_ATTEMPTS if code == 409 else 1
    world.host.fail(code, method=method, path=SETTINGS, times=times)
    with pytest.raises(RetryError, match="as the test wants"):
        await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is not None
    other = world.host.find(f"{NAMESPACE}/configmaps/other")
    assert CLUSTER_LABEL not in labels_of(other or {})
    assert (other is not None) == preserve
    told = [text for kind, reason, text in await world.events() if reason == "SyncFailed"]
    assert len(told) == 1
    assert told[0].startswith("Failed to sync work(karmada-es-branch-a/web-1) to cluster(branch-a)")
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None


async def test_all_that_cannot_be_removed_is_reported_in_names_of_the_hub(world: World) -> None:
    await applied_and_deleted(world, objects.config_map(), objects.config_map("other"))
    for name in ("settings", "other"):
        path = f"{NAMESPACE}/configmaps/{name}"
        world.host.fail(403, method="DELETE", path=path, message=f"{name} of edge-v-branch-a")
    with pytest.raises(RetryError):
        await world.execution.reconcile(KEY)
    (text,) = [text for _, reason, text in await world.events() if reason == "SyncFailed"]
    assert text.endswith("[settings of edge, other of edge]")


async def test_namespace_that_others_use_is_no_failure(world: World) -> None:
    await applied_and_deleted(world, objects.namespace_manifest())
    world.hub.seed(objects.work(objects.config_map(), name="user-1"))
    world.look()
    with pytest.raises(RetryError, match="still used"):
        await world.execution.reconcile(KEY)
    assert "SyncFailed" not in {reason for _, reason, _ in await world.events()}


async def test_work_waits_while_its_cluster_is_not_ready(world: World) -> None:
    await applied_and_deleted(world, objects.config_map())
    world.register(ready="False")
    world.look()
    with pytest.raises(NotReadyError):
        await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
    assert world.hub.find(WORK) is not None


async def test_objects_are_abandoned_when_an_unready_cluster_is_deleted(
    world: World,
) -> None:
    await applied_and_deleted(world, objects.config_map())
    world.register(ready="False")
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    with world.host.down():
        await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
    assert world.hub.find(WORK) is None


async def test_abandoned_objects_are_removed_if_the_host_returns_in_time(
    world: World,
) -> None:
    await applied_and_deleted(world, objects.config_map())
    world.register(ready="False")
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    world.hub.fail(409, "Conflict", method="PATCH")
    with world.host.down(), pytest.raises(ConflictError):
        await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is None


async def test_works_of_a_leaving_cluster_are_cleaned_before_they_are_marked(world: World) -> None:
    await applied(world, objects.config_map())
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.live(WORK)["metadata"].get("finalizers") in (None, [])


async def test_hub_that_refuses_the_finalizers_of_a_leaving_cluster_is_noted_once_all_is_clean(
    world: World,
) -> None:
    await applied(world, objects.config_map())
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    world.hub.fail(403, "Forbidden", method="PATCH")
    with pytest.raises(ForbiddenError):
        await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.status_due == ["branch-a"]
    assert world.finalizer.why_terminating("branch-a")
    world.hub.seed(objects.work(objects.config_map("later"), name="later"))
    world.look()
    assert not world.finalizer.why_terminating("branch-a")


async def test_works_whose_rights_ended_before_the_agent_started_are_left_to_the_hub(
    world: World,
) -> None:
    """Nobody can give rights in a namespace that is being deleted."""
    world.register()
    world.look()
    world.hub.fail(403, path=WORKS, times=3, message='User "agent" cannot list resource "works"')
    store = world.works.store("branch-a")
    assert store is not None
    store.is_synced = False
    clock = Clock()
    world.hub_client.denials = Denials(clock)

    async def denied() -> None:
        with pytest.raises(ForbiddenError):
            await world.hub_client.get(WORKS)

    await denied()
    clock.advance(DENIED_FOR_S)
    await denied()
    assert not world.finalizer.why_terminating("branch-a"), "the Cluster is not deleted"
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    fill(world.clusters.store, world.hub, CLUSTERS_PATH)
    assert "leave removes it" in world.finalizer.why_terminating("branch-a")
    store.is_synced = True
    assert not world.finalizer.why_terminating("branch-a")


async def test_preserved_object_stays_without_any_mark(world: World) -> None:
    await applied_and_deleted(world, objects.config_map(), preserve=True)
    await world.execution.reconcile(KEY)
    live = world.host.live(SETTINGS)
    assert live["data"] == {"value": "1"}
    keys = [*labels_of(live), *annotations_of(live)]
    assert [key for key in keys if DOMAIN in key or key == vocabulary.MANAGED_LABEL] == []
    assert world.hub.find(WORK) is None


async def test_cluster_that_leaves_preserving_counts_though_its_works_lost_the_mark(
    world: World,
) -> None:
    await applied(world, objects.config_map(), preserve=True)
    world.register(annotations={PRESERVE_ANNOTATION: "true"})
    world.hub.change(WORK, spec=objects.work(objects.config_map())["spec"])
    world.hub.mark_deleted(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    live = world.host.live(SETTINGS)
    assert CLUSTER_LABEL not in labels_of(live)
    assert world.hub.find(WORK) is None


async def test_object_stays_that_is_preserved_since_before_the_hub_listed_its_clusters(
    world: World,
) -> None:
    """So it is where a removal goes on after a start without the hub."""
    await applied_and_deleted(world, objects.config_map())
    cluster = world.hub.live(f"{CLUSTERS_PATH}/branch-a")
    world.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    world.restart()
    world.clusters.store.is_synced = False
    world.finalizer.preserve("branch-a", is_on=True)
    assert await world.spec(controllers.cluster_status).reconcile("branch-a") is None
    world.hub.seed(cluster)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
    assert world.hub.find(WORK) is None


async def test_preserved_object_that_vanished_does_not_block_the_work(world: World) -> None:
    await applied_and_deleted(world, objects.config_map(), preserve=True)
    world.host.remove(SETTINGS)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None


async def test_preserved_object_changed_meanwhile_is_released_all_the_same(world: World) -> None:
    await applied_and_deleted(world, objects.config_map(), preserve=True)
    world.host.before(
        "PUT", SETTINGS, lambda: world.host.change(SETTINGS, data={"value": "by hand"})
    )
    await world.execution.reconcile(KEY)
    assert vocabulary.MANAGED_LABEL not in labels_of(world.host.live(SETTINGS))
    assert world.hub.find(WORK) is None


async def test_namespace_is_removed_with_its_work(world: World) -> None:
    await applied_and_deleted(world, objects.namespace_manifest())
    assert world.host.find(NAMESPACE) is not None
    await world.execution.reconcile(KEY)
    assert world.host.find(NAMESPACE) is None
    assert world.hub.find(WORK) is None


async def test_namespace_waits_for_the_works_that_use_it(world: World) -> None:
    await applied_and_deleted(world, objects.namespace_manifest())
    world.hub.seed(objects.work(objects.config_map(), name="user-1"))
    world.look()
    with pytest.raises(RetryError, match="namespace edge is still used by work user-1"):
        await world.execution.reconcile(KEY)
    assert world.host.find(NAMESPACE) is not None
    world.hub.remove(f"{WORKS}/user-1")
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(NAMESPACE) is None
    assert world.hub.find(WORK) is None


async def test_namespace_does_not_wait_for_works_of_another_cluster(world: World) -> None:
    await applied_and_deleted(world, objects.namespace_manifest())
    world.hub.seed(objects.work(objects.config_map(), vc="branch-b", name="user-1"))
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(NAMESPACE) is None


async def test_preserved_namespace_loses_its_claim_only(world: World) -> None:
    await applied_and_deleted(world, objects.namespace_manifest(), preserve=True)
    world.hub.seed(objects.work(objects.config_map(), name="user-1"))
    world.look()
    await world.execution.reconcile(KEY)
    live = world.host.live(NAMESPACE)
    assert [key for key in (*labels_of(live), *annotations_of(live)) if DOMAIN in key] == []
    assert world.hub.find(WORK) is None


async def test_preserved_namespace_waits_for_works_that_go_as_well(world: World) -> None:
    """The agent's rights in a namespace go with its claim."""
    await applied_and_deleted(world, objects.namespace_manifest(), preserve=True)
    world.hub.seed(objects.work(objects.config_map(), name="user-1"))
    world.hub.mark_deleted(f"{WORKS}/user-1")
    world.look()
    with pytest.raises(RetryError, match="namespace edge is still used by work user-1"):
        await world.execution.reconcile(KEY)
    assert labels_of(world.host.live(NAMESPACE))[CLUSTER_LABEL]
    world.hub.remove(f"{WORKS}/user-1")
    world.look()
    await world.execution.reconcile(KEY)
    assert CLUSTER_LABEL not in labels_of(world.host.live(NAMESPACE))


async def test_namespace_of_a_preserved_work_is_released_after_its_content(
    world: World,
) -> None:
    await applied_and_deleted(
        world, objects.namespace_manifest(), objects.config_map(), preserve=True
    )
    world.host.requests.clear()
    await world.execution.reconcile(KEY)
    written = [request.path for request in world.host.writes()]
    assert written.index(SETTINGS) < written.index(NAMESPACE)


@pytest.mark.parametrize("side", ["hub", "host"])
async def test_proxy_that_names_its_cluster_ends_no_work(world: World, side: str) -> None:
    await applied_and_deleted(world, objects.config_map())
    page = PAGES["404 Status of a cluster"]
    with getattr(world, side).in_front(page), pytest.raises((PageError, RetryError)):
        await world.execution.reconcile(KEY)
    assert world.hub.live(WORK)["metadata"]["finalizers"] == [vocabulary.EXECUTION_FINALIZER]
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None
    assert world.host.find(SETTINGS) is None


async def test_work_changed_before_the_finalizer_is_removed_is_tried_again(world: World) -> None:
    await applied_and_deleted(world, objects.config_map())

    def touch() -> None:
        live = world.hub.live(WORK)
        world.hub.seed({**live, "metadata": {**live["metadata"], "annotations": {"a": "b"}}})

    world.hub.before("PATCH", WORK, touch)
    with pytest.raises(Exception, match="modified"):
        await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is not None
    world.look()
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None


async def test_clusters_objects_stay_when_the_cluster_is_taken_by_another(world: World) -> None:
    await applied_and_deleted(world, objects.config_map())
    world.hub.seed(objects.cluster("branch-a", "another-id", conditions=[objects.ready()]))
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
    assert world.hub.writes() == []


async def recreated_before_its_end_was_looked_at(world: World, *manifests: Object) -> None:
    """Delete a Work and create it anew while so much waits that nobody saw it gone."""
    await applied_and_deleted(world, *manifests)
    await world.execution.reconcile(KEY)
    world.hub.seed(objects.work(*manifests))
    world.look()
    await world.execution.reconcile(KEY)


async def test_work_recreated_under_its_name_is_cleaned_when_it_is_deleted(world: World) -> None:
    await recreated_before_its_end_was_looked_at(world, objects.config_map())
    assert world.host.live(SETTINGS)
    world.hub.mark_deleted(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is None


async def test_namespace_waits_for_a_work_that_was_recreated_under_its_name(world: World) -> None:
    await recreated_before_its_end_was_looked_at(world, objects.config_map())
    world.hub.seed(objects.work(objects.namespace_manifest(), name="space"))
    world.look()
    await world.execution.reconcile(("branch-a", "space"))
    world.hub.mark_deleted(f"{WORKS}/space")
    world.look()
    with pytest.raises(RetryError, match="namespace edge is still used by work web-1"):
        await world.execution.reconcile(("branch-a", "space"))
    assert world.host.live(SETTINGS)


async def test_cluster_registered_again_is_not_barred_by_its_predecessor(world: World) -> None:
    await applied(world, objects.config_map())
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    world.hub.fail(403, "Forbidden", method="PATCH")
    with pytest.raises(ForbiddenError):
        await world.execution.reconcile(KEY)
    assert world.finalizer.why_terminating("branch-a")
    world.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    world.hub.remove(WORK)
    world.register()
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    assert not world.finalizer.why_terminating("branch-a")


@pytest.mark.parametrize("side", ["hub", "host"])
async def test_nothing_is_cleaned_until_a_rolled_back_server_was_checked_twice(
    world: World, side: str
) -> None:
    await applied_and_deleted(world, objects.config_map())
    client = {"hub": world.hub_client, "host": world.host_client}[side]
    client.history.notice("as the test wants")
    with pytest.raises(NotReadyError, match=f"{side} went back in time"):
        await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
    assert world.hub.find(WORK) is not None
    await asyncio.sleep(11.0)
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None


async def test_object_is_removed_though_its_manifest_became_odd_after_apply(
    world: World,
) -> None:
    await applied(world, objects.config_map())
    deep: Any = 1
    for _ in range(240):
        deep = [deep]
    manifest = objects.config_map() | {"data": deep}
    manifest["metadata"]["labels"] = ["odd"]
    world.hub.change(WORK, spec=objects.work(manifest)["spec"])
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is not None
    world.hub.mark_deleted(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is None


async def test_namespace_stays_while_a_work_that_may_need_it_cannot_be_read(world: World) -> None:
    await applied_and_deleted(world, objects.namespace_manifest())
    store = world.works.store("branch-a")
    assert store is not None
    store.doubt(Unreadable(("karmada-es-branch-a", "other"), "it is not valid JSON"))
    with pytest.raises(RetryError, match="may be used by work other, which cannot be read"):
        await world.execution.reconcile(KEY)
    assert world.host.find(NAMESPACE) is not None
    store.unreadable.clear()
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None


async def test_fault_of_ours_at_a_manifest_keeps_the_work_and_lets_go_of_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = objects.config_map("odd")
    await applied_and_deleted(world, odd, objects.config_map())
    remove = world.manifests.remove

    async def fail_at_odd(item: WorkManifest, *, preserve: bool) -> None:
        if item.manifest["metadata"]["name"] == "odd":
            raise TypeError("a bug")
        await remove(item, preserve=preserve)

    monkeypatch.setattr(world.manifests, "remove", fail_at_odd)
    with pytest.raises(RetryError, match="internal error"):
        await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is not None


@pytest.mark.parametrize("preserve", [False, True])
async def test_nothing_more_is_removed_once_the_works_are_unknown(
    world: World, *, preserve: bool
) -> None:
    world.hub.seed(objects.work(objects.deployment(), name="other"))
    await applied(world, objects.config_map(), objects.namespace_manifest(), preserve=preserve)
    await world.execution.reconcile(("branch-a", "other"))
    world.hub.mark_deleted(WORK)
    world.look()
    stores = world.works._stores
    assert isinstance(stores, dict)
    # As where its virtual cluster is taken out of the settings meanwhile.
    for method in ("DELETE", "PUT"):
        world.host.before(method, SETTINGS, stores.clear)
    with pytest.raises(NotReadyError, match="are not listed"):
        await world.execution.reconcile(KEY)
    assert stores == {}
    assert labels_of(world.host.live(NAMESPACE)).get(CLUSTER_LABEL) == "branch-a"
    assert world.host.live(DEPLOYMENT)


OTHER = ("branch-a", "web-2")


async def in_two_works(
    world: World, *, preserve: bool = False, deleted: str = f"{WORKS}/web-2"
) -> str:
    """Apply an object by two Works and mark one as deleted; return the UID of the object."""
    await applied(world, objects.config_map(value="first"))
    spec = {"preserveResourcesOnDeletion": True} if preserve else {}
    world.hub.seed(objects.work(objects.config_map(value="second"), name="web-2", spec=spec))
    world.look()
    await world.execution.reconcile(OTHER)
    live = world.host.live(SETTINGS)
    assert live["data"] == {"value": "second"}
    world.hub.mark_deleted(deleted)
    world.look()
    world.enqueued.clear()
    return str(live["metadata"]["uid"])


@pytest.mark.parametrize("preserve", [False, True])
async def test_object_of_two_works_is_left_to_the_one_that_stays(
    world: World, *, preserve: bool
) -> None:
    uid = await in_two_works(world, preserve=preserve)
    await world.execution.reconcile(OTHER)
    assert world.hub.find(f"{WORKS}/web-2") is None
    assert KEY in world.enqueued
    world.look()
    await world.execution.reconcile(KEY)
    live = world.host.live(SETTINGS)
    assert (live["data"], live["metadata"]["uid"]) == ({"value": "first"}, uid)
    world.hub.mark_deleted(WORK)
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(WORK) is None


async def test_object_of_two_works_is_left_to_the_last_one_that_wrote_it(world: World) -> None:
    await in_two_works(world, deleted=WORK)
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None
    assert world.host.live(SETTINGS)["data"] == {"value": "second"}


@pytest.mark.parametrize("preserve", [False, True])
async def test_object_that_names_another_work_is_left_to_it_after_a_restart(
    world: World, *, preserve: bool
) -> None:
    """Nothing else says so then: neither Work had to write it."""
    await applied(world, objects.config_map(value="first"), preserve=preserve)
    world.hub.seed(objects.work(objects.config_map(value="second"), name="web-2"))
    world.look()
    await world.execution.reconcile(OTHER)
    before = world.host.live(SETTINGS)
    world.hub.mark_deleted(WORK)
    world.restart()
    world.look()
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None
    assert world.host.live(SETTINGS) == before
    world.hub.mark_deleted(f"{WORKS}/web-2")
    world.look()
    await world.execution.reconcile(OTHER)
    assert world.host.find(SETTINGS) is None


async def test_object_of_two_works_that_are_both_deleted_is_removed(world: World) -> None:
    await in_two_works(world)
    world.hub.mark_deleted(WORK)
    world.look()
    for key in (OTHER, KEY):
        await world.execution.reconcile(key)
    assert world.host.find(SETTINGS) is None
    assert world.hub.listed(WORKS) == []


async def test_works_of_a_deleted_cluster_are_not_searched_for_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them stays, and a search by each of thousands takes minutes."""
    await in_two_works(world)
    world.hub.mark_deleted(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    searched: list[str] = []

    def of(_works: Works, _cluster: str, *namespace: str) -> list[Object]:
        searched.extend(namespace)
        return []

    monkeypatch.setattr(Works, "of", of)
    for key in (OTHER, KEY):
        await world.execution.reconcile(key)
    assert world.host.find(SETTINGS) is None
    assert searched == []


async def test_object_is_removed_once_the_other_work_is_about_another_one(world: World) -> None:
    await in_two_works(world)
    world.hub.seed(objects.work(objects.config_map(name="other")))
    world.look()
    await world.execution.reconcile(OTHER)
    assert world.host.find(SETTINGS) is None
    assert world.hub.find(f"{WORKS}/web-2") is None


async def test_namespace_of_two_works_is_left_to_the_one_that_stays(world: World) -> None:
    await applied(world, objects.namespace_manifest(), objects.config_map())
    world.hub.seed(objects.work(objects.namespace_manifest(), name="web-2"))
    world.look()
    await world.execution.reconcile(OTHER)
    world.hub.mark_deleted(f"{WORKS}/web-2")
    world.look()
    await world.execution.reconcile(OTHER)
    assert world.hub.find(f"{WORKS}/web-2") is None
    assert world.host.live(NAMESPACE)
    assert KEY in world.enqueued
