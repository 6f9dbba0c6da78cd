"""The end of a claim: nothing of ours stays, no repair restores it, each step may be repeated."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from karmada_vc_agent.cluster.virtual_clusters import Phase
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import ApiError, InvalidError
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of
from karmada_vc_agent.model.virtual_cluster import ApplyAs, VirtualNamespace
from karmada_vc_agent.model.vocabulary import RELEASING_ANNOTATION
from karmada_vc_agent.translation.namespace_defaults import POD_SECURITY_LABEL
from karmada_vc_agent.translation.translate import HostObject, translate
from karmada_vc_agent.work.memory_bounds import ObjectIdentity
from karmada_vc_agent.work.namespace_writer import RESOURCES, begin_release, end_release
from tests.fakes import objects
from tests.fakes.policies import confine_to_claims
from tests.fakes.world import AGENT, World, new_world

EDGE = VirtualNamespace("edge")
HOST = "edge-v-branch-a"
PATH = f"/api/v1/namespaces/{HOST}"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{HOST}/rolebindings"
KEY = ("branch-a", EDGE)
SETTINGS: dict[str, Any] = {
    "adopt_namespaces": (HOST,),
    "quota": {"pods": "4"},
    "limits": ({"type": "Container", "default": {"cpu": "1"}},),
    "network_policy": "isolate",
    "pod_security": "restricted",
    "apply_as": ApplyAs("tenants", "a", "edit"),
}


def role_binding(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": HOST, "labels": labels},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "name": "vc:branch-a"}],
    }


@pytest.fixture
async def adopted() -> AsyncIterator[World]:
    """Return a world with one adopted namespace, where rights of tenants and of the agent are."""
    vc = objects.virtual_cluster(**SETTINGS)
    async with new_world(vc) as world:
        world.host.seed(objects.namespace(HOST, {"team": "red"}))
        await world.namespace_writer.claim(vc, EDGE)
        world.host.seed(
            role_binding("vc:crb:dev", **labels_of(world.host.live(PATH))),
            role_binding("vc:crb:preserved"),
            role_binding(f"vc-agent:{AGENT}"),
            role_binding(f"vc-agent:{AGENT}:kinds"),
            role_binding("theirs"),
        )
        for resource in RESOURCES.values():
            world.store_of(resource)
        world.look()
        world.forget_requests()
        yield world


def left(world: World) -> list[str]:
    """Return what is in the namespace, and which marks it has."""
    found = [each for path in RESOURCES.values() for each in world.host.listed(path.path(HOST))]
    live = world.host.live(PATH)
    marks = [*labels_of(live), *annotations_of(live)]
    return sorted([*(each["metadata"]["name"] for each in found), *marks])


async def release(world: World) -> None:
    await world.namespace_writer.release(world.vc(), EDGE, preserve=True)


async def test_nothing_of_ours_is_left_and_what_is_of_others_stays(adopted: World) -> None:
    assert POD_SECURITY_LABEL in left(adopted)
    await release(adopted)
    assert left(adopted) == ["team", "theirs"]


@pytest.mark.parametrize("patch", [1, 2])
async def test_another_namespace_under_the_name_is_left_alone(adopted: World, patch: int) -> None:
    """Of the two patches of a release, one meets it."""
    theirs = objects.namespace(HOST, {"team": "blue"})

    def recreate() -> None:
        if len(adopted.host.asked("PATCH", PATH)) == patch:
            adopted.host.remove(PATH)
            adopted.host.seed(theirs)

    adopted.host.before("PATCH", PATH, recreate, times=2)
    await release(adopted)
    assert left(adopted) == ["team"]
    assert labels_of(adopted.host.live(PATH)) == {"team": "blue"}


async def test_claim_that_was_released_is_not_cached_any_more(adopted: World) -> None:
    await release(adopted)
    assert adopted.claims.phase(HOST) is Phase.UNCLAIMED
    adopted.forget_requests()
    await adopted.namespaces.reconcile(KEY)
    assert adopted.host.writes() == []


@pytest.mark.parametrize("repairs_first", [False, True])
async def test_repair_at_the_same_time_brings_nothing_back(
    adopted: World, *, repairs_first: bool
) -> None:
    """Each deletion is a change of a default object, and enqueues the repair."""
    adopted.follow()
    adopted.host.remove(f"{PATH}/limitranges/vc-limits")
    repairs = [adopted.namespaces.reconcile(KEY) for _ in range(3)]
    calls = [*repairs, release(adopted)] if repairs_first else [release(adopted), *repairs]
    await asyncio.gather(*calls)
    assert left(adopted) == ["team", "theirs"]


async def test_rights_are_not_granted_while_the_claim_ends(adopted: World) -> None:
    """A ClusterRoleBinding that was set up for a namespace is not written after its release."""
    adopted.follow()
    granted: list[bool] = []

    async def grant() -> None:
        async with adopted.namespace_writer.equipped(adopted.vc(), HOST) as is_claimed:  # type: ignore[arg-type]  # a literal
            granted.append(is_claimed)
            if is_claimed:
                await asyncio.sleep(0.01)
                adopted.host.seed(role_binding("vc:crb:late"))

    await asyncio.gather(grant(), release(adopted), grant())
    assert granted == [True, False]
    assert left(adopted) == ["team", "theirs"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", f"{PATH}/limitranges/vc-limits"),
        ("DELETE", f"{RBAC}/vc-agent:{AGENT}"),
        ("GET", RBAC),
    ],
)
async def test_release_that_failed_is_ended_by_the_next_repair(
    adopted: World, method: str, path: str
) -> None:
    adopted.host.fail(500, method=method, path=path)
    with pytest.raises(ApiError):
        await release(adopted)
    assert adopted.claims.phase(HOST) is Phase.RELEASING
    adopted.restart()
    await adopted.namespaces.reconcile(KEY)
    assert left(adopted) == ["team", "theirs"]


async def test_nothing_is_applied_in_a_namespace_that_is_being_released(adopted: World) -> None:
    await begin_release(adopted.host_client, adopted.host.live(PATH), AGENT)
    adopted.look()
    with pytest.raises(RetryError, match="released"):
        await adopted.namespace_writer.claim(adopted.vc(), EDGE)
    assert left(adopted) == ["team", "theirs"]
    await adopted.namespace_writer.claim(adopted.vc(), EDGE)
    assert adopted.claims.phase(HOST) is Phase.CLAIMED


async def test_manifest_of_the_namespace_does_not_claim_what_is_being_released(
    adopted: World,
) -> None:
    adopted.follow()
    translated = translate(
        objects.namespace_manifest(), False, adopted.context_for(adopted.vc(), "karmada-es/edge-1")
    )
    assert isinstance(translated, HostObject)

    async def apply() -> None:
        with suppress(RetryError):
            await adopted.namespace_writer.apply(
                adopted.vc(), EDGE, translated.obj, lambda retained, _: retained
            )

    await asyncio.gather(apply(), release(adopted))
    assert left(adopted) == ["team", "theirs"]


@pytest.mark.parametrize("agent_first", [True, False])
async def test_two_processes_that_release_a_namespace_do_not_fail(
    adopted: World, *, agent_first: bool
) -> None:
    """`leave` is another process; policies deny what the agent does not claim any more."""
    adopted.follow()
    confine_to_claims(adopted.host)
    live = adopted.host.live(PATH)

    async def leave() -> None:
        begun = await begin_release(adopted.host_client, live, AGENT)
        await end_release(adopted.host_client, begun, AGENT)

    calls = [release(adopted), leave()] if agent_first else [leave(), release(adopted)]
    await asyncio.gather(*calls)
    assert left(adopted) == ["team", "theirs"]
    await leave()  # by what it read before
    assert left(adopted) == ["team", "theirs"]


async def test_release_that_is_denied_while_the_claim_holds_fails(adopted: World) -> None:
    adopted.host.fail(422, "Invalid", method="PATCH", path=PATH)
    with pytest.raises(InvalidError):
        await release(adopted)


async def test_release_can_be_repeated(adopted: World) -> None:
    live = await begin_release(adopted.host_client, adopted.host.live(PATH), AGENT)
    assert annotations_of(live)[RELEASING_ANNOTATION] == "true"
    for _ in range(2):
        await end_release(adopted.host_client, live, AGENT)
    assert left(adopted) == ["team", "theirs"]


async def test_marks_of_karmada_go_from_a_namespace_kept_by_its_identity(adopted: World) -> None:
    live = adopted.host.live(PATH)
    marks = {"work.karmada.io/name": "edge-1"}
    adopted.host.change(
        PATH, metadata={**live["metadata"], "annotations": {**annotations_of(live), **marks}}
    )
    live = await begin_release(adopted.host_client, adopted.host.live(PATH), AGENT)
    await end_release(adopted.host_client, ObjectIdentity(live), AGENT)
    assert left(adopted) == ["team", "theirs"]
