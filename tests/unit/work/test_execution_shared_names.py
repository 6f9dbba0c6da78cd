"""ExecutionController: hosts that two virtual clusters want."""

import asyncio

import pytest

from karmada_vc_agent.kube.controller import Requeue, RetryError
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.reporting import Dependency
from tests.fakes import objects
from tests.fakes.world import World

A, B = ("branch-a", "web-1"), ("branch-b", "web-1")
SHOP = "shop.example.com"
HOST_DEPENDENCY = (SHOP,)
REFUSED = (
    'Failed to apply all manifests (0/1): virtual cluster "branch-b" refused Ingress edge/web: '
    'SharedHostConflict: spec.rules[0].host "shop.example.com" is used by another virtual cluster; '
    'an administrator can allow it with "allow: [SharedHosts]"'
)


def ingress(*hosts: str) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "web", "namespace": "edge", "labels": {"karmada.io/managed": "true"}},
        "spec": {"rules": [{"host": host} for host in hosts]},
    }


def on_host(name: str) -> str:
    return f"/apis/networking.k8s.io/v1/namespaces/edge-v-{name}/ingresses/web"


def work_of(name: str) -> str:
    return f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{name}/works/web-1"


async def carried_out(world: World, name: str, *hosts: str) -> Object:
    """Bring a Work with an Ingress and return its condition Applied."""
    work = objects.work(ingress(*hosts), vc=name)
    if world.hub.find(work_of(name)) is None:
        world.hub.seed(work)
    else:
        world.hub.change(work_of(name), spec=work["spec"])
    world.look()
    async with world.looking():
        await world.execution.reconcile((name, "web-1"))
    return applied(world, name)


def applied(world: World, name: str) -> Object:
    found: list[Object] = world.hub.live(work_of(name))["status"]["conditions"]
    return next(c for c in found if c["type"] == "Applied")


def freed_names(world: World) -> list[Dependency]:
    """Return a list of the dependencies that change from now on."""
    freed: list[Dependency] = []
    world.parts.common.signals.dependencies.subscribe(freed.extend)
    return freed


@pytest.fixture
def two(world: World) -> World:
    world.register("branch-a")
    world.register("branch-b")
    return world


async def test_second_of_one_host_is_reported(two: World) -> None:
    assert (await carried_out(two, "branch-a", SHOP))["status"] == "True"
    assert (await carried_out(two, "branch-b", SHOP, "own.example.com"))["status"] == "True"
    told = [text for _, reason, text in await two.events() if reason == "HostShared"]
    assert len(told) == 1
    assert told[0].startswith(f"host {SHOP} is also used by another virtual cluster")
    assert "branch-a" not in told[0]


async def test_two_hosts_of_one_virtual_cluster_are_not_reported(two: World) -> None:
    await carried_out(two, "branch-a", SHOP, SHOP)
    assert "HostShared" not in [reason for _, reason, _ in await two.events()]


async def test_second_is_refused_and_returns_when_the_first_is_removed(two: World) -> None:
    two.restart(refuse_shared_hosts=True)
    await carried_out(two, "branch-a", SHOP)
    two.hub.seed(objects.work(ingress(SHOP), vc="branch-b"))
    two.look()
    async with two.looking():
        rest = await two.execution.reconcile(B)
    assert isinstance(rest, Requeue)
    assert rest.dependencies == (HOST_DEPENDENCY,)
    assert applied(two, "branch-b")["message"] == REFUSED
    assert list(two.memory.refusals()) == [("branch-b", "SharedHostConflict")]
    assert two.host.find(on_host("branch-b")) is None
    freed = freed_names(two)
    two.host.remove(on_host("branch-a"))
    two.look()
    assert HOST_DEPENDENCY in freed
    await two.execution.reconcile(B)
    assert applied(two, "branch-b")["status"] == "True"


async def test_host_that_an_update_gives_up_is_free(two: World) -> None:
    two.restart(refuse_shared_hosts=True)
    await carried_out(two, "branch-a", SHOP)
    await carried_out(two, "branch-b", SHOP)
    freed = freed_names(two)
    await carried_out(two, "branch-a", "other.example.com")
    assert HOST_DEPENDENCY in freed
    await two.execution.reconcile(B)
    assert applied(two, "branch-b")["status"] == "True"


async def test_existing_object_is_not_refused_when_the_setting_is_added(two: World) -> None:
    await carried_out(two, "branch-a", SHOP)
    await carried_out(two, "branch-b", SHOP)
    two.restart(refuse_shared_hosts=True)
    assert (await carried_out(two, "branch-b", SHOP, "more.example.com"))["status"] == "True"
    await carried_out(two, "branch-a", SHOP, "taken.example.com")
    message = (await carried_out(two, "branch-b", SHOP, "taken.example.com"))["message"]
    assert 'spec.rules[1].host "taken.example.com" is used by another' in message


async def test_of_two_at_once_one_is_first(two: World) -> None:
    two.restart(refuse_shared_hosts=True)
    for name in ("branch-a", "branch-b"):
        await carried_out(two, name, f"{name}.example.com")
        work = objects.work(ingress(f"{name}.example.com", SHOP), vc=name)
        two.hub.change(work_of(name), spec=work["spec"])
    two.look()
    await asyncio.gather(two.execution.reconcile(A), two.execution.reconcile(B))
    states = sorted(applied(two, name)["status"] for name in ("branch-a", "branch-b"))
    assert states == ["False", "True"]


async def test_host_whose_write_fails_is_free_again(two: World) -> None:
    two.restart(refuse_shared_hosts=True)
    await carried_out(two, "branch-a", "own.example.com")
    two.host.fail(500, method="PUT", path=on_host("branch-a"))
    with pytest.raises(RetryError):
        await carried_out(two, "branch-a", SHOP)
    assert (await carried_out(two, "branch-b", SHOP))["status"] == "True"


async def test_nothing_is_given_away_before_all_is_listed(
    two: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("karmada_vc_agent.work.shared_objects.LOOKS", 2)
    two.restart(refuse_shared_hosts=True)
    two.hub.seed(objects.work(ingress(SHOP), vc="branch-b"))
    two.look()
    with pytest.raises(RetryError, match="waits for the host to list"):
        await two.execution.reconcile(B)
