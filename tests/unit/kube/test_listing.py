"""PageSize: as many objects as fit, fewer where answers do not come whole."""

import orjson

from karmada_vc_agent.kube.reflector import (
    FEW_OBJECTS,
    FIRST_PAGE,
    LARGEST_PAGE_BYTES,
    PAGE_BYTES,
    PAGE_SIZE,
    PageSize,
    read_page,
)
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer


def test_first_page_is_small_and_the_next_ones_full() -> None:
    size = PageSize()
    assert size.limit == FIRST_PAGE
    size.received(FIRST_PAGE, FIRST_PAGE * 1000)
    assert size.limit == PAGE_SIZE


def test_large_objects_come_in_pages_of_few() -> None:
    size = PageSize()
    size.received(10, 10 * 2**20)
    assert size.limit == PAGE_BYTES // 2**20
    size.received(1, 20 * 2**20)
    assert size.limit == 1


def test_page_that_does_not_come_whole_is_halved_down_to_one_object_and_grows_slowly() -> None:
    size = PageSize()
    limits = []
    for _ in range(8):
        limits.append(size.limit)
        size.was_cut_off()
    assert limits == [50, 25, 12, 6, 3, 1, 1, 1]
    for _ in range(3):
        size.received(1, 100)
    assert size.limit == 4
    for _ in range(30):
        size.received(1, 100)
    assert size.limit == PAGE_SIZE


def test_empty_page_says_nothing_of_the_size_of_objects() -> None:
    size = PageSize()
    size.received(0, 100)
    assert size.limit == FIRST_PAGE


async def test_page_that_is_too_large_is_read_again_with_few_objects(host: FakeApiServer) -> None:
    pad = "x" * (LARGEST_PAGE_BYTES // 8)
    host.seed(objects.namespace("edge"))
    for number in range(10):
        host.seed(objects.config_map(f"large-{number}", "edge", pad))
    size = PageSize()
    content = await read_page(host.client(), "/api/v1/configmaps", {}, size)
    assert len(orjson.loads(content)["items"]) == FEW_OBJECTS
    assert [request.query["limit"] for request in host.requests] == [
        str(FIRST_PAGE),
        str(FEW_OBJECTS),
    ]


async def test_single_object_is_read_whatever_its_size(host: FakeApiServer) -> None:
    host.seed(objects.namespace("edge"))
    host.seed(objects.config_map("huge", "edge", "x" * (LARGEST_PAGE_BYTES + 1)))
    content = await read_page(host.client(), "/api/v1/configmaps", {}, PageSize())
    assert len(content) > LARGEST_PAGE_BYTES
