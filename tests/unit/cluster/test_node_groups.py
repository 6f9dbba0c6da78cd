"""NodeGroups: which nodes a group has, and that an unknown one has none."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pytest

from karmada_vc_agent.cluster.virtual_clusters import NODE_GROUP
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from tests.fakes import objects
from tests.fakes.world import World

RESOURCE = Resource(NODE_GROUP, "nodegroups", namespaced=False)


def groups(world: World, *found: Object) -> Callable[[str], Collection[str] | None]:
    store: Store[Object] = Store(RawCodec())
    store.replace_all(found, "1")
    world.look()

    def find(gvk: GroupVersionKind) -> Resource | None:
        return RESOURCE if gvk == NODE_GROUP else None

    return partial(world.membership.nodes_of_group, find, lambda _: store)


def group(name: str, **spec: Any) -> Object:
    metadata = {"name": name, "uid": name, "resourceVersion": "1"}
    return {
        "apiVersion": NODE_GROUP.api_version,
        "kind": "NodeGroup",
        "metadata": metadata,
        "spec": spec,
    }


async def test_nodes_are_those_of_labels_and_those_named(world: World) -> None:
    world.host.seed(objects.node("n1", labels={"zone": "east"}))
    world.host.seed(objects.node("n2", labels={"zone": "west"}))
    known = groups(
        world,
        group("east", matchLabels={"zone": "east"}, nodes=["n9"]),
        group("named", nodes=["n2"]),
        group("all", matchLabels={}),
        group("nobody"),
    )
    assert known("east") == {"n1", "n9"}
    assert known("named") == {"n2"}
    assert known("all") == {"n1", "n2"}
    assert known("nobody") == set()


async def test_unknown_group_and_host_without_groups_have_none(world: World) -> None:
    assert groups(world)("east") is None
    assert world.membership.nodes_of_group(lambda _: None, lambda _: None, "east") is None


async def test_group_is_unknown_until_the_host_has_listed_its_groups(world: World) -> None:
    store: Store[Object] = Store(RawCodec())
    known = partial(world.membership.nodes_of_group, lambda _: RESOURCE, lambda _: store)
    with pytest.raises(UnreachableError, match="has not listed its NodeGroups yet"):
        known("east")
    store.replace_all([], "1")
    assert known("east") is None
