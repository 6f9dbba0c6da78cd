"""RegistrationController: which Clusters are made, changed, left alone."""

import pytest

from karmada_vc_agent.cluster.hub_clusters import (
    CLUSTERS_PATH,
    AgentState,
    ClusterRecord,
    cluster_id,
    host_id,
)
from karmada_vc_agent.cluster.registration import REFUSED_RETRY, settings_digest
from karmada_vc_agent.features.gateway.gateway_controllers import ClusterAccess
from karmada_vc_agent.kube.controller import ControllerSpec, NotReadyError, Requeue
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnreachableError,
)
from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.model.virtual_cluster import LabelSelector, Requirement, VirtualCluster
from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION, HOST_LABEL
from karmada_vc_agent.runner import controllers
from tests.fakes import objects
from tests.fakes.storage import DEFAULT_MODELS
from tests.fakes.world import AGENT, AGENT_NAMESPACE, HOST_UID, World

CLUSTER = f"{CLUSTERS_PATH}/branch-a"
STATE = f"/api/v1/namespaces/{AGENT_NAMESPACE}/configmaps/{AGENT}-state"
RICH = objects.virtual_cluster(
    "branch-a",
    cluster_labels={"tier": "edge"},
    provider="acme",
    region="south",
    zones=("s1", "s2"),
    taints=({"key": "edge", "effect": "NoSchedule"},),
)


async def controller(
    world: World, *, reregister: tuple[str, ...] = ()
) -> tuple[ControllerSpec[str], AgentState]:
    """Return a controller, as after a start: with what an earlier one left behind."""
    world.host.seed(objects.namespace(AGENT_NAMESPACE))
    world.restart(reregister=reregister)
    state = world.parts.common.state
    await state.load()
    made = world.spec(controllers.registration)
    world.forget_requests()
    return made, state


async def of_leave(world: World) -> AgentState:
    """Return the state as `leave` knows it, which is another process."""
    state = AgentState(world.host_client, AGENT_NAMESPACE, AGENT)
    await state.load()
    return state


async def register(world: World, *, reregister: tuple[str, ...] = ()) -> Requeue | None:
    made, _ = await controller(world, reregister=reregister)
    return await made.reconcile("branch-a")


async def test_new_virtual_cluster_is_registered_for_pull(world: World) -> None:
    assert await register(world) is None
    cluster = world.hub.live(CLUSTER)
    assert cluster["spec"] == {
        "id": cluster_id(HOST_UID, "branch-a"),
        "syncMode": "Pull",
        "resourceModels": DEFAULT_MODELS,
    }


async def test_settings_of_a_virtual_cluster_are_on_its_cluster(world: World) -> None:
    world.virtual_clusters.put(RICH)
    await register(world)
    cluster = world.hub.live(CLUSTER)
    assert cluster["metadata"]["labels"] == {"tier": "edge", HOST_LABEL: host_id(HOST_UID)}
    described = {key: cluster["spec"][key] for key in ("provider", "region", "zones", "taints")}
    assert described == {
        "provider": "acme",
        "region": "south",
        "zones": ["s1", "s2"],
        "taints": [{"key": "edge", "effect": "NoSchedule"}],
    }


async def test_registration_is_remembered_on_the_host(world: World) -> None:
    _, state = await controller(world)
    await register(world)
    await state.load()
    record = state.cluster("branch-a")
    assert record == ClusterRecord(
        world.hub.live(CLUSTER)["metadata"]["uid"], settings_digest(world.vc())
    )


async def test_registered_cluster_that_fits_costs_no_request(world: World) -> None:
    await register(world)
    made, _ = await controller(world)
    assert await made.reconcile("branch-a") is None
    assert world.hub.requests == []
    assert world.host.requests == []


async def test_cluster_that_lost_a_setting_gets_it_back(world: World) -> None:
    world.virtual_clusters.put(RICH)
    await register(world)
    live = world.hub.live(CLUSTER)
    world.hub.change(CLUSTER, spec={**live["spec"], "region": "north"})
    await register(world)
    assert world.hub.live(CLUSTER)["spec"]["region"] == "south"


