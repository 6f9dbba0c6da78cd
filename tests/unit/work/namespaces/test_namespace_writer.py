"""NamespaceWriter: the adoption matrix of rewriting-rules 1.2, Namespace manifests, release."""

import asyncio
from typing import Any

import pytest

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import ConflictError
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.model.vocabulary import (
    ADOPTED_ANNOTATION,
    AGENT_LABEL,
    ALLOW_ADOPTION_ANNOTATION,
    CLUSTER_LABEL,
    CREATED_BY_AGENT_ANNOTATION,
    DOMAIN,
    NAMESPACE_LABEL,
    NODE_SELECTOR_ANNOTATION,
)
from karmada_vc_agent.translation.kind_policy import Code, RefusedError
from karmada_vc_agent.translation.translate import HostObject, translate
from tests.fakes import objects
from tests.fakes.world import AGENT, World, new_world

EDGE = VirtualNamespace("edge")
PATH = "/api/v1/namespaces/edge-v-branch-a"
CLAIM = {CLUSTER_LABEL: "branch-a", NAMESPACE_LABEL: "edge", AGENT_LABEL: AGENT}
SELECTOR = {NODE_SELECTOR_ANNOTATION: "branch=a"}


def given(world: World, *found: Object) -> None:
    if found:
        world.host.seed(*found)
    world.look()
    world.forget_requests()


def created(**metadata: Any) -> Object:
    annotations = {CREATED_BY_AGENT_ANNOTATION: "true", **SELECTOR}
    return objects.claimed(annotations=annotations, **metadata)


async def refusal(world: World) -> Code:
    before = world.host.listed("/api/v1/namespaces")
    with pytest.raises(RefusedError) as raised:
        await world.namespace_writer.claim(world.vc(), EDGE)
    assert world.host.listed("/api/v1/namespaces") == before
    return raised.value.refusal.code


# --- claim -----------------------------------------------------------------------------------


async def test_absent_namespace_is_made_with_claim_and_selector(world: World) -> None:
    assert await world.namespace_writer.claim(world.vc(), EDGE) == "edge-v-branch-a"
    live = world.host.live(PATH)
    assert labels_of(live).items() >= CLAIM.items()
    assert vocabulary.MANAGED_LABEL not in labels_of(live)
    assert annotations_of(live)[CREATED_BY_AGENT_ANNOTATION] == "true"
    assert annotations_of(live)[NODE_SELECTOR_ANNOTATION] == "branch=a"


async def test_claim_is_cached_at_once(world: World) -> None:
    await world.namespace_writer.claim(world.vc(), EDGE)
    assert world.claims.of("branch-a") == {"edge": "edge-v-branch-a"}
    world.forget_requests()
    await world.namespace_writer.claim(world.vc(), EDGE)
    assert world.host.requests == []


async def test_namespace_claimed_for_this_pair_is_used(world: World) -> None:
    given(world, objects.claimed(host="other-name", annotations=SELECTOR))
    assert await world.namespace_writer.claim(world.vc(), EDGE) == "other-name"
    assert world.host.writes() == []


async def test_own_claim_that_the_watch_has_not_shown_is_used(world: World) -> None:
    world.host.seed(objects.claimed(annotations=SELECTOR))
    assert await world.namespace_writer.claim(world.vc(), EDGE) == "edge-v-branch-a"
    assert [request.method for request in world.host.writes()] == ["POST"]


@pytest.mark.parametrize(
    "foreign",
    [
        objects.claimed(vc="branch-b", host="edge-v-branch-a"),
        objects.claimed(virtual="other", host="edge-v-branch-a"),
        objects.claimed(agent="another-agent"),
    ],
    ids=["cluster", "namespace", "agent"],
)
async def test_namespace_claimed_by_another_is_refused(world: World, foreign: Object) -> None:
    given(world, foreign)
    assert await refusal(world) == Code.NAMESPACE_CLAIM_CONFLICT


async def test_unclaimed_namespace_is_refused(world: World) -> None:
    given(world, objects.namespace("edge-v-branch-a"))
    assert await refusal(world) == Code.NAMESPACE_NOT_OWNED


async def test_unclaimed_namespace_that_allows_another_cluster_is_refused(world: World) -> None:
    allow = {ALLOW_ADOPTION_ANNOTATION: "branch-b"}
    given(world, objects.namespace("edge-v-branch-a", annotations=allow))
    assert await refusal(world) == Code.NAMESPACE_NOT_OWNED


