"""Discovery: both forms of documents, ETags, kinds that come later, groups that are away."""

import asyncio
from unittest.mock import MagicMock

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import UNKNOWN_FOR_S, Discovery, Resource
from karmada_vc_agent.kube.errors import ApiError, KubeError, UnreachableError
from karmada_vc_agent.model.objects import GroupVersionKind
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import VERBS, Served
from tests.fakes.virtual_time import Clock

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
WIDGET = GroupVersionKind("example.com", "v1", "Gadget")


async def test_served_kinds_are_discovered(client: ApiClient) -> None:
    discovery = Discovery(client)
    deployment = await discovery.find(DEPLOYMENT)
    assert deployment is not None
    assert deployment.plural == "deployments"
    assert deployment.namespaced
    assert {"list", "watch"} <= deployment.verbs
    namespace = await discovery.find(NAMESPACE)
    assert namespace is not None
    assert not namespace.namespaced


async def test_lists_are_without_subresources(client: ApiClient) -> None:
    served = await Discovery(client).refresh()
    assert served.is_complete
    names = [resource["name"] for each in served.lists for resource in each["resources"]]
    assert "deployments" in names
    assert not [name for name in names if "/" in name]
    assert ("apps", "deployments/status") in served.namespaced


async def test_aggregated_discovery_takes_two_requests(
    host: FakeApiServer, client: ApiClient
) -> None:
    await Discovery(client).refresh()
    assert [str(request) for request in host.requests] == ["GET /api", "GET /apis"]


async def test_unchanged_documents_are_not_read_again(
    host: FakeApiServer, client: ApiClient
) -> None:
    discovery = Discovery(client)
    first = await discovery.refresh()
    assert await discovery.refresh() is first
    assert all("If-None-Match" in request.headers for request in host.requests[2:])


async def test_unknown_kind_is_looked_for_once_more(host: FakeApiServer, client: ApiClient) -> None:
    clock = Clock()
    discovery = Discovery(client, clock)
    assert await discovery.find(WIDGET) is None
    host.storage.served.append(Served("example.com/v1", "gadgets", "Gadget", namespaced=False))
    clock.advance(UNKNOWN_FOR_S)
    widget = await discovery.find(WIDGET)
    assert widget is not None
    assert widget.path(name="w") == "/apis/example.com/v1/gadgets/w"


async def test_unknown_kinds_cost_no_request_each(host: FakeApiServer, client: ApiClient) -> None:
    clock = Clock()
    discovery = Discovery(client, clock)
    for number in range(200):
        assert await discovery.find(GroupVersionKind("example.com", "v1", f"K{number}")) is None
        clock.advance(UNKNOWN_FOR_S / 100)
    assert len(host.requests) == 2 * 2


async def test_unknown_kind_is_requested_at_once_where_something_changed(
    host: FakeApiServer, client: ApiClient
) -> None:
    discovery = Discovery(client, Clock())
    assert await discovery.find(WIDGET) is None
    host.storage.served.append(Served("example.com/v1", "gadgets", "Gadget", namespaced=False))
    discovery.expire()
    assert await discovery.find(WIDGET) is not None


async def test_cached_kind_costs_no_request(host: FakeApiServer, client: ApiClient) -> None:
    discovery = Discovery(client)
    await discovery.find(DEPLOYMENT)
    asked = len(host.requests)
    await discovery.find(DEPLOYMENT)
    assert len(host.requests) == asked


async def test_kind_in_doubt_is_requested_again_once(
    host: FakeApiServer, client: ApiClient
) -> None:
    discovery = Discovery(client)
    await discovery.refresh()
    moved = [each for each in host.storage.served if each.kind != "Deployment"]
    host.storage.served = [*moved, Served("apps/v1", "deploys", "Deployment")]
    discovery.doubt(DEPLOYMENT)
    found = await discovery.find(DEPLOYMENT)
    assert found is not None
    assert found.plural == "deploys"
    asked = len(host.requests)
    await discovery.find(DEPLOYMENT)
    assert len(host.requests) == asked


@pytest.mark.parametrize("is_doubted_before", [False, True])
async def test_doubt_raised_while_kinds_are_read_is_not_lost(
    host: FakeApiServer, client: ApiClient, *, is_doubted_before: bool
) -> None:
    discovery = Discovery(client)
    await discovery.refresh()
    if is_doubted_before:
        discovery.doubt(NAMESPACE)
    released = host.hold("GET", "/apis")
    reading = asyncio.ensure_future(discovery.refresh())
    await asyncio.sleep(1.0)  # /api is read by now
    others = [each for each in host.storage.served if each.kind != "Namespace"]
    host.storage.served = [*others, Served("v1", "places", "Namespace", namespaced=False)]
    discovery.doubt(NAMESPACE)
    released.set()
    await reading
    found = await discovery.find(NAMESPACE)
    assert found is not None
    assert found.plural == "places"


async def test_doubt_outlives_a_refresh_that_fails(host: FakeApiServer, client: ApiClient) -> None:
    discovery = Discovery(client)
    await discovery.refresh()
    discovery.doubt(DEPLOYMENT)
    with host.down(), pytest.raises(UnreachableError):
        await discovery.find(DEPLOYMENT)
    host.storage.served = [each for each in host.storage.served if each.kind != "Deployment"]
    assert await discovery.find(DEPLOYMENT) is None


