"""ForeignNames: which words a virtual cluster is not to read."""

import pytest

from karmada_vc_agent.features.host_events.foreign_names import ForeignNames
from tests.fakes import objects
from tests.fakes.world import World, new_world


@pytest.mark.parametrize(
    ("word", "is_foreign"),
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
async def test_word(world: World, word: str, is_foreign: bool) -> None:
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
    names = ForeignNames(world.claims, world.nodes, world.membership, world.virtual_clusters)
    assert names.is_foreign("branch-a", word) is is_foreign


async def test_renamed_one_is_known_by_its_names_on_the_host() -> None:
    renamed = objects.virtual_cluster("shop-7", former_names=("branch-b",))
    async with new_world(objects.virtual_cluster("branch-a"), renamed) as world:
        names = ForeignNames(world.claims, world.nodes, world.membership, world.virtual_clusters)
        assert names.is_foreign("branch-a", "reader-v-branch-b")
        assert not names.is_foreign("shop-7", "reader-v-branch-b")
        assert not names.is_foreign("branch-a", "reader-v-shop-7")
