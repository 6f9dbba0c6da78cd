"""ClusterLeaseController: the Lease of a Cluster is made, renewed, found again."""

import functools
import itertools
from datetime import UTC, datetime

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.lease import LEASES_PATH, AgentCondition, ClusterLeaseController, Lead
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.model.vocabulary import LEASE_HOLDER_ANNOTATION
from tests.fakes.virtual_time import Clock
from tests.fakes.world import World

LEASE = f"{LEASES_PATH}/branch-a"
START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def controller(world: World, clock: Clock) -> ClusterLeaseController:
    world.register()
    world.look()
    return lease_controller(world, clock, Lead("first", lambda: True))


def lease_controller(world: World, clock: Clock, lead: Lead) -> ClusterLeaseController:
    now = lambda: datetime.fromtimestamp(clock(), UTC)  # noqa: E731 - short
    return ClusterLeaseController(world.hub_client, world.clusters, 40.0, 0.25, lead, now, clock)


async def renewed(controller: ClusterLeaseController) -> float:
    """Renew the Lease; return the seconds until it is due again."""
    outcome = await controller.reconcile("branch-a")
    assert outcome is not None
    return outcome.after_s


def touch(world: World) -> Object:
    live = world.hub.live(LEASE)
    return world.hub.change(LEASE, spec={**live["spec"], "holderIdentity": "other"})


async def test_lease_is_made_as_karmada_reads_it(
    world: World, controller: ClusterLeaseController
) -> None:
    await controller.reconcile("branch-a")
    lease = world.hub.live(LEASE)
    assert lease["spec"] == {
        "holderIdentity": "branch-a",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    assert lease["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "name": "branch-a",
            "uid": world.hub.live(f"{CLUSTERS_PATH}/branch-a")["metadata"]["uid"],
        }
    ]


async def test_lease_is_sent_without_who_wrote_which_field(
    world: World, controller: ClusterLeaseController
) -> None:
    await controller.reconcile("branch-a")
    live = world.hub.live(LEASE)
    fields = [{"manager": "agent", "operation": "Update", "fieldsV1": {"f:spec": {}}}]
    world.hub.seed({**live, "metadata": {**live["metadata"], "managedFields": fields}})
    controller._leases.clear()
    await controller.reconcile("branch-a")
    assert world.hub.writes()[-1].body["metadata"]["managedFields"] == [{}]


async def test_only_successful_renewals_are_reported(world: World) -> None:
    world.register()
    world.look()
    told: list[str] = []
    lead = Lead("first", lambda: True)
    controller = ClusterLeaseController(
        world.hub_client, world.clusters, 40.0, 0.25, lead, on_renewed=told.append
    )
    await controller.reconcile("branch-a")
    with world.hub.down(), pytest.raises(UnreachableError):
        await controller.reconcile("branch-a")
    assert told == ["branch-a"]


async def test_next_renewal_is_due_after_a_quarter_with_little_jitter(
    controller: ClusterLeaseController,
) -> None:
    await controller.reconcile("branch-a")
    for _ in range(20):
        assert 10.0 <= await renewed(controller) <= 10.4


async def test_first_period_of_a_lease_that_was_created_is_a_whole_one(
    world: World, clock: Clock
) -> None:
    world.register()
    world.hub.change(f"{CLUSTERS_PATH}/branch-a", status=None)
    world.look()
    lead = Lead("first", lambda: True)
    for _ in range(20):
        assert 10.0 <= await renewed(lease_controller(world, clock, lead)) <= 10.4
        world.hub.remove(LEASE)


async def test_first_period_of_a_lease_that_was_read_is_a_random_part_of_one(
    world: World, controller: ClusterLeaseController, clock: Clock
) -> None:
    await controller.reconcile("branch-a")
    lead = Lead("second", lambda: True)
    periods = [await renewed(lease_controller(world, clock, lead)) for _ in range(60)]
    assert 5.0 <= min(periods) < 8.5 < max(periods) <= 10.4


@pytest.mark.parametrize(("took_s", "least"), [(3.0, 7.0), (9.0, 5.0)])
async def test_next_renewal_counts_from_the_start_of_this_one_but_half_a_period_later_at_least(
    controller: ClusterLeaseController, took_s: float, least: float
) -> None:
    await controller.reconcile("branch-a")
    controller.clock = functools.partial(next, itertools.count(100.0, took_s))
    assert least <= await renewed(controller) <= least + 0.4


async def test_renewal_is_one_request(
    world: World, controller: ClusterLeaseController, clock: Clock
) -> None:
    await controller.reconcile("branch-a")
    world.forget_requests()
    clock.advance(10.5)
    await controller.reconcile("branch-a")
    assert [str(request) for request in world.hub.requests] == [f"PUT {LEASE}"]
    assert world.hub.live(LEASE)["spec"]["renewTime"] == "2026-01-01T00:00:10.500000Z"