async def test_namespace_that_allows_it_is_adopted(world: World) -> None:
    allow = {ALLOW_ADOPTION_ANNOTATION: "branch-a", "mine": "kept"}
    given(world, objects.namespace("edge-v-branch-a", {"team": "red"}, annotations=allow))
    await world.namespace_writer.claim(world.vc(), EDGE)
    live = world.host.live(PATH)
    assert labels_of(live) == {"team": "red", **CLAIM}
    assert annotations_of(live).items() >= {ADOPTED_ANNOTATION: "true", "mine": "kept"}.items()
    assert annotations_of(live)[NODE_SELECTOR_ANNOTATION] == "branch=a"
    assert CREATED_BY_AGENT_ANNOTATION not in annotations_of(live)


async def test_namespace_named_in_the_settings_is_adopted() -> None:
    vc = objects.virtual_cluster(adopt_namespaces=("edge-v-branch-a",))
    async with new_world(vc) as world:
        given(world, objects.namespace("edge-v-branch-a"))
        await world.namespace_writer.claim(vc, EDGE)
        assert annotations_of(world.host.live(PATH))[ADOPTED_ANNOTATION] == "true"


async def test_namespace_of_the_host_is_the_one_of_its_name() -> None:
    vc = objects.virtual_cluster(adopt_namespaces=("edge",))
    marks = {vocabulary.WORK_NAMESPACE_ANNOTATION: "karmada-es-whole", "mine": "kept"}
    async with new_world(vc) as world:
        given(world, objects.namespace("edge", annotations=marks))
        assert await world.namespace_writer.claim(vc, EDGE) == "edge"
        live = world.host.live("/api/v1/namespaces/edge")
        assert labels_of(live).items() >= CLAIM.items()
        assert vocabulary.WORK_NAMESPACE_ANNOTATION not in annotations_of(live)
        assert annotations_of(live)["mine"] == "kept"


async def test_namespace_of_a_former_name_is_taken_over() -> None:
    vc = objects.virtual_cluster("shop-7", former_names=("branch-a",))
    async with new_world(vc) as world:
        given(world, created())
        assert await world.namespace_writer.claim(vc, EDGE) == "edge-v-branch-a"
        live = world.host.live(PATH)
        assert labels_of(live).items() >= (CLAIM | {CLUSTER_LABEL: "shop-7"}).items()
        assert annotations_of(live)[CREATED_BY_AGENT_ANNOTATION] == "true"
        assert world.claims.of("shop-7") == {"edge": "edge-v-branch-a"}
        assert world.claims.of("branch-a") == {}
        assert await world.namespace_writer.claim(vc, VirtualNamespace("new")) == "new-v-branch-a"


HERE = "edge-v-branch-a"
THEIRS = objects.namespace(HERE, {"team": "red"})


@pytest.mark.parametrize(
    ("found", "settings"),
    [
        (objects.claimed(annotations={NODE_SELECTOR_ANNOTATION: "branch=z"}), {}),
        (created(), {"pod_security": "restricted"}),
        (objects.claimed(vc="former", host=HERE), {"former_names": ("former",)}),
        (objects.namespace(HERE), {"adopt_namespaces": (HERE,)}),
        (created(), {}),
    ],
    ids=["selector", "Pod Security", "former name", "adopted", "managed"],
)
async def test_another_namespace_under_the_name_is_not_patched(
    found: Object, settings: dict[str, Any]
) -> None:
    async with new_world(objects.virtual_cluster(**settings)) as world:
        given(world, found)

        def recreate() -> None:
            world.host.remove(PATH)
            world.host.seed(THEIRS)

        world.host.before("PATCH", PATH, recreate)
        with pytest.raises(ConflictError):
            await apply_manifest(world)
        live = world.host.live(PATH)
        assert labels_of(live) == labels_of(THEIRS)
        assert annotations_of(live) == annotations_of(THEIRS)


async def test_namespace_of_a_former_name_that_is_served_is_left() -> None:
    vc = objects.virtual_cluster("shop-7", former_names=("branch-a",))
    async with new_world(vc, objects.virtual_cluster()) as world:
        given(world, created())
        with pytest.raises(RefusedError, match="NamespaceClaimConflict"):
            await world.namespace_writer.claim(vc, EDGE)


async def test_terminating_namespace_is_waited_for(world: World) -> None:
    given(world, created(deletionTimestamp=objects.SINCE, finalizers=["example.com/wait"]))
    with pytest.raises(RetryError, match="NamespaceTerminating"):
        await world.namespace_writer.claim(world.vc(), EDGE)


