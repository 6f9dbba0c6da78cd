"""ExecutionController, applying: what a Work becomes on the host and in its status."""

import asyncio
from typing import Any

import orjson
import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.virtual_clusters import NODE_GROUP
from karmada_vc_agent.features.checkpoint.entries import encoded
from karmada_vc_agent.kube.controller import NotReadyError, RetryError
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    labels_of,
)
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, NAMESPACE_LABEL, WORK_ANNOTATION
from karmada_vc_agent.work.reporting import kind_dependency
from tests.fakes import objects
from tests.fakes.misled import mislead
from tests.fakes.served import Served
from tests.fakes.world import HUB_JUDGES, NOW, World, fill

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
DEPLOYMENT = "/apis/apps/v1/namespaces/edge-v-branch-a/deployments/web"
SETTINGS = "/api/v1/namespaces/edge-v-branch-a/configmaps/settings"


def conditions(world: World) -> dict[str, tuple[str, str]]:
    found = world.hub.live(WORK)["status"]["conditions"]
    return {c["type"]: (c["status"], c["reason"]) for c in found}


def applied(world: World) -> Object:
    found: list[Object] = world.hub.live(WORK)["status"]["conditions"]
    return next(c for c in found if c["type"] == "Applied")


def given(world: World, *manifests: Object, **spec: Any) -> None:
    """Put a registered, ready Cluster and a Work there, or change the Work."""
    work = objects.work(*manifests, spec=spec)
    if world.hub.find(f"{CLUSTERS_PATH}/branch-a") is None:
        world.register()
    if world.hub.find(WORK) is None:
        world.hub.seed(work)
    else:
        world.hub.change(WORK, spec=work["spec"])
    world.look()
    world.forget_requests()


async def reconcile(world: World) -> None:
    await world.execution.reconcile(KEY)


async def test_manifest_becomes_a_host_object_on_the_nodes_of_its_cluster(world: World) -> None:
    given(world, objects.deployment())
    await reconcile(world)
    live = world.host.live(DEPLOYMENT)
    assert live["spec"]["template"]["spec"]["nodeSelector"] == {"branch": "a"}
    assert labels_of(live)[CLUSTER_LABEL] == "branch-a"
    assert labels_of(live)[NAMESPACE_LABEL] == "edge"
    assert annotations_of(live)[WORK_ANNOTATION] == "karmada-es-branch-a/web-1"


async def test_success_is_one_status_write(world: World) -> None:
    given(world, objects.deployment(), objects.config_map())
    await reconcile(world)
    assert [str(request) for request in world.hub.writes()] == [f"PUT {WORK}/status"]
    assert conditions(world) == {
        "Dispatching": ("True", "Dispatching"),
        "Applied": ("True", "AppliedSuccessful"),
    }
    assert {c["lastTransitionTime"] for c in world.hub.live(WORK)["status"]["conditions"]} == {NOW}


@pytest.mark.parametrize("is_drift", [False, True], ids=["own", "drift"])
async def test_only_what_others_change_meanwhile_needs_another_sync(
    world: World, *, is_drift: bool
) -> None:
    """The watches are faster than the answers here."""
    given(world, objects.deployment(), objects.config_map())
    world.enqueued.clear()
    world.follow()
    if is_drift:
        world.host.before("POST", SETTINGS.rpartition("/")[0], lambda: _scale(world))
    await reconcile(world)
    assert world.enqueued == ([KEY] if is_drift else [])


def _scale(world: World) -> None:
    world.host.change(DEPLOYMENT, spec=world.host.live(DEPLOYMENT)["spec"] | {"replicas": 7})


async def test_status_has_an_entry_for_each_manifest_with_virtual_names(world: World) -> None:
    given(world, objects.deployment(), objects.config_map())
    await reconcile(world)
    entries = world.hub.live(WORK)["status"]["manifestStatuses"]
    assert [entry["identifier"] for entry in entries] == [
        {
            "ordinal": 0,
            "group": "apps",
            "version": "v1",
            "kind": "Deployment",
            "resource": "",
            "namespace": "edge",
            "name": "web",
        },
        {
            "ordinal": 1,
            "version": "v1",
            "kind": "ConfigMap",
            "resource": "",
            "namespace": "edge",
            "name": "settings",
        },
    ]


