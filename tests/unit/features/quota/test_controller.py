"""QuotaController: one step at a time, by what the server has confirmed."""

import asyncio

import pytest

from karmada_vc_agent.features.quota.feature import (
    QUOTA_DIVIDED,
    STALLED_AFTER_S,
    WORKLOADS,
    Divisions,
)
from karmada_vc_agent.features.quota.shares import Pending
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, HOLD_ANNOTATION, RELEASING_ANNOTATION
from karmada_vc_agent.work.namespace_writer import QUOTAS
from tests.fakes import objects, served
from tests.fakes.reported import Reported
from tests.fakes.world import World, new_world

NAMESPACES = [VirtualNamespace(name) for name in ("edge", "shop")]
APPS = tuple(
    served.Served(resource.gvk.api_version, resource.plural, resource.gvk.kind)
    for resource in WORKLOADS
    if resource.gvk.kind != "Deployment"
)


def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}-v-branch-a/resourcequotas/vc-quota"


def hard(world: World, namespace: str) -> str:
    found: str = world.host.live(path(namespace))["spec"]["hard"]["pods"]
    return found


def count(world: World, namespace: str, used: int = 0) -> None:
    """Let the server go by what the quota says."""
    live = world.host.live(path(namespace))
    world.host.seed({**live, "status": {**live["spec"], "used": {"pods": str(used)}}})


async def reconcile(world: World) -> None:
    for resource in (QUOTAS, *WORKLOADS):
        world.store_of(resource)
    world.look()
    await world.quotas.reconcile("branch-a")


async def given(world: World, *namespaces: VirtualNamespace) -> None:
    world.host.storage.served = [*world.host.storage.served, *APPS]
    for namespace in namespaces:
        await world.namespace_writer.claim(world.vc(), namespace)


async def test_shares_are_raised_once_every_namespace_is_counted() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "5"})) as world:
        await given(world, *NAMESPACES)
        count(world, "edge")
        await reconcile(world)
        assert (hard(world, "edge"), hard(world, "shop")) == ("0", "0")
        count(world, "shop")
        await reconcile(world)
        assert (hard(world, "edge"), hard(world, "shop")) == ("3", "2")


async def test_share_moves_to_the_workload_that_requests_it() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        for namespace in NAMESPACES:
            count(world, namespace)
        await reconcile(world)
        for namespace in NAMESPACES:
            count(world, namespace)
        deployment = objects.deployment("web", "shop-v-branch-a", replicas=4)
        deployment["metadata"]["labels"][CLUSTER_LABEL] = "branch-a"
        world.host.seed(deployment)
        await reconcile(world)
        assert (hard(world, "edge"), hard(world, "shop")) == ("0", "2")
        count(world, "edge")
        await reconcile(world)
        assert (hard(world, "edge"), hard(world, "shop")) == ("0", "4")


async def test_share_stays_the_giver_s_while_the_server_refuses_to_lower_it() -> None:
    """A raised share of which the status is under way: its quota changed since it was read."""
    async with new_world(objects.virtual_cluster(quota={"pods": "6"})) as world:
        await given(world, *NAMESPACES)
        for namespace in NAMESPACES:
            count(world, namespace)
        web = objects.deployment("web", "edge-v-branch-a", replicas=6)
        web["metadata"]["labels"][CLUSTER_LABEL] = "branch-a"
        world.host.seed(web)
        await reconcile(world)
        assert (hard(world, "edge"), hard(world, "shop")) == ("6", "0")
        web["spec"]["replicas"] = 0
        world.host.seed(web)
        db = objects.deployment("db", "shop-v-branch-a", replicas=6)
        db["metadata"]["labels"][CLUSTER_LABEL] = "branch-a"
        world.host.seed(db)
        world.host.fail(409, method="PUT", path=path("edge"))
        with pytest.raises(KubeError):
            await reconcile(world)
        assert (hard(world, "edge"), hard(world, "shop")) == ("6", "0")
        await reconcile(world)
        assert (hard(world, "edge"), hard(world, "shop")) == ("0", "0")


async def test_nothing_is_raised_while_a_namespace_has_no_quota() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        world.host.remove(path("shop"))
        count(world, "edge")
        await reconcile(world)
        assert hard(world, "edge") == "0"