async def test_labels_and_taints_of_operators_are_kept(world: World) -> None:
    world.virtual_clusters.put(RICH)
    await register(world)
    live = world.hub.live(CLUSTER)
    cordon = {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
    world.hub.change(
        CLUSTER,
        metadata={**live["metadata"], "labels": {"mine": "yes"}},
        spec={**live["spec"], "taints": [cordon]},
    )
    await register(world)
    after = world.hub.live(CLUSTER)
    ours = {"tier": "edge", HOST_LABEL: host_id(HOST_UID)}
    assert after["metadata"]["labels"] == {"mine": "yes", **ours}
    assert after["spec"]["taints"] == [cordon]


async def test_changed_settings_add_their_taints(world: World) -> None:
    await register(world)
    live = world.hub.live(CLUSTER)
    cordon = {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
    world.hub.change(CLUSTER, spec={**live["spec"], "taints": [cordon]})
    world.virtual_clusters.put(RICH)
    await register(world)
    assert world.hub.live(CLUSTER)["spec"]["taints"] == [
        cordon,
        {"key": "edge", "effect": "NoSchedule"},
    ]


async def test_models_of_the_settings_replace_those_of_the_hub(world: World) -> None:
    await register(world)
    models = [{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "9223372036854775807"}]}]
    world.virtual_clusters.put(objects.virtual_cluster("branch-a", resource_models=tuple(models)))
    await register(world)
    assert world.hub.live(CLUSTER)["spec"]["resourceModels"] == models


async def test_a_new_cluster_is_one_request_to_the_hub(world: World) -> None:
    """Karmada completes it by several updates, with which another one would be in conflict."""
    await register(world)
    assert [str(request) for request in world.hub.writes()] == [f"POST {CLUSTERS_PATH}"]