async def test_without_work_status_what_is_reported_stays_as_it_is(world: World) -> None:
    given(world, objects.config_map())
    identifier = {"ordinal": 0, "version": "v1", "kind": "ConfigMap", "resource": ""}
    before = [{"identifier": {**identifier, "namespace": "edge", "name": "settings"}}]
    world.hub.change(f"{WORK}/status", status={"manifestStatuses": before})
    world.restart(controllers=f"-workStatus,{HUB_JUDGES}")
    await world.execution.reconcile(KEY)
    assert conditions(world)["Applied"] == ("True", "AppliedSuccessful")
    assert world.hub.live(WORK)["status"]["manifestStatuses"] == before
    assert world.host.live(SETTINGS)["data"] == {"value": "1"}


async def test_second_reconcile_writes_nothing(world: World) -> None:
    given(world, objects.namespace_manifest(), objects.deployment(), objects.config_map())
    await reconcile(world)
    world.look()
    world.forget_requests()
    await reconcile(world)
    assert world.hub.writes() == []
    assert world.host.writes() == []


async def test_second_reconcile_writes_nothing_though_the_watch_has_not_shown_the_first(
    world: World,
) -> None:
    given(world, objects.deployment())
    await reconcile(world)
    world.forget_requests()
    await reconcile(world)
    assert world.hub.writes() == []
    assert world.host.writes() == []


async def test_another_process_writes_and_reports_nothing_that_is_right(world: World) -> None:
    given(world, objects.namespace_manifest(), objects.deployment(), objects.config_map())
    await reconcile(world)
    told = await world.events()
    world.restart()
    world.forget_requests()
    await reconcile(world)
    assert await world.events() == told
    assert world.hub.writes() == []
    assert world.host.writes() == []


async def test_another_process_reports_what_it_had_to_write(world: World) -> None:
    given(world, objects.config_map())
    await reconcile(world)
    world.host.change(SETTINGS, data={"value": "by hand"})
    told = await world.events()
    world.restart()
    world.forget_requests()
    await reconcile(world)
    assert [str(request) for request in world.host.writes()] == [f"PUT {SETTINGS}"]
    assert len(await world.events()) > len(told)


def restart_from_a_checkpoint(world: World) -> None:
    """Go on as another process that has the Work of a checkpoint: the hub is slow to list it."""
    saved = encoded(world.hub.live(WORK))
    assert saved is not None
    world.restart()
    store = world.works.store("branch-a")
    assert store is not None
    store.replace_all([])
    store.is_synced = False
    store.seed([orjson.loads(saved)])
    world.forget_requests()


async def test_process_started_with_a_checkpoint_reports_nothing_unchanged(
    world: World,
) -> None:
    given(world, objects.deployment())
    await reconcile(world)
    told = await world.events()
    restart_from_a_checkpoint(world)
    await reconcile(world)
    world.look()
    await reconcile(world)
    assert await world.events() == told
    assert world.host.writes() == []


async def test_list_during_the_sync_of_a_checkpointed_work_repeats_no_event(
    world: World,
) -> None:
    given(world, objects.deployment())
    await reconcile(world)
    told = await world.events()
    restart_from_a_checkpoint(world)
    sync = asyncio.ensure_future(reconcile(world))
    await asyncio.sleep(0)
    world.look()
    await sync
    await reconcile(world)
    assert await world.events() == told


async def test_events_after_a_checkpoint_wait_until_the_hub_lists_the_work(
    world: World,
) -> None:
    given(world, objects.config_map())
    await reconcile(world)
    told = await world.events()
    world.host.remove(SETTINGS)
    restart_from_a_checkpoint(world)
    await reconcile(world)
    assert [str(request) for request in world.host.writes()] == [
        f"POST {SETTINGS.rpartition('/')[0]}"
    ]
    assert await world.events() == told
    for _ in range(2):
        world.look()
        await reconcile(world)
    reasons = [reason for _, reason, _ in await world.events()]
    assert len(reasons) > len(told)
    assert (
        reasons.count("SyncSucceed") == [reason for _, reason, _ in told].count("SyncSucceed") * 2
    )


async def test_empty_work_is_applied(world: World) -> None:
    given(world)
    await reconcile(world)
    assert conditions(world)["Applied"] == ("True", "AppliedSuccessful")