@pytest.mark.parametrize("error", [None, UnreachableError("overloaded")])
async def test_many_that_wait_for_a_slow_server_share_its_next_answer(
    error: KubeError | None,
) -> None:
    clock, attempts, arrived = Clock(), [], asyncio.Event()

    async def answer(path: str, *_: object) -> None:
        clock.advance(7.5)
        attempts.append(path)
        await arrived.wait()
        if error is not None:
            raise error

    discovery = Discovery(MagicMock(get_if_changed=answer), clock)
    first = asyncio.ensure_future(discovery.refresh(5.0))
    await asyncio.sleep(0)
    waiting = [asyncio.ensure_future(discovery.refresh(5.0)) for _ in range(30)]
    await asyncio.sleep(0)
    clock.advance(7.5)
    arrived.set()
    outcomes = await asyncio.gather(first, *waiting, return_exceptions=True)
    assert outcomes == [discovery.served if error is None else error] * 31
    assert attempts == (["/api", "/apis"] if error is None else ["/api"]) * 2


async def test_kind_served_no_more_is_forgotten(host: FakeApiServer, client: ApiClient) -> None:
    discovery = Discovery(client)
    await discovery.refresh()
    host.storage.served = [r for r in host.storage.served if r.kind != "Deployment"]
    await discovery.refresh()
    assert await discovery.find(DEPLOYMENT) is None


async def test_group_that_does_not_answer_makes_the_list_incomplete(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.stale_groups = frozenset({"apps/v1"})
    discovery = Discovery(client)
    served = await discovery.refresh()
    assert not served.is_complete
    assert not discovery.covers(DEPLOYMENT)
    assert not discovery.covers(DEPLOYMENT._replace(version="v2"))
    assert discovery.covers(NAMESPACE)
    assert NAMESPACE in served.by_kind


async def test_failure_keeps_the_cached_kinds(host: FakeApiServer, client: ApiClient) -> None:
    discovery = Discovery(client)
    before = await discovery.refresh()
    with host.down(), pytest.raises(UnreachableError):
        await discovery.refresh()
    assert discovery.served is before
    assert await discovery.find(DEPLOYMENT) is not None


async def test_change_seen_before_a_failure_is_not_lost(
    host: FakeApiServer, client: ApiClient
) -> None:
    """A new core kind shows up in /api while /apis fails; the next refresh must find it."""
    discovery = Discovery(client)
    await discovery.refresh()
    host.storage.served.append(Served("v1", "gadgets", "Gadget"))
    host.fail(503, path="/apis")
    with pytest.raises(ApiError):
        await discovery.refresh()
    discovery.expire()
    assert await discovery.find(GroupVersionKind("", "v1", "Gadget")) is not None


@pytest.mark.parametrize(
    ("resource", "arguments", "expected"),
    [
        (Resource(NAMESPACE, "namespaces", namespaced=False), (), "/api/v1/namespaces"),
        (
            Resource(NAMESPACE, "namespaces", namespaced=False),
            ("", "edge", "status"),
            "/api/v1/namespaces/edge/status",
        ),
        (
            Resource(DEPLOYMENT, "deployments", namespaced=True),
            ("edge", "web"),
            "/apis/apps/v1/namespaces/edge/deployments/web",
        ),
        (Resource(DEPLOYMENT, "deployments", namespaced=True), (), "/apis/apps/v1/deployments"),
        (
            Resource(WIDGET, "gadgets", namespaced=False),
            ("ignored", "w"),
            "/apis/example.com/v1/gadgets/w",
        ),
    ],
)
def test_path_of_a_resource(resource: Resource, arguments: tuple[str, ...], expected: str) -> None:
    assert resource.path(*arguments) == expected


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"7", b"{", b'{"groups": 7}'),
        b'{"kind": "APIGroupDiscoveryList", "items": [7]}',
        b'{"kind":"APIGroupDiscoveryList","items":[{"versions":[{"resources":[{}]}]}]}',
    ],
)
async def test_answer_of_any_shape_changes_nothing_and_is_not_kept(
    host: FakeApiServer, client: ApiClient, body: bytes
) -> None:
    discovery = Discovery(client)
    before = await discovery.refresh()
    host.storage.served.append(Served("example.com/v1", "gadgets", "Gadget"))
    host.answer(body, path="/apis")
    with pytest.raises(KubeError):
        await discovery.refresh()
    assert discovery.served is before
    assert "Gadget" in {kind.kind for kind in (await discovery.refresh()).by_kind}


async def test_kind_is_located_at_another_version_that_is_served(
    host: FakeApiServer, client: ApiClient
) -> None:
    discovery = Discovery(client)
    gadget = GroupVersionKind("example.com", "v1", "Gadget")
    assert await discovery.find_any(gadget) is None
    host.storage.served.append(Served("example.com/v2", "gadgets", "Gadget"))
    await discovery.refresh()
    assert await discovery.find(gadget) is None
    assert await discovery.find_any(gadget) == Resource(
        gadget._replace(version="v2"), "gadgets", namespaced=True, verbs=frozenset(VERBS)
    )
