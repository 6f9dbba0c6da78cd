"""ForeignNames: which words a virtual cluster is not to read."""

import pytest

from karmada_vc_agent.views.foreign_names import ForeignNames
from tests.fakes import objects
from tests.fakes.world import World


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