async def test_changed_manifest_is_written_once(world: World) -> None:
    given(world, objects.config_map(value="1"))
    await reconcile(world)
    given(world, objects.config_map(value="2"))
    await reconcile(world)
    assert world.host.live(SETTINGS)["data"] == {"value": "2"}
    assert [request.method for request in world.host.writes()] == ["PUT"]


async def test_drift_on_the_host_is_put_right(world: World) -> None:
    given(world, objects.config_map(value="1"))
    await reconcile(world)
    world.host.seed({**world.host.live(SETTINGS), "data": {"value": "by hand"}})
    world.look()
    await reconcile(world)
    assert world.host.live(SETTINGS)["data"] == {"value": "1"}


async def test_new_status_on_the_host_is_reflected_without_a_write_to_the_host(
    world: World,
) -> None:
    given(world, objects.deployment(replicas=2))
    await reconcile(world)
    live = world.host.live(DEPLOYMENT)
    status = {
        "observedGeneration": live["metadata"]["generation"],
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
    }
    world.host.seed({**live, "status": status})
    world.look()
    world.forget_requests()
    await reconcile(world)
    assert world.host.writes() == []
    (entry,) = world.hub.live(WORK)["status"]["manifestStatuses"]
    assert entry["status"]["availableReplicas"] == 2
    assert entry["health"] == "Healthy"


async def test_suspended_work_is_not_applied_and_says_so(world: World) -> None:
    given(world, objects.config_map(), suspendDispatching=True)
    await reconcile(world)
    assert world.host.writes() == []
    assert conditions(world) == {"Dispatching": ("False", "SuspendDispatching")}


async def test_paused_virtual_cluster_has_nothing_written_until_it_resumes(world: World) -> None:
    given(world, objects.config_map())
    world.virtual_clusters.put(objects.virtual_cluster(paused=True))
    await reconcile(world)
    assert world.host.writes() == []
    assert conditions(world) == {"Dispatching": ("False", "SuspendDispatching")}
    world.virtual_clusters.put(objects.virtual_cluster())
    await reconcile(world)
    assert conditions(world)["Applied"] == ("True", "AppliedSuccessful")


async def test_suspended_work_keeps_the_entries_it_has(world: World) -> None:
    given(world, objects.config_map())
    await reconcile(world)
    before = world.hub.live(WORK)["status"]["manifestStatuses"]
    given(world, objects.config_map(value="2"), suspendDispatching=True)
    await reconcile(world)
    assert world.hub.live(WORK)["status"]["manifestStatuses"] == before
    assert conditions(world)["Applied"] == ("True", "AppliedSuccessful")


@pytest.mark.parametrize("status", ["False", "Unknown", None])
async def test_work_waits_while_its_cluster_is_not_ready(world: World, status: str | None) -> None:
    world.register(ready=status)
    given(world, objects.config_map())
    with pytest.raises(NotReadyError, match=r"cluster\(branch-a\) not ready"):
        await reconcile(world)
    assert world.host.writes() == []
    assert world.hub.writes() == []


async def test_work_of_a_cluster_that_is_not_ours_is_left_alone(world: World) -> None:
    world.hub.seed(objects.cluster("branch-a", "foreign", conditions=[objects.ready()]))
    world.hub.seed(objects.work(objects.config_map()))
    world.look()
    await reconcile(world)
    assert world.host.writes() == world.hub.writes() == []


async def test_deleted_work_is_done(world: World) -> None:
    world.register()
    world.look()
    await reconcile(world)
    assert world.host.writes() == world.hub.writes() == []


async def test_failing_manifest_does_not_stop_the_others(world: World) -> None:
    given(world, objects.config_map("bad"), objects.config_map("settings"))
    world.host.seed(objects.claimed())
    world.look()
    world.host.fail(500, method="POST", path=SETTINGS.rpartition("/")[0], message="disk full")
    with pytest.raises(RetryError, match="disk full"):
        await reconcile(world)
    assert world.host.live(SETTINGS)
    assert applied(world)["reason"] == "AppliedFailed"
    assert applied(world)["message"] == "Failed to apply all manifests (1/2): disk full"
    entries = world.hub.live(WORK)["status"]["manifestStatuses"]
    assert [entry["identifier"]["ordinal"] for entry in entries] == [1]