async def test_lease_of_an_earlier_process_is_renewed_with_its_owner(
    world: World, controller: ClusterLeaseController
) -> None:
    owner = {"apiVersion": "v1", "kind": "Cluster", "name": "branch-a", "uid": "outdated"}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "branch-a",
            "namespace": "karmada-cluster",
            "ownerReferences": [owner],
        },
        "spec": {"holderIdentity": "branch-a", "renewTime": "2020-01-01T00:00:00.000000Z"},
    }
    world.hub.seed(lease)
    await controller.reconcile("branch-a")
    renewed = world.hub.live(LEASE)
    assert renewed["metadata"]["ownerReferences"] == [owner]
    assert renewed["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"


async def test_lease_changed_meanwhile_is_read_again(
    world: World, controller: ClusterLeaseController
) -> None:
    await controller.reconcile("branch-a")
    touch(world)
    with pytest.raises(NotReadyError):
        await controller.reconcile("branch-a")
    await controller.reconcile("branch-a")
    assert world.hub.live(LEASE)["spec"]["holderIdentity"] == "branch-a"


async def test_lease_that_was_collected_is_made_again(
    world: World, controller: ClusterLeaseController
) -> None:
    await controller.reconcile("branch-a")
    world.hub.remove(LEASE)
    with pytest.raises(NotReadyError):  # which no line of the log has for each Cluster
        await controller.reconcile("branch-a")
    await controller.reconcile("branch-a")
    assert world.hub.live(LEASE)


@pytest.mark.parametrize("status", ["False", "Unknown"])
async def test_lease_continues_while_the_cluster_is_not_ready(
    world: World, controller: ClusterLeaseController, status: str
) -> None:
    world.register(ready=status)
    world.look()
    assert await controller.reconcile("branch-a") is not None
    assert world.hub.live(LEASE)


async def test_lease_ends_with_its_cluster(
    world: World, controller: ClusterLeaseController
) -> None:
    await controller.reconcile("branch-a")
    world.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    world.forget_requests()
    assert await controller.reconcile("branch-a") is None
    assert world.hub.requests == []


async def test_cluster_registered_again_gets_a_fresh_lease(
    world: World, controller: ClusterLeaseController
) -> None:
    await controller.reconcile("branch-a")
    world.hub.remove(f"{CLUSTERS_PATH}/branch-a")
    world.look()
    await controller.reconcile("branch-a")
    world.hub.remove(LEASE)
    again = world.register()
    world.look()
    await controller.reconcile("branch-a")
    (owner,) = world.hub.live(LEASE)["metadata"]["ownerReferences"]
    assert owner["uid"] == again["metadata"]["uid"]


async def test_process_in_doubt_renews_as_long_as_no_other_does(
    world: World, controller: ClusterLeaseController, clock: Clock
) -> None:
    await controller.reconcile("branch-a")
    in_doubt = lease_controller(world, clock, Lead("first", lambda: False))
    clock.advance(10)
    await in_doubt.reconcile("branch-a")
    assert world.hub.live(LEASE)["spec"]["renewTime"] == "2026-01-01T00:00:10.000000Z"


async def test_process_in_doubt_yields_to_a_standby_that_took_over(
    world: World, controller: ClusterLeaseController, clock: Clock
) -> None:
    is_certain = True
    lead = Lead("second", lambda: is_certain)
    doubtful = lease_controller(world, clock, lead)
    await doubtful.reconcile("branch-a")
    is_certain = False
    await controller.reconcile("branch-a")
    with pytest.raises(NotReadyError):
        await doubtful.reconcile("branch-a")
    world.forget_requests()
    await doubtful.reconcile("branch-a")
    await doubtful.reconcile("branch-a")
    assert world.hub.writes() == []
    assert not lead.may_report()


async def test_lead_that_is_certain_again_takes_the_lease_back(
    world: World, controller: ClusterLeaseController, clock: Clock
) -> None:
    await controller.reconcile("branch-a")
    is_certain = False
    lead = Lead("second", lambda: is_certain)
    other = lease_controller(world, clock, lead)
    await other.reconcile("branch-a")
    assert not lead.may_report()
    is_certain = True
    await other.reconcile("branch-a")
    holder = world.hub.live(LEASE)["metadata"]["annotations"][LEASE_HOLDER_ANNOTATION]
    assert holder == "second"


async def test_standby_whose_clock_is_behind_continues_from_the_lease(world: World) -> None:
    """Karmada counts a renewal only if the time grew; else it calls the Cluster Unknown."""
    world.register()
    world.look()
    ahead = Clock(START + 150)
    await lease_controller(world, ahead, Lead("first", lambda: True)).reconcile("branch-a")
    told: list[tuple[str, float]] = []
    clock = Clock(START)
    standby = ClusterLeaseController(
        world.hub_client,
        world.clusters,
        40.0,
        0.25,
        Lead("second", lambda: True),
        lambda: datetime.fromtimestamp(clock(), UTC),
        on_skew=lambda name, ahead_s: told.append((name, ahead_s)),
    )
    times = [world.hub.live(LEASE)["spec"]["renewTime"]]
    for _ in range(3):
        await standby.reconcile("branch-a")
        clock.advance(10)
        times.append(world.hub.live(LEASE)["spec"]["renewTime"])
    assert times == sorted(set(times))
    assert told == [("branch-a", 150.0)]


async def test_lease_older_than_we_wrote_it_says_that_the_hub_was_rolled_back(
    world: World, clock: Clock, controller: ClusterLeaseController
) -> None:
    """Also where the versions of the hub have grown past where they were."""
    await controller.reconcile("branch-a")
    backup = world.hub.storage.backup()
    clock.advance(10)
    await controller.reconcile("branch-a")
    world.hub.storage.restore(backup)
    world.hub.storage.version += 1000
    with pytest.raises(NotReadyError):
        await controller.reconcile("branch-a")
    assert not world.hub_client.history.is_in_doubt
    await controller.reconcile("branch-a")
    assert world.hub_client.history.is_in_doubt


async def test_lease_of_another_writer_says_nothing_about_the_time(
    world: World, controller: ClusterLeaseController
) -> None:
    await controller.reconcile("branch-a")
    touch(world)
    with pytest.raises(NotReadyError):
        await controller.reconcile("branch-a")
    await controller.reconcile("branch-a")
    assert not world.hub_client.history.is_in_doubt


async def test_lease_of_an_unserved_virtual_cluster_names_no_one(
    world: World, controller: ClusterLeaseController, clock: Clock
) -> None:
    await controller.reconcile("branch-a")
    before = world.hub.live(LEASE)
    assert annotations_of(before)[LEASE_HOLDER_ANNOTATION] == "first"
    world.virtual_clusters.replace_all([world.vc("branch-b")])
    clock.advance(10.0)
    assert await controller.reconcile("branch-a") is None
    after = world.hub.live(LEASE)
    assert LEASE_HOLDER_ANNOTATION not in annotations_of(after)
    assert after["spec"] == before["spec"]
    world.forget_requests()
    await controller.reconcile("branch-a")
    assert world.hub.requests == []


async def test_lease_that_another_process_renews_by_now_is_left_to_it(
    world: World, controller: ClusterLeaseController
) -> None:
    await controller.reconcile("branch-a")
    other = touch(world)
    world.virtual_clusters.replace_all([world.vc("branch-b")])
    assert await controller.reconcile("branch-a") is None
    assert world.hub.live(LEASE) == other


async def test_missing_namespace_of_leases_is_one_error_until_it_is_there(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("branch-a", "branch-b")
    for name in names:
        world.register(name)
    world.look()
    namespace = AgentCondition()
    controller = ClusterLeaseController(
        world.hub_client, world.clusters, 40.0, 0.25, Lead("first", lambda: True),
        namespace=namespace,
    )  # fmt: skip
    text = 'namespaces "karmada-cluster" not found'
    world.hub.fail(404, "NotFound", method="POST", path=LEASES_PATH, message=text, times=2)
    for name in names:
        with pytest.raises(NotReadyError):
            await controller.reconcile(name)
    assert "run karmada-vc-agent join" in namespace.problem
    assert [r.levelname for r in caplog.records if r.message == "Cannot create Leases"] == ["ERROR"]
    for name in names:
        await controller.reconcile(name)
    assert namespace.problem == ""


async def test_new_lease_costs_one_request(
    world: World, controller: ClusterLeaseController
) -> None:
    world.register(ready=None)
    world.look()
    world.forget_requests()
    await controller.reconcile("branch-a")
    assert [request.method for request in world.hub.requests] == ["POST"]


async def test_lease_of_a_cluster_without_a_status_is_renewed(
    world: World, controller: ClusterLeaseController, clock: Clock
) -> None:
    await controller.reconcile("branch-a")
    world.register(ready=None)
    world.look()
    clock.advance(5)
    await lease_controller(world, clock, Lead("second", lambda: True)).reconcile("branch-a")
    assert world.hub.live(LEASE)["spec"]["renewTime"] == "2026-01-01T00:00:05.000000Z"
