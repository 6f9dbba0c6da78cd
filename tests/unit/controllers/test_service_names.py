"""ServiceNamesController: the ConfigMap with the rules for CoreDNS."""

from karmada_vc_agent.controllers.service_names import ServiceNamesController
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from tests.fakes import objects
from tests.fakes.world import AGENT, World, new_world

PATH = f"/api/v1/namespaces/kube-system/configmaps/{AGENT}-service-names"


def controller(world: World) -> ServiceNamesController:
    return ServiceNamesController(
        world.host_client,
        world.claims,
        world.virtual_clusters,
        AGENT,
        "kube-system",
        "cluster.local",
    )


async def test_nothing_is_written_where_nobody_asks(world: World) -> None:
    assert await controller(world).reconcile("rules") is None
    assert world.host.requests == []


async def test_rules_follow_the_claims_and_are_put_right() -> None:
    vcs = (
        objects.virtual_cluster(service_names="SearchDomain"),
        objects.virtual_cluster("branch-b"),
    )
    async with new_world(*vcs) as world:
        world.host.seed(objects.namespace("kube-system"))
        names = controller(world)
        await names.reconcile("rules")
        assert world.host.live(PATH)["data"] == {"virtual-clusters.override": ""}
        for vc in vcs:
            await world.namespace_writer.claim(vc, VirtualNamespace("edge"))
        await names.reconcile("rules")
        rules = world.host.live(PATH)["data"]["virtual-clusters.override"]
        assert ".edge.branch-a.vc.cluster.local. .edge-v-branch-a.svc.cluster.local." in rules
        assert "branch-b" not in rules
        world.host.seed({**world.host.live(PATH), "data": {"x": "y"}})
        await names.reconcile("rules")
        assert world.host.live(PATH)["data"] == {"virtual-clusters.override": rules}
        world.forget_requests()
        assert await names.reconcile("rules") is not None
        assert world.host.writes() == []
