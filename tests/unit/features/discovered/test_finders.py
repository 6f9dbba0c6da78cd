"""What NodeGroups say, and which values nodes have."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from karmada_vc_agent.features.discovered.discovery import (
    MOST_LABELS,
    NodeGroupDiscovery,
    NodeLabelDiscovery,
    groups_of_host,
    is_selected,
    read_group,
)
from karmada_vc_agent.features.discovered.records import (
    Discovered,
    DiscoverSettings,
    NodeGroupSettings,
)
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import LabelSelector
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import Served
from tests.fakes.world import World

NODE_GROUPS = Served(
    "apps.kubeedge.io/v1alpha1", "nodegroups", "NodeGroup", namespaced=False, is_custom=True
)
HEAD = {"apiVersion": NODE_GROUPS.api_version, "kind": NODE_GROUPS.kind}
CODEC: Codec[Node] = Codec(Node)


def group(name: str = "a", **spec: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"tier": "shop"}}, "spec": spec}


def node(name: str, version: int = 1, **labels: str) -> Node:
    made = objects.node(name, labels)
    made["metadata"] |= {"resourceVersion": str(version), "uid": name}
    content = orjson.dumps({"metadata": {"resourceVersion": "1"}, "items": [made]})
    return CODEC.page(content).items[0]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, Discovered("branch-a", "a")),
        ({"nodes": ["n1", "n2", "n1"]}, Discovered("branch-a", "a", None, ("n1", "n2"))),
        ({"matchLabels": {"x": "y"}}, Discovered("branch-a", "a", {"x": "y"})),
        (
            {"matchLabels": {"x": "y"}, "nodes": ["n1"]},
            Discovered("branch-a", "a", {"x": "y"}, ("n1",)),
        ),
    ],
)
def test_group_is_read(spec: Object, expected: Discovered) -> None:
    assert read_group(group(**spec), NodeGroupSettings(name_template="branch-{name}")) == expected


def member(name: str, status: str) -> Object:
    return {"nodeName": name, "selectionStatus": status, "readyStatus": "Ready"}


def having(name: str, *statuses: Object, **spec: Any) -> Object:
    return HEAD | group(name, **spec) | {"status": {"nodeStatuses": list(statuses)}}


GOT, FAILED = "Succeeded", "Failed"


@pytest.mark.parametrize(
    ("status", "members", "expected"),
    [
        (FAILED, frozenset(("n1",)), ("n2",)),
        (FAILED, frozenset(), ("n1", "n2")),  # as of a node that is not there yet
        (GOT, frozenset(("n1",)), ("n1", "n2")),
    ],
)
def test_node_that_another_group_has_is_not_of_this_one(
    status: str, members: frozenset[str], expected: tuple[str, ...]
) -> None:
    listing = having("a", member("n1", status), nodes=["n1", "n2"])
    assert read_group(listing, NodeGroupSettings(), members).nodes == expected
    labelled = having("a", member("n1", status), nodes=["n1", "n2"], matchLabels={"x": "y"})
    assert read_group(labelled, NodeGroupSettings(), members).nodes == ("n1", "n2")


async def test_group_gets_its_node_once_the_other_one_lets_it_go(edge: FakeApiServer) -> None:
    settings = NodeGroupSettings(enabled=True)
    edge.seed(having("a", member("n1", GOT), nodes=["n1"]))
    edge.seed(having("b", member("n1", FAILED), nodes=["n1", "n2"]))
    listed = {each.name: each.nodes for each in await groups_of_host(edge.client(), settings)}
    assert listed == {"a": ("n1",), "b": ("n2",)}, "from the start on"
    discovery = NodeGroupDiscovery(edge.client(), settings)
    changed: list[str] = []
    discovery.changed.subscribe(changed.append)
    running = asyncio.ensure_future(discovery.run())
    await asyncio.sleep(30)
    assert discovery.get("b") == Discovered("b", "b", None, ("n2",))
    changed.clear()
    edge.seed(having("a", member("n3", GOT), nodes=["n3"]))
    await asyncio.sleep(1)
    assert set(changed) == {"a", "b"}
    assert discovery.get("b") == Discovered("b", "b", None, ("n1", "n2"))
    changed.clear()
    heard = member("n1", FAILED) | {"readyStatus": "NotReady"}
    edge.seed(having("b", heard, nodes=["n1", "n2"]))
    await asyncio.sleep(1)
    assert changed == [], "a heartbeat"
    edge.seed(having("c", member("n1", GOT), nodes=["n1"]))
    await asyncio.sleep(1)
    assert set(changed) == {"b", "c"}
    edge.remove("/apis/apps.kubeedge.io/v1alpha1/nodegroups/c")
    await asyncio.sleep(1)
    assert discovery.get("b") == Discovered("b", "b", None, ("n1", "n2"))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({}, "selects all nodes there are"),
        ({f"k{n}": "v" for n in range(MOST_LABELS + 1)}, f"of at most {MOST_LABELS}"),
    ],
)
def test_group_of_too_much_is_refused(labels: dict[str, str], problem: str) -> None:
    assert problem in read_group(group(matchLabels=labels), NodeGroupSettings()).problem


def test_only_selected_groups_are_meant() -> None:
    assert is_selected(group(), NodeGroupSettings())
    assert is_selected(group(), NodeGroupSettings(selector=LabelSelector({"tier": "shop"})))
    assert not is_selected(group(), NodeGroupSettings(selector=LabelSelector({"tier": "cloud"})))


async def test_group_is_deleted_only_where_the_host_serves_groups(world: World) -> None:
    discovery = NodeGroupDiscovery(world.host_client, NodeGroupSettings())
    assert not await discovery.is_deleted("a", "a"), "the host does not serve NodeGroups"
    assert await discovery.is_deleted("by-another-template-a", "a")


async def test_value_is_deleted_where_no_node_has_it(world: World) -> None:
    world.host.seed(objects.node("n1", {"branch": "a"}))
    settings = DiscoverSettings(node_label="branch", name_template="shop-{value}")
    discovery = NodeLabelDiscovery(world.host_client, Store(CODEC), settings)
    assert not await discovery.is_deleted("shop-a", "a")
    assert await discovery.is_deleted("shop-b", "b")
    assert await discovery.is_deleted("a", "a"), "it had that name by another template"


def test_values_come_with_their_first_node_and_go_with_their_last(world: World) -> None:
    nodes: Store[Node] = Store(CODEC)
    settings = DiscoverSettings(node_label="branch", name_template="shop-{value}")
    nodes.apply(node("n0", branch="z"))
    discovery = NodeLabelDiscovery(world.host_client, nodes, settings)
    assert list(discovery.subjects) == ["shop-z"]
    changed: list[str] = []
    discovery.changed.subscribe(changed.append)
    nodes.apply(node("n1", branch="a"))
    nodes.apply(node("n2", branch="a"))
    nodes.apply(node("n3"))
    assert changed == ["shop-a"]
    assert discovery.get("shop-a") == Discovered("shop-a", "a", {"branch": "a"})
    nodes.apply(node("n1", 2, branch="b"))
    assert changed == ["shop-a", "shop-b"]
    nodes.apply(node("n2", 2))
    assert changed == ["shop-a", "shop-b", "shop-a"]
    assert discovery.get("shop-a") is None
    nodes.remove(node("n1", 2))
    assert discovery.get("shop-b") is None
    assert discovery.object_of("b") is None
    about = discovery.object_of("z")
    assert about
    assert about["metadata"]["name"] == "n0"


def test_value_is_noticed_though_it_arrived_in_a_write_response(world: World) -> None:
    nodes: Store[Node] = Store(CODEC)
    discovery = NodeLabelDiscovery(world.host_client, nodes, DiscoverSettings(node_label="branch"))
    nodes.apply(node("n1"))
    nodes.observe(node("n1", 2, branch="a"))
    nodes.apply(node("n1", 2, branch="a"))
    assert discovery.get("a")


def test_an_empty_value_is_one_as_well_so_that_it_is_refused_with_a_reason(world: World) -> None:
    nodes: Store[Node] = Store(CODEC)
    discovery = NodeLabelDiscovery(world.host_client, nodes, DiscoverSettings(node_label="branch"))
    nodes.apply(node("n1", branch=""))
    assert list(discovery.subjects) == [""]
    nodes.apply(node("n1", 2))
    assert list(discovery.subjects) == []


def test_other_label_and_template_find_others_at_once(world: World) -> None:
    nodes: Store[Node] = Store(CODEC)
    nodes.apply(node("n1", branch="a", shop="x"))
    nodes.apply(node("n2", branch="b"))
    discovery = NodeLabelDiscovery(world.host_client, nodes, DiscoverSettings(node_label="branch"))
    changed: list[str] = []
    discovery.changed.subscribe(changed.append)
    discovery.use(DiscoverSettings(node_label="branch", name_template="of-{value}"))
    assert set(changed) == {"a", "b", "of-a", "of-b"}
    assert set(discovery.subjects) == {"of-a", "of-b"}
    assert discovery.get("a") is None
    discovery.use(DiscoverSettings(node_label="shop"))
    assert list(discovery.subjects) == ["x"]
    nodes.apply(node("n2", 2, branch="b", shop="x"))
    nodes.remove(node("n1", branch="a", shop="x"))
    assert discovery.get("x") == Discovered("x", "x", {"shop": "x"})
    discovery.use(DiscoverSettings())
    assert list(discovery.subjects) == []
    nodes.apply(node("n3", shop="y"))
    assert list(discovery.subjects) == []


@pytest.fixture
async def edge() -> AsyncIterator[FakeApiServer]:
    """Return a host that serves NodeGroups."""
    async with FakeApiServer((*served.HOST, NODE_GROUPS)) as server:
        yield server


async def test_groups_are_followed_while_the_settings_enable_them(edge: FakeApiServer) -> None:
    discovery = NodeGroupDiscovery(edge.client(), NodeGroupSettings())
    changed: list[str] = []
    discovery.changed.subscribe(changed.append)
    edge.seed(HEAD | group("a", nodes=["n1"]))
    running = asyncio.ensure_future(discovery.run())
    await asyncio.sleep(30)
    assert not discovery.is_synced, "nobody wants them"
    discovery.use(NodeGroupSettings(enabled=True))
    await asyncio.sleep(30)
    assert discovery.is_synced
    assert discovery.get("a") == Discovered("a", "a", None, ("n1",))
    changed.clear()
    discovery.use(NodeGroupSettings(enabled=True, name_template="x-{name}"))
    assert changed == ["a", "x-a"]
    assert discovery.get("a") is None
    assert discovery.get("x-a") == Discovered("x-a", "a", None, ("n1",))
    discovery.use(NodeGroupSettings())
    await asyncio.sleep(1)
    edge.seed(HEAD | group("b"))
    await asyncio.sleep(30)
    assert list(discovery.subjects) == ["a"], "nobody watches"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
