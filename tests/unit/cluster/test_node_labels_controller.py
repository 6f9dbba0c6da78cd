"""NodeLabelsController: the label on nodes that are chosen by names or expressions."""

import logging

import pytest

from karmada_vc_agent.cluster import host_objects
from karmada_vc_agent.kube.errors import ForbiddenError
from karmada_vc_agent.model.objects import labels_of
from karmada_vc_agent.model.virtual_cluster import LabelSelector, Requirement
from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION, MEMBERSHIP_LABEL
from karmada_vc_agent.runner import controllers
from tests.fakes import objects
from tests.fakes.world import new_world

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
        await world.spec(controllers.node_labels).reconcile(node)
        return labels_of(world.host.live(f"/api/v1/nodes/{node}")).get(MEMBERSHIP_LABEL)


@pytest.mark.parametrize("label", [None, "named", "expressed"])
async def test_node_of_a_cluster_that_another_agent_serves_is_left_alone(label: str | None) -> None:
    async with new_world(BY_NAME, BY_EXPRESSION) as world:
        labels = {MEMBERSHIP_LABEL: label} if label else {}
        for name in ("named", "expressed"):
            world.register(name, annotations={AGENT_ANNOTATION: "agents/another"})
        world.host.seed(objects.node("n1", labels), objects.node("n2", labels))
        world.look()
        for node in ("n1", "n2"):
            await world.spec(controllers.node_labels).reconcile(node)
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
            await world.spec(controllers.node_labels).reconcile(node)
        assert world.host.requests == []


async def test_node_deleted_meanwhile_is_fine() -> None:
    async with new_world(BY_NAME) as world:
        world.host.seed(objects.node("n1"))
        world.look()
        world.host.remove("/api/v1/nodes/n1")
        await world.spec(controllers.node_labels).reconcile("n1")
        assert world.host.find("/api/v1/nodes/n1") is None
        assert [request.method for request in world.host.writes()] == ["PATCH"]


async def test_other_labels_of_the_node_stay() -> None:
    async with new_world(BY_NAME) as world:
        world.host.seed(objects.node("n1", {"kubernetes.io/hostname": "n1"}))
        world.look()
        await world.spec(controllers.node_labels).reconcile("n1")
        live = world.host.live("/api/v1/nodes/n1")
        assert labels_of(live) == {"kubernetes.io/hostname": "n1", MEMBERSHIP_LABEL: "named"}


async def test_label_is_logged_once_the_host_accepted_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, host_objects.__name__)
    async with new_world(BY_NAME) as world:
        world.host.seed(objects.node("n1"), objects.node("n2", {MEMBERSHIP_LABEL: "named"}))
        world.look()
        reconcile = world.spec(controllers.node_labels).reconcile
        world.host.fail(403, "Forbidden", method="PATCH", path="/api/v1/nodes/n1")
        with pytest.raises(ForbiddenError):
            await reconcile("n1")
        assert caplog.messages == []
        await reconcile("n1")
        await reconcile("n2")
        assert caplog.messages == ["Labelled node", "Removed label of node"]