async def test_what_is_applied_in_a_new_namespace_waits_until_its_share_is_enforced() -> None:
    edge, shop = NAMESPACES
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, shop)
        for _ in range(2):
            count(world, "shop")
            await reconcile(world)
        claim = asyncio.ensure_future(world.namespace_writer.claim_with_share(world.vc(), edge))
        steps = 0
        while not (await asyncio.wait([claim], timeout=1))[0]:
            for namespace in NAMESPACES:
                count(world, namespace)
            await reconcile(world)
            steps += 1
        assert await claim == "edge-v-branch-a"
        assert world.host.live(path("edge"))["status"]["hard"] == {"pods": "2"}
        assert steps == 3, "counted, the other one lowered, raised"


async def test_wait_for_a_share_ends_where_the_host_counts_nothing() -> None:
    edge, shop = NAMESPACES
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await world.namespace_writer.claim_with_share(world.vc(), edge)
        assert loop.time() - began_s == pytest.approx(STALLED_AFTER_S, abs=1)
        for _ in range(2):
            await reconcile(world)
        began_s = loop.time()
        await world.namespace_writer.claim_with_share(world.vc(), shop)
        assert loop.time() - began_s < 1, "it is stalled"


async def test_division_at_rest_writes_nothing() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        for _ in range(2):
            for namespace in NAMESPACES:
                count(world, namespace)
            world.forget_requests()
            await reconcile(world)
        assert world.host.writes() == []


async def test_workloads_are_awaited() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        with pytest.raises(RetryError, match="resourcequotas of the host are not listed yet"):
            await world.quotas.reconcile("branch-a")


async def test_virtual_cluster_without_a_quota_is_left_alone(world: World) -> None:
    await world.quotas.reconcile("branch-a")
    await world.quotas.reconcile("branch-z")
    assert world.host.requests == []


def quota_of_karmada(namespace: str, name: str) -> Object:
    """Return what a FederatedResourceQuota makes: a quota of the virtual cluster beside ours."""
    labels = {CLUSTER_LABEL: "branch-a", "karmada.io/managed": "true"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": f"{namespace}-v-branch-a", "labels": labels},
        "spec": {"hard": {"pods": "3"}},
        "status": {"hard": {"pods": "3"}, "used": {"pods": "0"}},
    }


@pytest.mark.parametrize("name", ["another", "zzz-last"])
async def test_other_quotas_of_the_same_namespace_change_nothing(name: str) -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        for namespace in NAMESPACES:
            count(world, namespace)
            world.host.seed(quota_of_karmada(namespace, name))
        await reconcile(world)
        assert (hard(world, "edge"), hard(world, "shop")) == ("2", "2")


def condition(world: World) -> tuple[str, str, str]:
    (found,) = Reported(world, "QuotaDivided").condition(world.vc(), {})
    return found["status"], found["reason"], found["message"]


async def test_stalled_division_is_a_condition_until_it_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        count(world, "edge")
        await reconcile(world)
        assert condition(world)[:2] == ("True", "Divided")
        world.skipped_s += STALLED_AFTER_S
        await reconcile(world)
        assert condition(world) == (
            "False",
            "NotCounted",
            "cannot raise shares of the quota: the host has not computed the usage of shop",
        )
        assert world.status_due == ["branch-a"]
        assert caplog.text.count("Not dividing the quota") == 1
        count(world, "shop")
        await reconcile(world)
        assert condition(world)[:2] == ("True", "Divided")
        assert world.status_due == ["branch-a"] * 2


async def test_namespace_without_its_quota_stalls_the_division() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        world.host.remove(path("shop"))
        count(world, "edge")
        await reconcile(world)
        world.skipped_s += STALLED_AFTER_S
        assert condition(world)[:2] == ("False", "NamespaceWithoutQuota")


async def test_quota_that_cannot_be_written_stalls_the_division() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        for namespace in NAMESPACES:
            count(world, namespace)
        world.host.fail(403, method="PUT", times=2 * len(NAMESPACES))
        for _ in range(2):
            with pytest.raises(KubeError):
                await reconcile(world)
            world.skipped_s += STALLED_AFTER_S
        assert condition(world)[:2] == ("False", "NotWritten")


async def test_condition_of_a_quota_that_was_taken_back_does_not_stay(world: World) -> None:
    assert Reported(world, "QuotaDivided").condition(world.vc(), {}) == []
    had = {"conditions": [QUOTA_DIVIDED.false("NotCounted", "m")]}
    (found,) = Reported(world, "QuotaDivided").condition(world.vc(), had)
    assert (found["status"], found["reason"]) == ("True", "NoQuota")


