"""Which words a virtual cluster must not read."""

from functools import partial

import pytest

from karmada_vc_agent.features.host_events.feature import is_foreign
from tests.fakes import objects
from tests.fakes.world import World, new_world


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("edge-v-branch-a", False),
        ("edge-v-branch-b", True),
        ("adopted", True),
        ("kube-system", False),
        ("n1", False),
        ("n2", True),
        ("n3", True),
        ("reader-v-branch-b", True),
        ("reader-v-branch-b--0123456789ab", True),
        ("reader-v-branch-a", False),
        ("reader-v-somewhere", False),
        ("branch-b", False),
        ("default", False),
    ],
)
async def test_word(world: World, word: str, expected: bool) -> None:
    for name in ("branch-a", "branch-b"):
        world.register(name)
    world.host.seed(
        objects.node("n1", {"branch": "a"}),
        objects.node("n2", {"branch": "b"}),
        objects.node("n3"),
        objects.namespace("kube-system"),
        objects.claimed(),
        objects.claimed("branch-b"),
        objects.claimed("branch-b", "old", "adopted"),
    )
    world.look()
    stores = world.parts.common.stores
    assert is_foreign(stores, world.virtual_clusters, "branch-a", word) is expected


async def test_renamed_one_is_recognised_by_its_names_on_the_host() -> None:
    renamed = objects.virtual_cluster("shop-7", former_names=("branch-b",))
    async with new_world(objects.virtual_cluster("branch-a"), renamed) as world:
        names = partial(is_foreign, world.parts.common.stores, world.virtual_clusters)
        assert names("branch-a", "reader-v-branch-b")
        assert not names("shop-7", "reader-v-branch-b")
        assert not names("branch-a", "reader-v-shop-7")