async def test_what_others_write_too_is_changed_only_as_it_was_read(world: World) -> None:
    await register(world)
    world.virtual_clusters.put(RICH)
    version = world.hub.live(CLUSTER)["metadata"]["resourceVersion"]
    await register(world)
    patch = world.hub.writes()[-1].body
    assert patch["spec"].keys() >= {"taints"}
    assert patch["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize("error", [AlreadyExistsError, InvalidError, NotFoundError])
async def test_what_prepares_the_access_to_a_new_cluster_fails_by_itself(
    world: World, error: type[ApiError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only answers to writes of the Cluster say that it is refused, or there by now."""

    async def fails(_access: ClusterAccess, _vc: VirtualCluster) -> Object:
        raise error(400, "Failed", "the namespace is missing")

    monkeypatch.setattr(ClusterAccess, "fields_of_new", fails)
    made, _ = await controller(world)
    with pytest.raises(error):
        await made.reconcile("branch-a")
    troubles = world.parts.common.registrations.troubles
    assert troubles["branch-a"] == "the namespace is missing"
    assert world.hub.writes() == []


async def test_name_that_another_cluster_has_is_not_touched(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = world.hub.seed(objects.cluster("branch-a", "another-id"))
    made, _ = await controller(world)
    for _ in range(3):
        assert await made.reconcile("branch-a") == REFUSED_RETRY
    assert world.hub.live(CLUSTER) == foreign
    assert world.hub.writes() == []
    own_id = cluster_id(HOST_UID, "branch-a")
    assert [r.__dict__.get("reason") for r in caplog.records if r.levelname == "ERROR"] == [
        f"the cluster ID {own_id} or the cluster name branch-a has been registered"
    ]


async def test_id_that_another_name_has_is_not_registered_twice(world: World) -> None:
    world.hub.seed(objects.cluster("renamed", cluster_id(HOST_UID, "branch-a")))
    assert await register(world) == REFUSED_RETRY
    assert world.hub.find(CLUSTER) is None


async def test_nothing_is_registered_before_the_hub_has_listed_the_name(world: World) -> None:
    made, _ = await controller(world)
    world.parts.common.stores.clusters.has_listed = lambda _: False
    with pytest.raises(NotReadyError, match=r"has not listed cluster\(branch-a\)"):
        await made.reconcile("branch-a")
    assert world.hub.requests == []


async def test_clusters_of_others_do_not_matter(world: World) -> None:
    world.hub.seed(objects.cluster("member-1", "another-id"))
    assert await register(world) is None
    assert world.hub.find(CLUSTER)


async def deleted(world: World) -> None:
    """Register a Cluster, and delete it on the hub while the agent looks."""
    await register(world)
    mark(world)
    await register(world)
    world.hub.remove(CLUSTER)


def mark(world: World) -> None:
    """Delete the Cluster, which its finalizer keeps."""
    live = world.hub.live(CLUSTER)
    world.hub.seed({**live, "metadata": {**live["metadata"], "finalizers": ["a.example/b"]}})
    world.hub.mark_deleted(CLUSTER)


async def test_cluster_that_vanished_is_registered_again(world: World) -> None:
    """A hub that was restored to before the registration did not delete it."""
    await register(world)
    before = world.hub.live(CLUSTER)["metadata"]["uid"]
    world.hub.remove(CLUSTER)
    await register(world)
    assert world.hub.live(CLUSTER)["metadata"]["uid"] != before
    world.hub.remove(CLUSTER)
    await register(world)
    assert world.hub.find(CLUSTER)


async def test_deletion_is_recorded_although_the_cluster_was_removed_unseen(
    world: World,
) -> None:
    await register(world)
    made, state = await controller(world)
    mark(world)
    world.look()
    world.hub.remove(CLUSTER)
    world.look()
    await made.reconcile("branch-a")
    assert world.hub.find(CLUSTER) is None
    record = state.cluster("branch-a")
    assert record is not None
    assert record.was_deleted


async def test_deleted_cluster_that_a_restored_hub_has_again_is_served_again(world: World) -> None:
    await register(world)
    live = world.hub.live(CLUSTER)
    mark(world)
    await register(world)
    world.hub.remove(CLUSTER)
    world.hub.seed(live)
    made, state = await controller(world)
    await made.reconcile("branch-a")
    record = state.cluster("branch-a")
    assert record is not None
    assert not record.was_deleted
    assert not world.parts.common.registrations.stays_away("branch-a")


async def test_cluster_deleted_on_the_hub_stays_deleted_over_restarts(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await deleted(world)
    for _ in range(2):
        assert await register(world) is None
    assert world.hub.find(CLUSTER) is None
    assert any("Not registering a Cluster" in message for message in caplog.messages)


async def test_cluster_deleted_on_the_hub_returns_with_new_settings(world: World) -> None:
    await deleted(world)
    world.virtual_clusters.put(RICH)
    await register(world)
    assert world.hub.live(CLUSTER)["spec"]["region"] == "south"


async def test_virtual_cluster_that_left_stays_away_even_with_new_settings(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    _, state = await controller(world)
    await state.remember("branch-a", ClusterRecord("", "", has_left=True))
    assert await register(world) is None
    assert world.hub.find(CLUSTER) is None
    assert any("that has left" in message for message in caplog.messages)
    await register(world, reregister=("branch-a",))
    assert world.hub.find(CLUSTER)


async def test_virtual_cluster_that_left_while_it_was_not_served_stays_away(world: World) -> None:
    await register(world)
    made, state = await controller(world)
    known = state.cluster("branch-a")
    assert known is not None
    left = await of_leave(world)
    await left.remember("branch-a", ClusterRecord(known.uid, known.settings, has_left=True))
    world.hub.remove(CLUSTER)
    world.look()
    await made.reconcile("branch-a")
    assert world.hub.find(CLUSTER) is None
    assert world.parts.common.registrations.stays_away("branch-a")


async def test_cluster_deleted_on_the_hub_returns_once_on_request(world: World) -> None:
    await deleted(world)
    made, _ = await controller(world, reregister=("branch-a",))
    await made.reconcile("branch-a")
    assert world.hub.find(CLUSTER)
    mark(world)
    world.look()
    world.hub.remove(CLUSTER)
    world.look()
    await made.reconcile("branch-a")
    assert world.hub.find(CLUSTER) is None


async def test_cluster_that_is_being_deleted_is_not_changed(world: World) -> None:
    world.virtual_clusters.put(RICH)
    world.register()
    world.hub.mark_deleted(CLUSTER)
    assert await register(world) is None
    assert world.hub.writes() == []


async def test_cluster_without_a_record_is_taken_over_and_recorded(world: World) -> None:
    world.register()
    made, state = await controller(world)
    await made.reconcile("branch-a")
    record = state.cluster("branch-a")
    assert record is not None
    assert record.uid == world.hub.live(CLUSTER)["metadata"]["uid"]


async def test_cluster_that_the_hub_refuses_is_tried_again_quietly(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.hub.fail(422, "Invalid", method="POST", times=2, message="spec.region: Invalid value")
    made, _ = await controller(world)
    for _ in range(2):
        assert await made.reconcile("branch-a") == REFUSED_RETRY
    errors = [r for r in caplog.records if r.levelname == "ERROR"]
    assert [r.__dict__["reason"] for r in errors] == ["spec.region: Invalid value"]
    assert await made.reconcile("branch-a") is None
    assert world.hub.find(CLUSTER)


async def test_change_that_the_hub_refuses_is_tried_again_quietly(world: World) -> None:
    await register(world)
    world.virtual_clusters.put(RICH)
    world.hub.fail(422, "Invalid", method="PATCH")
    assert await register(world) == REFUSED_RETRY


async def test_registration_seen_by_the_server_only_is_waited_for(world: World) -> None:
    world.hub.before("POST", CLUSTERS_PATH, world.register)
    made, _ = await controller(world)
    outcome = await made.reconcile("branch-a")
    assert outcome is not None
    assert outcome.after_s < 5
    world.look()
    assert await made.reconcile("branch-a") is None


async def test_cluster_changed_meanwhile_is_tried_again(world: World) -> None:
    await register(world)
    world.virtual_clusters.put(RICH)
    world.hub.before("PATCH", CLUSTER, world.register)
    with pytest.raises(ConflictError):
        await register(world)
    await register(world)
    assert world.hub.live(CLUSTER)["spec"]["region"] == "south"


async def test_missing_right_is_left_to_the_queue(world: World) -> None:
    world.hub.fail(403, "Forbidden", method="POST")
    with pytest.raises(ForbiddenError):
        await register(world)


def test_digest_of_settings_changes_with_any_of_them_and_not_with_their_order() -> None:
    expression = Requirement("a", "In", frozenset(("x", "y", "z")))
    same = Requirement("a", "In", frozenset(("z", "y", "x")))
    digests = [
        settings_digest(objects.virtual_cluster("branch-a", node_selector=selector))
        for selector in (
            LabelSelector({}, (expression,)),
            LabelSelector({}, (same,)),
            LabelSelector({"a": "x"}),
        )
    ]
    assert digests[0] == digests[1] != digests[2]
    assert settings_digest(RICH) != settings_digest(objects.virtual_cluster("branch-a"))


async def test_cluster_says_which_agent_serves_it(world: World) -> None:
    world.restart(agent_name="one")
    await register(world)
    assert annotations_of(world.hub.live(CLUSTER)) == {AGENT_ANNOTATION: "agents/one"}


async def test_cluster_of_an_older_version_is_taken_over_by_its_agent(world: World) -> None:
    world.register()
    world.restart(agent_name="one")
    await register(world)
    assert annotations_of(world.hub.live(CLUSTER))[AGENT_ANNOTATION] == "agents/one"
    world.look()
    await register(world)
    assert world.hub.writes() == []


async def test_the_younger_of_two_agents_steps_back_until_the_cluster_is_given_up(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.register(annotations={AGENT_ANNOTATION: "agents/one"})
    world.restart(agent_name="two")
    assert await register(world) == REFUSED_RETRY
    assert world.hub.writes() == []
    assert world.clusters.ours("branch-a") is None
    assert world.clusters.other_agent("branch-a") == "agents/one"
    assert not world.clusters.is_ready("branch-a")
    text = caplog.records[-1].__dict__["reason"]
    assert "Cluster branch-a is served by agent agents/one" in text
    assert "kubectl annotate cluster branch-a virtualcluster.kubeedge.io/served-by-" in text
    given_up = {**world.hub.live(CLUSTER)["metadata"], "annotations": {}}
    world.hub.change(CLUSTER, metadata=given_up)
    assert await register(world) is None
    assert annotations_of(world.hub.live(CLUSTER))[AGENT_ANNOTATION] == "agents/two"


async def test_what_leave_noted_is_kept_when_the_deletion_is_noted(world: World) -> None:
    world.register()
    await register(world)
    made, state = await controller(world)
    by_leave = await of_leave(world)
    known = by_leave.cluster("branch-a")
    assert known is not None
    await by_leave.remember("branch-a", ClusterRecord(known.uid, known.settings, has_left=True))
    world.hub.mark_deleted(CLUSTER)
    world.look()
    await made.reconcile("branch-a")
    record = state.cluster("branch-a")
    assert record is not None
    assert (record.has_left, record.was_deleted) == (True, True)
    world.forget_requests()
    await made.reconcile("branch-a")
    assert world.host.requests == []


async def test_returning_virtual_cluster_is_again_reported_as_unregistered(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.hub.seed(objects.cluster("branch-a", "another-id"))
    made, _ = await controller(world)
    vc = world.vc()
    for _ in range(2):
        world.virtual_clusters.put(vc)
        await made.reconcile("branch-a")
        world.virtual_clusters.replace_all([world.vc("branch-b")])
        await made.reconcile("branch-a")
    assert caplog.messages.count("Not registered") == 2


async def test_trouble_is_reported_until_it_is_over(world: World) -> None:
    world.hub.seed(objects.cluster("branch-a", "somebody-else"))
    made, _ = await controller(world)
    registrations = world.parts.common.registrations
    await made.reconcile("branch-a")
    assert "has been registered" in (registrations.troubles.get("branch-a") or "")
    world.hub.remove(CLUSTER)
    world.look()
    with world.hub.down(), pytest.raises(UnreachableError):
        await made.reconcile("branch-a")
    assert registrations.troubles.get("branch-a")
    await made.reconcile("branch-a")
    assert registrations.troubles.get("branch-a") is None