async def test_two_namespaces_that_claim_the_same_are_both_refused(world: World) -> None:
    given(world, objects.claimed(), objects.claimed(host="second"))
    assert await refusal(world) == Code.NAMESPACE_CLAIM_CONFLICT
    world.host.remove("/api/v1/namespaces/second")
    world.look()
    assert await world.namespace_writer.claim(world.vc(), EDGE) == "edge-v-branch-a"


async def test_claims_made_at_the_same_time_make_one_namespace(world: World) -> None:
    await asyncio.gather(*(world.namespace_writer.claim(world.vc(), EDGE) for _ in range(5)))
    assert [request.method for request in world.host.writes()] == ["POST"]
    assert not world.namespace_writer._locks, "a lock is kept that nobody waits for"


# --- the Namespace manifest of a Work ------------------------------------------------------------


async def apply_manifest(world: World) -> object:
    context = world.context_for(world.vc(), "karmada-es-branch-a/edge-1")
    translated = translate(objects.namespace_manifest(), False, context)
    assert isinstance(translated, HostObject)
    return await world.namespace_writer.apply(
        world.vc(), EDGE, translated.obj, lambda retained, _: retained
    )


async def test_manifest_makes_the_namespace_managed(world: World) -> None:
    assert await apply_manifest(world) is not None
    live = world.host.live(PATH)
    assert labels_of(live)[vocabulary.MANAGED_LABEL] == "true"
    assert labels_of(live).items() >= CLAIM.items()


async def test_manifest_takes_over_a_namespace_claimed_before_it_arrived(world: World) -> None:
    await world.namespace_writer.claim(world.vc(), EDGE)
    assert await apply_manifest(world) is not None
    live = world.host.live(PATH)
    assert labels_of(live)[vocabulary.MANAGED_LABEL] == "true"
    assert annotations_of(live)[f"{DOMAIN}/work"] == "karmada-es-branch-a/edge-1"


async def test_manifest_applied_twice_writes_once(world: World) -> None:
    await apply_manifest(world)
    world.look()
    world.forget_requests()
    await apply_manifest(world)
    assert world.host.writes() == []


async def test_manifest_makes_nothing_on_demand() -> None:
    async with new_world(objects.virtual_cluster(namespaces="OnDemand")) as world:
        assert await apply_manifest(world) is None
        assert world.host.writes() == []
        await world.namespace_writer.claim(world.vc(), EDGE)
        assert await apply_manifest(world) is not None


# --- release -------------------------------------------------------------------------------------


async def release(world: World, *, preserve: bool = False) -> None:
    await world.namespace_writer.release(world.vc(), EDGE, preserve=preserve)


def our_keys(live: Object) -> list[str]:
    keys = [*labels_of(live), *annotations_of(live)]
    return [key for key in keys if DOMAIN in key or "karmada.io" in key or "node-selector" in key]


async def test_created_namespace_is_deleted_with_its_uid(world: World) -> None:
    given(world, created())
    uid = world.host.live(PATH)["metadata"]["uid"]
    await release(world)
    assert world.host.find(PATH) is None
    (deletion,) = world.host.asked("DELETE", PATH)
    assert deletion.body["preconditions"] == {"uid": uid}


async def test_adopted_namespace_stays_and_loses_the_claim(world: World) -> None:
    annotations = {ADOPTED_ANNOTATION: "true", "mine": "kept", **SELECTOR}
    given(world, objects.claimed(annotations=annotations))
    await release(world)
    live = world.host.live(PATH)
    assert our_keys(live) == []
    assert annotations_of(live) == {"mine": "kept"}


async def test_claimed_namespace_of_unknown_origin_stays(world: World) -> None:
    given(world, objects.claimed())
    await release(world)
    assert our_keys(world.host.live(PATH)) == []


async def test_preserved_namespace_stays_and_loses_the_claim(world: World) -> None:
    given(world, created())
    await release(world, preserve=True)
    assert our_keys(world.host.live(PATH)) == []


async def test_deleted_namespace_is_released(world: World) -> None:
    await release(world)
    assert world.host.requests == []


async def test_namespace_recreated_meanwhile_is_not_deleted(world: World) -> None:
    given(world, created())
    world.host.remove(PATH)
    world.host.seed(created())
    with pytest.raises(ConflictError):
        await release(world)
    assert world.host.find(PATH) is not None
    world.look()
    await release(world)
    assert world.host.find(PATH) is None, "the queue tries again, by what is cached then"


async def test_terminating_namespace_is_not_deleted_again(world: World) -> None:
    given(world, created(deletionTimestamp=objects.SINCE, finalizers=["example.com/wait"]))
    await release(world)
    assert world.host.writes() == []