def stalls(world: World) -> dict[str, bool]:
    divisions = world.divisions
    return {name: divisions.stalled(name) is not None for name in divisions.waiting}


async def test_quota_that_was_taken_back_is_not_stalled_any_more() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        await reconcile(world)
        world.skipped_s += STALLED_AFTER_S
        await reconcile(world)
        assert stalls(world) == {"branch-a": True}
        world.virtual_clusters.put(objects.virtual_cluster())
        await world.quotas.reconcile("branch-a")
        assert stalls(world) == {}
        world.virtual_clusters.put(objects.virtual_cluster(quota={"pods": "4"}))
        await reconcile(world)
        assert stalls(world) == {"branch-a": False}
        assert world.status_due == ["branch-a"]


@pytest.mark.parametrize("mark", [HOLD_ANNOTATION, RELEASING_ANNOTATION, "deletionTimestamp"])
async def test_namespace_that_is_held_or_ends_does_not_stop_the_quota_of_the_others(
    mark: str,
) -> None:
    spaces = [*NAMESPACES, VirtualNamespace("zoo")]
    async with new_world(objects.virtual_cluster(quota={"pods": "6"})) as world:
        await given(world, *spaces)
        for _ in range(2):
            for namespace in spaces:
                count(world, namespace)
            await reconcile(world)
        live = world.host.live("/api/v1/namespaces/shop-v-branch-a")
        marked = (
            live["metadata"] if mark == "deletionTimestamp" else live["metadata"]["annotations"]
        )
        marked[mark] = objects.SINCE
        world.host.seed(live)
        deployment = objects.deployment("web", "zoo-v-branch-a", replicas=4)
        deployment["metadata"]["labels"][CLUSTER_LABEL] = "branch-a"
        world.host.seed(deployment)
        for _ in range(2):
            await reconcile(world)
            for namespace in spaces:
                count(world, namespace)
        assert [hard(world, namespace) for namespace in spaces] == ["0", "2", "4"]


async def test_quota_that_cannot_be_written_stops_no_other() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        for namespace in NAMESPACES:
            count(world, namespace)
        world.host.fail(403, method="PUT", path=path("edge"))
        with pytest.raises(KubeError):
            await reconcile(world)
        assert [hard(world, namespace) for namespace in NAMESPACES] == ["0", "2"]


async def test_quota_in_a_namespace_that_is_not_claimed_any_more_counts_nowhere() -> None:
    async with new_world(objects.virtual_cluster(quota={"pods": "4"})) as world:
        await given(world, *NAMESPACES)
        for namespace in NAMESPACES:
            count(world, namespace)
        live = world.host.live("/api/v1/namespaces/shop-v-branch-a")
        live["metadata"]["labels"] = {}
        world.host.seed(live)
        world.forget_requests()
        await reconcile(world)
        assert hard(world, "edge") == "4"
        assert world.host.asked("PUT", path("shop")) == []


def test_wait_in_one_namespace_is_one_wait_however_many_others_are_added_and_removed() -> None:
    now = [100.0]
    divisions = Divisions(lambda: now[0])
    for second in range(int(STALLED_AFTER_S)):
        others = (f"new-{second}", "stuck")
        divisions.note("branch-a", Pending("NamespaceWithoutQuota", "no quota in", others))
        assert divisions.stalled("branch-a") is None
        now[0] += 1.0

    pending = Pending("NamespaceWithoutQuota", "no quota in", ("last", "stuck"))
    divisions.note("branch-a", pending)

    assert divisions.stalled("branch-a") == pending


@pytest.mark.parametrize(
    "other",
    [Pending("NotCounted", "not counted", ("a",)), Pending("NamespaceWithoutQuota", "no", ("b",))],
    ids=["reason", "namespaces"],
)
def test_wait_for_another_reason_or_in_other_namespaces_is_another_wait(other: Pending) -> None:
    now = [100.0]
    divisions = Divisions(lambda: now[0])
    divisions.note("branch-a", Pending("NamespaceWithoutQuota", "no", ("a",)))
    now[0] += STALLED_AFTER_S
    divisions.note("branch-a", other)

    assert divisions.stalled("branch-a") is None
