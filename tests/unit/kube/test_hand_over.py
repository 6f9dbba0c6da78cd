"""HandOver: the lead passes to a process that has what the leader lacks, and to nobody else."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.leader_election import HandOver, LeaderElection
from tests.fakes.api_server import FakeApiServer

LEASE = "/apis/coordination.k8s.io/v1/namespaces/agents/leases/agent"
LACKS, OFFERS = "example.io/lacks", "example.io/offers"
RENEWALS_S = 10.0


class Replica:
    """A process that takes part: what it has is a switch."""

    def __init__(self, client: ApiClient, identity: str, *, has: bool) -> None:
        self.has = has
        self.hand_over = HandOver(LACKS, OFFERS, lambda: not self.has, lambda: self.has)
        self.election = LeaderElection(
            client,
            "agents",
            "agent",
            identity,
            asyncio.get_running_loop().time,
            hand_over=self.hand_over,
        )

    async def run(self) -> None:
        await self.election.acquire()
        await self.election.lead()


class Scene:
    def __init__(self, host: FakeApiServer, client: ApiClient) -> None:
        host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
        self.host, self.client = host, client
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, identity: str, *, has: bool) -> Replica:
        replica = Replica(self.client, identity, has=has)
        self.tasks[identity] = asyncio.ensure_future(replica.run())
        await asyncio.sleep(RENEWALS_S)
        return replica

    async def end(self, identity: str, replica: Replica) -> None:
        self.tasks[identity].cancel()
        await replica.election.release()

    def holder(self) -> str:
        return str(self.host.live(LEASE)["spec"]["holderIdentity"])

    def marks(self) -> dict[str, str]:
        return dict(self.host.live(LEASE)["metadata"].get("annotations") or {})


@pytest.fixture
async def scene(host: FakeApiServer, client: ApiClient) -> AsyncIterator[Scene]:
    made = Scene(host, client)
    yield made
    for task in made.tasks.values():
        task.cancel()
    await asyncio.gather(*made.tasks.values(), return_exceptions=True)


async def test_who_has_it_takes_over_from_who_lacks_it(scene: Scene) -> None:
    leader = await scene.start("leader", has=True)
    standby = await scene.start("standby", has=True)
    assert scene.marks() == {}
    leader.has = False
    await asyncio.sleep(RENEWALS_S)
    assert leader.hand_over.agreed.is_set()
    assert leader.election.is_leading(), "until it ended well"
    await scene.end("leader", leader)
    await asyncio.sleep(RENEWALS_S)
    assert scene.holder() == "standby"
    assert standby.election.is_leading()
    assert scene.marks() == {}, "of another lead"


async def test_process_that_lacks_it_too_does_not_take_over(scene: Scene) -> None:
    leader = await scene.start("leader", has=False)
    await scene.start("standby", has=False)
    await asyncio.sleep(10 * RENEWALS_S)
    assert scene.marks() == {LACKS: "leader"}
    assert not leader.hand_over.agreed.is_set()


async def test_leader_that_has_it_again_keeps_the_lead(scene: Scene) -> None:
    leader = await scene.start("leader", has=False)
    standby = await scene.start("standby", has=False)
    leader.has = standby.has = True
    await asyncio.sleep(RENEWALS_S)
    assert not leader.hand_over.agreed.is_set()
    assert scene.marks() == {}


async def test_offer_is_taken_back(scene: Scene) -> None:
    leader = await scene.start("leader", has=False)
    scene.tasks["leader"].cancel()  # it renews no more, and sees no offer
    standby = Replica(scene.client, "standby", has=True)
    lease = scene.host.live(LEASE)
    lease["metadata"] |= {"annotations": {LACKS: "leader"}}
    patch = standby.hand_over.offer(lease, "standby")
    assert patch is not None
    assert patch["metadata"]["annotations"] == {OFFERS: "standby"}
    lease["metadata"]["annotations"][OFFERS] = "standby"
    assert standby.hand_over.offer(lease, "standby") is None
    standby.has = False
    patch = standby.hand_over.offer(lease, "standby")
    assert patch is not None
    assert patch["metadata"]["annotations"] == {OFFERS: None}
    assert not leader.hand_over.agreed.is_set()


async def test_others_leave_the_lease_to_who_offered(scene: Scene) -> None:
    leader = await scene.start("leader", has=True)
    await scene.start("standby", has=True)
    leader.has = False
    await asyncio.sleep(RENEWALS_S)
    scene.tasks["standby"].cancel()
    await scene.end("leader", leader)
    other = Replica(scene.client, "other", has=True)
    assert await other.election._try() == "standby"
    await other.election.acquire()  # it did not come, so anybody may
    assert scene.holder() == "other"


async def test_while_nothing_is_lacking_a_standby_writes_nothing(scene: Scene) -> None:
    await scene.start("leader", has=True)
    scene.host.requests.clear()
    await scene.start("standby", has=True)
    assert {request.method for request in scene.host.writes()} == {"PUT"}
    holders = {request.body["spec"]["holderIdentity"] for request in scene.host.writes()}
    assert holders == {"leader"}
