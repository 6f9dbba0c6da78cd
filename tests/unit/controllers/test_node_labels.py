"""MembershipController: the label on nodes that are chosen by names or expressions."""

import pytest

from karmada_vc_agent.controllers.node_labels import MembershipController
from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.objects import labels_of
from karmada_vc_agent.model.selectors import LabelSelector, Requirement
from tests.fakes import objects
from tests.fakes.world import World, new_world

BY_NAME = objects.virtual_cluster("named", node_selector=LabelSelector(), node_names=("n1",))
BY_EXPRESSION = objects.virtual_cluster(
    "expressed",
    node_selector=LabelSelector({}, (Requirement("zone", "In", frozenset(("x", "y"))),)),
)
BY_LABEL = objects.virtual_cluster("branch-a")


async def label_after(node: str, **labels: str) -> str | None:
    """Reconcile one node and return its label."""
    async with new_world(BY_NAME, BY_EXPRESSION, BY_LABEL) as world:
        found = {MEMBERSHIP_LABEL if k == "member" else k: v for k, v in labels.items()}
        world.host.seed(objects.node(node, found))
        world.look()
        await controller(world).reconcile(node)
        return labels_of(world.host.live(f"/api/v1/nodes/{node}")).get(MEMBERSHIP_LABEL)


def controller(world: World, *anothers: str) -> MembershipController:
    return MembershipController(
        world.host_client,
        world.nodes,
        world.membership,
        world.virtual_clusters,
        lambda name: name in anothers,
    )


@pytest.mark.parametrize("label", [None, "named", "expressed"])
async def test_node_of_a_cluster_that_another_agent_serves_is_left_alone(label: str | None) -> None:
    async with new_world(BY_NAME, BY_EXPRESSION) as world:
        labels = {MEMBERSHIP_LABEL: label} if label else {}
        world.host.seed(objects.node("n1", labels), objects.node("n2", labels))
        world.look()
        for node in ("n1", "n2"):
            await controller(world, "named", "expressed").reconcile(node)
        assert world.host.writes() == []


@pytest.mark.parametrize(
    ("node", "labels", "expected"),
    [
        ("n1", {}, "named"),
        ("n1", {"member": "expressed"}, "named"),
        ("n2", {"zone": "x"}, "expressed"),
        ("n2", {"zone": "z", "member": "expressed"}, None),
        ("n2", {"member": "named"}, None),
        ("n2", {"branch": "a"}, None),
        ("n2", {"branch": "a", "member": "named"}, None),
        ("n2", {"member": "of-another-agent"}, "of-another-agent"),
    ],
)
async def test_label_of_a_node_follows_the_settings(
    node: str, labels: dict[str, str], expected: str | None
) -> None:
    assert await label_after(node, **labels) == expected


async def test_node_that_is_right_costs_no_request() -> None:
    async with new_world(BY_NAME) as world:
        world.host.seed(objects.node("n1", {MEMBERSHIP_LABEL: "named"}), objects.node("n2"))
        world.look()
        for node in ("n1", "n2", "unknown"):
            await controller(world).reconcile(node)
        assert world.host.requests == []


async def test_node_that_goes_meanwhile_is_fine() -> None:
    async with new_world(BY_NAME) as world:
        world.host.seed(objects.node("n1"))
        world.look()
        world.host.remove("/api/v1/nodes/n1")
        await controller(world).reconcile("n1")
        assert world.host.find("/api/v1/nodes/n1") is None
        assert [request.method for request in world.host.writes()] == ["PATCH"]


async def test_other_labels_of_the_node_stay() -> None:
    async with new_world(BY_NAME) as world:
        world.host.seed(objects.node("n1", {"kubernetes.io/hostname": "n1"}))
        world.look()
        await controller(world).reconcile("n1")
        live = world.host.live("/api/v1/nodes/n1")
        assert labels_of(live) == {"kubernetes.io/hostname": "n1", MEMBERSHIP_LABEL: "named"}
