"""Purge releases the objects of an agent that is removed, and none of another agent."""

from karmada_vc_agent.features.objects.definitions import PATH, finalizer, purge
from tests.unit.features.objects.conftest import Served, virtual_cluster


async def test_objects_are_released_and_stay(served: Served) -> None:
    host, said = served.world.host, list[str]()
    for name, agent in (("branch-a", "agent"), ("branch-b", "other")):
        body = virtual_cluster(name)
        body["metadata"]["finalizers"] = [finalizer(agent), "example.com/kept"]
        host.seed(body)
    await purge(served.world.host_client, "agents", "agent", said.append)
    assert host.live(f"{PATH}/branch-a")["metadata"]["finalizers"] == ["example.com/kept"]
    assert finalizer("other") in host.live(f"{PATH}/branch-b")["metadata"]["finalizers"]
    assert said == [
        "host: released VirtualCluster branch-a, which stays; kubectl delete removes it"
    ]
