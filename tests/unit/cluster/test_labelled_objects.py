"""labelled_objects: which kinds may be passed over."""

import tracemalloc

import pytest

from karmada_vc_agent.cluster.host_objects import labelled_objects
from karmada_vc_agent.kube.errors import ApiError, ExpiredError, KubeError, UnreadableError
from karmada_vc_agent.model.vocabulary import SHARED_LABEL
from tests.fakes.pages import PAGES, PageFault
from tests.fakes.world import World

WIDGETS = "/apis/example.com/v1/widgets"


async def listed(world: World) -> list[str]:
    served = await world.host_discovery.refresh()
    shared = labelled_objects(world.host_client, served, SHARED_LABEL)
    return [found["metadata"]["name"] async for _, found in shared]


def seed(world: World) -> None:
    metadata = {"name": "urgent", "labels": {SHARED_LABEL: "true"}}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1}
    world.host.seed({**kind, "metadata": metadata})


async def test_kind_whose_own_server_is_away_is_passed_over(world: World) -> None:
    seed(world)
    world.host.fail(503, method="GET", path=WIDGETS, times=9)
    assert await listed(world) == ["urgent"]


async def test_kind_of_kubernetes_that_is_away_is_reported(world: World) -> None:
    seed(world)
    world.host.fail(503, method="GET", path="/apis/batch/v1/jobs", times=9)
    with pytest.raises(ApiError):
        await listed(world)


async def test_custom_kind_that_is_away_is_reported(world: World) -> None:
    """A proxy responds so as well, and a kind with a definition has no server of its own."""
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    world.host.seed({**definition, "metadata": {"name": "widgets.example.com"}})
    world.host.fail(503, method="GET", path=WIDGETS, times=9)
    with pytest.raises(ApiError):
        await listed(world)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
async def test_page_in_place_of_a_list_is_reported(world: World, page: PageFault) -> None:
    seed(world)
    served = await world.host_discovery.refresh()
    world.host.answer(page.body, page.code, times=1_000_000)
    is_of_some = page in (PAGES["403 Status"], PAGES["500 Status"])  # a Status is about one kind
    for namespaces in (None,) if is_of_some else (None, ("edge",)):
        with pytest.raises(KubeError):
            async for _ in labelled_objects(world.host_client, served, SHARED_LABEL, namespaces):
                pass


async def test_list_that_expires_is_not_taken_for_all_there_is(world: World) -> None:
    served = await world.host_discovery.refresh()
    world.host.fail(410, "Expired", method="GET", path=WIDGETS)
    with pytest.raises(ExpiredError):
        async for _ in labelled_objects(world.host_client, served, SHARED_LABEL, ("edge",)):
            pass


async def test_only_a_server_behind_the_api_server_lists_without_a_version(world: World) -> None:
    seed(world)
    empty = b'{"kind":"List","metadata":{},"items":[]}'
    world.host.answer(empty, path=WIDGETS, times=9)
    assert await listed(world) == ["urgent"]
    world.host.answer(empty, path="/apis/batch/v1/jobs", times=9)
    with pytest.raises(UnreadableError):
        await listed(world)


async def test_only_one_object_of_a_page_is_decoded(world: World) -> None:
    """Tiny items take 24 times their JSON, and nothing of them is needed."""
    item = '{"metadata":{"name":"w","uid":"%d"},"spec":[' + "{}," * 20_000 + "{}]}"
    items = ",".join(item % number for number in range(20))
    body = '{"kind":"WidgetList","metadata":{"resourceVersion":"1"},"items":[' + items + "]}"
    world.host.answer(body.encode(), path=WIDGETS)
    served = await world.host_discovery.refresh()
    tracemalloc.start()
    shared = labelled_objects(world.host_client, served, SHARED_LABEL)
    held = [tracemalloc.get_traced_memory()[0] async for _ in shared]
    tracemalloc.stop()
    assert len(held) == 20
    assert max(held) < 20 * 24 * 20_000 / 2