async def test_success_after_a_failure_clears_it(world: World) -> None:
    given(world, objects.config_map())
    world.host.seed(objects.claimed())
    world.look()
    world.host.fail(500, method="POST", path=SETTINGS.rpartition("/")[0])
    with pytest.raises(RetryError):
        await reconcile(world)
    await reconcile(world)
    assert conditions(world)["Applied"] == ("True", "AppliedSuccessful")


async def test_answer_of_the_host_names_no_host_namespace(world: World) -> None:
    given(world, objects.config_map())
    world.host.seed(objects.claimed())
    world.look()
    path = SETTINGS.rpartition("/")[0]
    world.host.fail(
        403, "Forbidden", method="POST", path=path, message='denied in "edge-v-branch-a"'
    )
    with pytest.raises(RetryError):
        await reconcile(world)
    assert applied(world)["message"].endswith('denied in "edge"')


async def test_unserved_kind_fails_and_is_retried(world: World) -> None:
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "w"}}
    given(world, gadget)
    with pytest.raises(RetryError):
        await reconcile(world)
    text = 'no matches for kind "Gadget" in version "example.com/v1"'
    assert applied(world)["message"] == f"Failed to apply all manifests (0/1): {text}"


async def test_kind_that_is_served_elsewhere_is_looked_for_again(world: World) -> None:
    given(world, objects.config_map())
    await mislead(world)
    with pytest.raises(RetryError) as raised:
        await reconcile(world)
    assert applied(world)["message"].endswith("the server could not find the requested resource")
    gvk = GroupVersionKind("", "v1", "ConfigMap")
    assert raised.value.dependencies == (kind_dependency(gvk),)
    await reconcile(world)
    assert conditions(world)["Applied"] == ("True", "AppliedSuccessful")
    assert world.host.find(SETTINGS)


async def test_host_that_is_away_fails_the_whole_work_without_a_condition(world: World) -> None:
    given(world, objects.config_map())
    await world.host_discovery.refresh()
    with world.host.down(), pytest.raises(Exception, match="host http"):
        await reconcile(world)
    assert world.hub.writes() == []


async def test_foreign_object_is_reported_in_karmadas_words(world: World) -> None:
    given(world, objects.config_map())
    world.host.seed(objects.claimed())
    foreign = objects.config_map(ns="edge-v-branch-a")
    foreign["metadata"]["labels"] = {}
    world.host.seed(foreign)
    world.look()
    with pytest.raises(RetryError):
        await reconcile(world)
    assert applied(world)["message"] == (
        "Failed to apply all manifests (0/1): resource(kind=ConfigMap, edge/settings) already "
        "exists in the cluster branch-a and the work.karmada.io/conflict-resolution strategy "
        "value is empty, Karmada will not manage this resource"
    )


async def test_work_changed_by_another_writer_meanwhile_still_gets_its_status(
    world: World,
) -> None:
    given(world, objects.config_map())

    def annotate() -> None:
        live = world.hub.live(WORK)
        world.hub.seed({**live, "metadata": {**live["metadata"], "annotations": {"a": "b"}}})

    world.hub.before("PUT", f"{WORK}/status", annotate)
    await reconcile(world)
    assert conditions(world)["Applied"] == ("True", "AppliedSuccessful")
    assert annotations_of(world.hub.live(WORK)) == {"a": "b"}


