"""ServiceNamesController: the ConfigMap with the rules for CoreDNS."""

from karmada_vc_agent.features.service_names import feature
from karmada_vc_agent.features.service_names.feature import SERVICE_NAMES
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from tests.fakes import objects
from tests.fakes.world import AGENT, World, new_world

PATH = f"/api/v1/namespaces/kube-system/configmaps/{AGENT}-service-names"


async def test_nothing_is_written_where_there_is_no_request(world: World) -> None:
    assert await world.spec(feature.setup).reconcile(SERVICE_NAMES) is None
    assert world.host.requests == []


async def test_rules_follow_the_claims_and_are_put_right() -> None:
    vcs = (
        objects.virtual_cluster(service_names="SearchDomain"),
        objects.virtual_cluster("branch-b"),
    )
    async with new_world(*vcs) as world:
        world.host.seed(objects.namespace("kube-system"))
        names = world.spec(feature.setup)
        await names.reconcile(SERVICE_NAMES)
        assert world.host.live(PATH)["data"] == {"virtual-clusters.override": ""}
        for vc in vcs:
            await world.namespace_writer.claim(vc, VirtualNamespace("edge"))
        await names.reconcile(SERVICE_NAMES)
        rules = world.host.live(PATH)["data"]["virtual-clusters.override"]
        assert ".edge.branch-a.vc.cluster.local. .edge-v-branch-a.svc.cluster.local." in rules
        assert "branch-b" not in rules
        world.host.seed({**world.host.live(PATH), "data": {"x": "y"}})
        await names.reconcile(SERVICE_NAMES)
        assert world.host.live(PATH)["data"] == {"virtual-clusters.override": rules}
        world.forget_requests()
        assert await names.reconcile(SERVICE_NAMES) is not None
        assert world.host.writes() == []


async def test_names_of_one_that_is_served_no_more_stay_and_those_it_gave_up_go() -> None:
    vcs = [
        objects.virtual_cluster(name, service_names="SearchDomain")
        for name in ("branch-a", "branch-b")
    ]

    def rules(world: World) -> str:
        found: str = world.host.live(PATH)["data"]["virtual-clusters.override"]
        return found

    async with new_world(*vcs) as world:
        world.host.seed(objects.namespace("kube-system"))
        names = world.spec(feature.setup)
        for vc in vcs:
            await world.namespace_writer.claim(vc, VirtualNamespace("edge"))
        await names.reconcile(SERVICE_NAMES)
        before = rules(world)
        world.virtual_clusters.replace_all(vcs[1:])
        await names.reconcile(SERVICE_NAMES)
        assert rules(world) == before
        world.virtual_clusters.replace_all([])
        await names.reconcile(SERVICE_NAMES)
        assert rules(world) == before
        world.virtual_clusters.replace_all([vcs[0], objects.virtual_cluster("branch-b")])
        await names.reconcile(SERVICE_NAMES)
        assert "branch-a" in rules(world)
        assert "branch-b" not in rules(world)
        world.virtual_clusters.replace_all(map(objects.virtual_cluster, ("branch-a", "branch-b")))
        assert await names.reconcile(SERVICE_NAMES) is None
        assert rules(world) == ""
        world.forget_requests()
        assert await names.reconcile(SERVICE_NAMES) is None
        assert world.host.requests == []
