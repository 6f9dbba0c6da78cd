"""ExecutionController, deleting Works whose host namespace is not claimed, held, or terminating."""

import pytest

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.objects import Object, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, HOLD_ANNOTATION
from tests.fakes import objects
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works/web-1"
NAMESPACE = "/api/v1/namespaces/edge-v-branch-a"
SETTINGS = f"{NAMESPACE}/configmaps/settings"
OTHER = "/api/v1/namespaces/shop-v-branch-a/configmaps/settings"


def deleted(world: World, *manifests: Object, preserve: bool = False) -> None:
    world.register()
    spec = {"preserveResourcesOnDeletion": True} if preserve else {}
    world.hub.seed(objects.work(*manifests, spec=spec))
    world.hub.mark_deleted(WORK)
    # As the host answers an agent that has no rights there.
    world.host.fail(403, method="GET", path=SETTINGS, times=9)
    world.look()
    world.forget_requests()


@pytest.mark.parametrize("preserve", [False, True])
@pytest.mark.parametrize(
    "live",
    [
        None,
        objects.namespace("edge-v-branch-a"),
        objects.claimed(agent="another-agent"),
        objects.claimed(deletionTimestamp=objects.SINCE, finalizers=["example.com/wait"]),
    ],
    ids=["absent", "unclaimed", "of another agent", "terminating"],
)
async def test_work_is_finalised_where_nothing_of_it_can_be(
    world: World, live: Object | None, *, preserve: bool
) -> None:
    if live is not None:
        world.host.seed(live)
    deleted(world, objects.config_map(), preserve=preserve)
    await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is None
    assert world.host.writes() == []


async def test_claim_that_is_not_cached_yet_counts(world: World) -> None:
    deleted(world, objects.config_map())
    world.host.seed(objects.claimed())
    with pytest.raises(RetryError):
        await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is not None


@pytest.mark.parametrize("code", [403, 500])
async def test_work_waits_while_the_host_does_not_say_whether_it_is_claimed(
    world: World, code: int
) -> None:
    deleted(world, objects.config_map())
    world.host.fail(code, method="GET", path=NAMESPACE)
    with pytest.raises(RetryError):
        await world.execution.reconcile(KEY)
    assert world.hub.find(WORK) is not None


@pytest.mark.parametrize("preserve", [False, True])
async def test_held_namespace_does_not_keep_what_is_in_others(
    world: World, *, preserve: bool
) -> None:
    world.register()
    for namespace in ("edge", "shop"):
        await world.namespace_writer.claim(world.vc(), VirtualNamespace(namespace))
    spec = {"preserveResourcesOnDeletion": True} if preserve else {}
    other = objects.config_map()
    other["metadata"]["namespace"] = "shop"
    manifests = [objects.config_map(), other]
    world.hub.seed(objects.work(*manifests, spec=spec))
    world.look()
    await world.execution.reconcile(KEY)
    live = world.host.live(NAMESPACE)
    live["metadata"]["annotations"][HOLD_ANNOTATION] = "audit"
    world.host.seed(live)
    world.hub.mark_deleted(WORK)
    world.look()
    with pytest.raises(RetryError, match="NamespaceHeld"):
        await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is not None
    found = world.host.find(OTHER)
    assert CLUSTER_LABEL not in labels_of(found or {})
    assert (found is not None) == preserve
    assert world.hub.find(WORK) is not None