async def test_change_that_met_the_status_write_is_still_notified_by_the_watch(
    world: World,
) -> None:
    given(world, objects.config_map())
    world.hub.before("PUT", f"{WORK}/status", lambda: world.hub.mark_deleted(WORK))
    await reconcile(world)
    told: list[bool] = []

    def note(old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None:
            told.append(old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"])

    store = world.works.store("branch-a")
    assert store is not None
    store.add_handler(note)
    world.look()
    assert told == [True]


async def test_status_of_a_work_is_not_written_to_its_successor(world: World) -> None:
    given(world, objects.config_map())

    def recreate() -> None:
        world.hub.remove(WORK)
        world.hub.seed(objects.work(objects.config_map(value="2")))

    world.hub.before("PUT", f"{WORK}/status", recreate)
    await reconcile(world)
    assert "status" not in world.hub.live(WORK)
    world.look()
    await reconcile(world)
    assert world.host.live(SETTINGS)["data"] == {"value": "2"}
    assert conditions(world)["Applied"] == ("True", "AppliedSuccessful")


async def test_status_is_not_written_to_a_work_deleted_by_now(world: World) -> None:
    given(world, objects.config_map())
    world.hub.before("PUT", f"{WORK}/status", lambda: world.hub.mark_deleted(WORK))
    await reconcile(world)
    assert "status" not in world.hub.live(WORK)


async def test_suspended_successor_of_a_refused_work_counts_no_refusal(world: World) -> None:
    given(world, objects.deployment(nodeSelector={"branch": "b"}))
    await reconcile(world)
    assert list(world.memory.refusals()) == [("branch-a", "NodeSelectorConflict")]
    world.hub.remove(WORK)
    given(world, objects.deployment(), suspendDispatching=True)
    await reconcile(world)
    assert list(world.memory.refusals()) == []


async def test_successor_of_a_work_is_reported_like_a_new_one(world: World) -> None:
    given(world, objects.config_map())
    await reconcile(world)
    status = world.hub.live(WORK)["status"]
    await world.events()
    world.hub.remove(WORK)
    world.hub.seed({**objects.work(objects.config_map()), "status": status})
    before = len(await world.events())
    world.look()
    await reconcile(world)
    told = [(kind, reason) for kind, reason, _ in (await world.events())[before:]]
    assert ("Work", "SyncSucceed") in told


async def test_foreign_conditions_of_a_work_are_kept(world: World) -> None:
    given(world, objects.config_map())
    other = objects.condition("Degraded", "True", "Why", "so")
    world.hub.seed({**world.hub.live(WORK), "status": {"conditions": [other]}})
    world.look()
    await reconcile(world)
    assert other in world.hub.live(WORK)["status"]["conditions"]


async def test_events_name_the_work_and_the_template(world: World) -> None:
    given(world, objects.deployment())
    await reconcile(world)
    told = await world.events()
    assert ("Work", "WorkDispatching", "Work is being dispatched to member clusters.") in told
    text = "Sync work(karmada-es-branch-a/web-1) to cluster(branch-a) successful."
    assert ("Work", "SyncSucceed", text) in told
    text = "Successfully applied resource(edge/web) to cluster branch-a"
    assert ("Deployment", "SyncSucceed", text) in told


async def test_failure_is_an_event_on_work_and_template(world: World) -> None:
    given(world, objects.deployment(nodeSelector={"branch": "b"}))
    await reconcile(world)
    told = {(kind, reason) for kind, reason, _ in await world.events()}
    assert ("Work", "NodeSelectorConflict") in told
    assert ("Work", "SyncFailed") in told
    assert ("Deployment", "SyncFailed") in told


async def test_nothing_new_is_reported_when_nothing_changed(world: World) -> None:
    given(world, objects.deployment())
    await reconcile(world)
    told = await world.events()
    world.look()
    await reconcile(world)
    assert await world.events() == told


async def test_work_with_a_node_group_waits_until_the_groups_are_listed(world: World) -> None:
    """As after a change of the leader: a store that is not listed has no word of any group."""
    api = NODE_GROUP.api_version
    world.host.storage.served += [
        Served(api, "nodegroups", "NodeGroup", namespaced=False, is_custom=True),
        Served(api, "edgeapplications", "EdgeApplication", has_generation=True, is_custom=True),
    ]
    world.host.seed(
        {
            "apiVersion": api,
            "kind": "NodeGroup",
            "metadata": {"name": "east"},
            "spec": {"matchLabels": {"branch": "a"}},
        }
    )
    scope = {"targetNodeGroups": [{"name": "east"}]}
    made = {
        "apiVersion": api,
        "kind": "EdgeApplication",
        "metadata": objects.managed("web", "edge"),
        "spec": {"workloadScope": scope, "workloadTemplate": {"manifests": []}},
    }
    given(world, made)
    with pytest.raises(UnreachableError, match="has not listed its NodeGroups yet"):
        await reconcile(world)
    assert world.hub.writes() == [], "nothing is reported"
    groups = await world.find_resource(NODE_GROUP)
    assert groups is not None
    store = world.parts.works.group_informers.store(groups)
    assert store is not None
    fill(store, world.host, groups.path())
    await reconcile(world)
    assert applied(world)["status"] == "True"
