"""Processes of shards: who leads, and what happens when another count of shards starts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from karmada_vc_agent.features.shards.division import ShardClusters, lease_name
from karmada_vc_agent.features.shards.election import (
    ABSENT_S,
    BEFORE,
    COUNT,
    YIELDS,
    ShardElection,
    term_of,
)
from karmada_vc_agent.features.shards.feature import _end_change
from karmada_vc_agent.kube.errors import ConflictError, UnreachableError, UnreadableError
from karmada_vc_agent.kube.leader_election import LeaderElection, LeadLostError
from karmada_vc_agent.model.vocabulary import CHECKPOINT_ANNOTATION
from tests.fakes.api_server import FakeApiServer

LEASES = "/apis/coordination.k8s.io/v1/namespaces/agents/leases"
HAND_OVER_S = 8.0
"""The end of a leader of before, and two looks."""
EXPIRED_S = 25.0


class Site:
    """The processes of one agent, each of which starts again when it loses its lead."""

    def __init__(self, host: FakeApiServer) -> None:
        self.host = host
        self.running: dict[str, asyncio.Task[None]] = {}
        self.elections: dict[str, ShardElection] = {}
        self.led: list[tuple[float, str, int, int]] = []
        self.unserved_since: float | None = None
        self.longest_gap_s = 0.0
        self.starts = 0
        self.suspended_s: dict[str, float] = {}

    def start(self, name: str, index: int | None, count: int, end_s: float = 2.0) -> None:
        self.running[name] = asyncio.ensure_future(self._run(name, index, count, end_s))

    async def _run(self, name: str, index: int | None, count: int, end_s: float) -> None:
        """Run as a container does; end_s: how long the end of a leader takes."""
        loop = asyncio.get_running_loop()
        while True:
            self.starts += 1
            change = None
            election = ShardElection(
                self.host.client(name),
                "agents",
                "agent",
                f"{name}-{self.starts}",
                loop.time,
                shards=ShardClusters(index, count),
            )
            self.elections[name] = election
            lead = None
            try:
                await election.acquire()
                lead = asyncio.ensure_future(election.lead())
                change = asyncio.ensure_future(self._end_change(election))
                yields = asyncio.ensure_future(election.wait_handed_over())
                await asyncio.wait((lead, yields), return_when=asyncio.FIRST_COMPLETED)
                yields.cancel()
                if not lead.done():
                    await asyncio.sleep(end_s)
            finally:
                if change is not None:
                    change.cancel()
                if lead is not None:
                    lead.cancel()
                    with suppress(asyncio.CancelledError, LeadLostError):
                        await lead
                if name not in self.killed:
                    await election.release()
            await asyncio.sleep(1.0)

    killed: set[str] = set()  # noqa: RUF012

    async def _end_change(self, election: ShardElection) -> None:
        await _end_change(election)

    async def stop(self, name: str, *, kill: bool = False) -> None:
        """End a process; one that is killed releases nothing."""
        self.killed = self.killed | {name} if kill else self.killed
        self.elections.pop(name)
        task = self.running.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def leading(self) -> set[tuple[int, int]]:
        """Return (index, count) of all that lead; raise if two may write one virtual cluster."""
        leading = [
            (each.index, each.shards.count) for each in self.elections.values() if each.is_leading()
        ]
        assert len(leading) == len(set(leading)), f"two leaders of one shard: {leading}"
        assert len({count for _, count in leading}) < 2, f"two counts lead: {leading}"
        return set(leading)

    async def watch(self, seconds: float) -> None:
        """Let time pass, and look whether there are ever two writers."""
        for _ in range(int(seconds * 2)):
            await asyncio.sleep(0.5)
            self.leading()

    async def until(self, count: int, within_s: float) -> float:
        """Wait until all shards of a count lead; return how long not all of any did."""
        complete = {(index, count) for index in range(count)}
        gap = longest = 0.0
        for _ in range(int(within_s * 2)):
            leading = self.leading()
            if leading == complete:
                return max(gap, longest)
            counts = {each for _, each in leading}
            gap = 0.0 if counts and len(leading) == max(counts) else gap + 0.5
            longest = max(gap, longest)
            await asyncio.sleep(0.5)
        raise AssertionError(f"{self.leading()} lead, expected {count}")

    def term(self) -> tuple[str, str]:
        marks = self.host.live(f"{LEASES}/agent")["metadata"].get("annotations", {})
        return marks.get(COUNT, "1"), marks.get(BEFORE, "0")


@pytest.fixture
async def site(host: FakeApiServer) -> AsyncIterator[Site]:
    host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
    made = Site(host)
    yield made
    for name in list(made.running):
        await made.stop(name)


async def test_one_process_of_all_leads_at_once_and_makes_no_other_request(site: Site) -> None:
    site.start("a", 0, 1)
    await site.until(1, 1.0)
    paths = {each.path for each in site.host.requests}
    assert paths == {LEASES, f"{LEASES}/agent"}
    assert not site.host.live(f"{LEASES}/agent")["metadata"].get("annotations")


async def test_each_shard_has_a_leader_and_a_standby(site: Site) -> None:
    for name, index in (("a", 0), ("b", 1), ("c", 0), ("d", 1)):
        site.start(name, index, 2)
    await site.until(2, 10.0)
    await site.stop("a")
    assert await site.until(2, 10.0) <= 5.0


async def test_standby_of_any_shard_takes_that_of_a_killed_process(site: Site) -> None:
    for name in "abc":
        site.start(name, None, 2)
    await site.until(2, 10.0)
    leader = next(name for name, each in site.elections.items() if each.is_leading())
    await site.stop(leader, kill=True)
    assert await site.until(2, EXPIRED_S) >= 10.0


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 2), (2, 1), (1, 4)])
async def test_new_count_takes_over_once_all_its_shards_stand_ready(
    site: Site, before: int, after: int
) -> None:
    for index in range(before):
        site.start(f"old-{index}", index, before)
    await site.until(before, EXPIRED_S)
    await asyncio.sleep(ABSENT_S + 30.0)
    for index in range(after - 1):
        site.start(f"new-{index}", index, after)
    await site.watch(30.0)
    assert {count for _, count in site.leading()} == {before}, "one shard is not there yet"
    site.start("last", after - 1, after)
    assert await site.until(after, 40.0) <= HAND_OVER_S
    assert site.term() == (str(after), str(before))
    await site.watch(60.0)
    assert {count for _, count in site.leading()} == {after}, "those of before do not come back"
    for index in range(before):
        await site.stop(f"old-{index}")
    await asyncio.sleep(ABSENT_S + 30.0)
    assert site.term() == (str(after), "0")


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3)])
async def test_new_count_takes_over_from_killed_processes(
    site: Site, before: int, after: int
) -> None:
    for index in range(before):
        site.start(f"old-{index}", index, before)
    await site.until(before, EXPIRED_S)
    for index in range(before):
        await site.stop(f"old-{index}", kill=True)
    for index in range(after):
        site.start(f"new-{index}", index, after)
    await site.until(after, 3 * EXPIRED_S)


async def test_new_count_takes_over_leases_with_an_edited_number(
    site: Site, host: FakeApiServer
) -> None:
    for index in range(2):
        site.start(f"old-{index}", index, 2)
    await site.until(2, EXPIRED_S)
    for index in range(2):
        await site.stop(f"old-{index}", kill=True)
        lease = host.live(f"{LEASES}/{lease_name('agent', index, 2)}")
        lease["spec"]["leaseTransitions"] = 2**31 - 1
        host.seed(lease)
    for index in range(3):
        site.start(f"new-{index}", index, 3)
    await site.until(3, 3 * EXPIRED_S)
    for index in range(2):
        lease = host.live(f"{LEASES}/{lease_name('agent', index, 2)}")
        assert 0 <= lease["spec"]["leaseTransitions"] < 2**31


async def test_count_before_may_come_back_once_its_processes_had_ended(site: Site) -> None:
    for index in range(2):
        site.start(f"old-{index}", index, 2)
    await site.until(2, EXPIRED_S)
    for index in range(3):
        site.start(f"new-{index}", index, 3)
    await site.until(3, 60.0)
    for index in range(2):
        await site.stop(f"old-{index}")
    await asyncio.sleep(ABSENT_S + 30.0)
    for index in range(2):
        site.start(f"again-{index}", index, 2)
    assert await site.until(2, 60.0) <= HAND_OVER_S


async def test_roll_out_that_is_undone_serves_again(site: Site) -> None:
    for index in range(2):
        site.start(f"old-{index}", index, 2)
    await site.until(2, EXPIRED_S)
    for index in range(3):
        site.start(f"new-{index}", index, 3)
    await site.until(3, 60.0)
    for index in range(3):
        await site.stop(f"new-{index}", kill=True)
    await site.until(2, 3 * EXPIRED_S)


async def test_process_that_was_suspended_through_a_change_does_not_lead_again(
    site: Site, host: FakeApiServer
) -> None:
    loop = asyncio.get_running_loop()
    suspended = ShardElection(
        host.client("s"), "agents", "agent", "s", loop.time, shards=ShardClusters(0, 2)
    )
    site.start("b", 1, 2)
    site.elections["s"] = suspended
    await suspended.acquire()
    await site.until(2, EXPIRED_S)
    for index in range(3):
        site.start(f"new-{index}", index, 3)
    await site.until(3, 3 * EXPIRED_S)
    with pytest.raises(LeadLostError):
        await suspended.lead()
    site.leading()
    assert not suspended.is_leading()
    assert not suspended.is_in_touch()


async def test_checkpoint_of_an_earlier_lead_of_all_is_not_used_later(site: Site) -> None:
    site.start("old", 0, 1)
    await site.until(1, EXPIRED_S)
    lease = site.host.live(f"{LEASES}/agent")
    lease["metadata"]["annotations"] = {CHECKPOINT_ANNOTATION: "0"}
    site.host.seed(lease)
    for index in range(2):
        site.start(f"new-{index}", index, 2)
    await site.until(2, EXPIRED_S)
    assert CHECKPOINT_ANNOTATION not in site.host.live(f"{LEASES}/agent")["metadata"]["annotations"]


@pytest.mark.parametrize("seed", range(4))
async def test_never_do_two_write_whatever_starts_and_ends(site: Site, seed: int) -> None:
    """Start, stop and kill processes of one, two and three shards at random; then end with one."""
    import random  # noqa: PLC0415

    chance = random.Random(seed)  # noqa: S311
    for number in range(20):
        roll = chance.random()
        if roll < 0.6 or not site.running:
            count = chance.choice((1, 2, 2, 3))
            index = chance.choice((None, chance.randrange(count))) if count > 1 else 0
            site.start(f"p{number}", index, count, chance.choice((0.0, 2.0, 4.0)))
        else:
            await site.stop(chance.choice(sorted(site.running)), kill=roll > 0.8)
        await site.watch(chance.choice((0.5, 1.0, 3.0, 12.0, 20.0)))
    for name in sorted(site.running):
        await site.stop(name)
    for name in "abc":
        site.start(name, None, 2)
    await site.until(2, 6 * EXPIRED_S)
    assert lease_name("agent", 0, 2) == "agent-0-of-2"


@pytest.mark.parametrize("count", ["0", "9", "-1", "three", ""])
def test_term_that_no_agent_writes_is_refused(count: str) -> None:
    with pytest.raises(UnreadableError):
        term_of({"metadata": {"annotations": {COUNT: count}}})


async def test_one_process_of_all_logs_neither_conflicts_nor_a_host_that_is_away(
    host: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
    election = ShardElection(
        host.client("a"), "agents", "agent", "a", loop.time, shards=ShardClusters(0, 1)
    )
    caplog.set_level("INFO")
    errors = [ConflictError(409, "Conflict", "changed"), UnreachableError("away")]
    tried = election._try

    async def fail() -> str:
        if errors:
            raise errors.pop(0)
        return await tried()

    election._try = fail  # type: ignore[method-assign]
    await election.acquire()
    assert [record.message for record in caplog.records] == ["Leading"]


async def test_process_that_takes_its_lease_again_is_not_ended_by_that_later(
    host: FakeApiServer,
) -> None:
    election = await _leads_until_it_is_held_by(host, "")
    await election._try()
    assert host.live(f"{LEASES}/agent")["spec"]["leaseTransitions"] == 1
    await asyncio.sleep(12.0)
    assert not election.is_leading()
    await election._try()
    assert election.is_leading()


async def test_process_that_waited_does_not_continue_the_checkpoint_of_an_earlier_lead(
    site: Site, host: FakeApiServer
) -> None:
    """It takes the Lease before the shards see that its leader ended."""
    loop = asyncio.get_running_loop()
    lease = {"holderIdentity": "", "leaseTransitions": 3, "leaseDurationSeconds": 1}
    marks = {CHECKPOINT_ANNOTATION: "3", COUNT: "2", BEFORE: "1"}
    metadata = {"name": "agent", "namespace": "agents", "annotations": marks}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    host.seed({**kind, "metadata": metadata, "spec": lease})
    old = ShardElection(
        host.client("old"),
        "agents",
        "agent",
        "old",
        loop.time,
        lineage=CHECKPOINT_ANNOTATION,
        shards=ShardClusters(0, 1),
    )
    waiting = asyncio.ensure_future(old.acquire())
    await asyncio.sleep(1.0)
    for index in range(2):
        site.start(f"new-{index}", index, 2)
    await site.until(2, EXPIRED_S)
    for index in range(2):
        await site.stop(f"new-{index}")
    await asyncio.wait_for(waiting, 3 * EXPIRED_S)
    assert not old.continues_lineage


async def test_number_of_shards_survives_the_deletion_of_the_lease_that_has_it(site: Site) -> None:
    for index in range(2):
        site.start(f"p{index}", index, 2)
    await site.until(2, EXPIRED_S)
    site.host.remove(f"{LEASES}/agent")
    await asyncio.sleep(12.0)
    assert site.term() == ("2", "0")
    assert len(site.leading()) == 2


async def test_shards_end_where_one_of_all_took_the_lease_that_was_deleted(site: Site) -> None:
    for index in range(2):
        site.start(f"p{index}", index, 2, 0.0)
    await site.until(2, EXPIRED_S)
    site.host.remove(f"{LEASES}/agent")
    site.start("alone", 0, 1)
    await asyncio.sleep(14.0)
    await site.watch(60.0)


async def test_shards_end_while_a_version_before_shards_leads(site: Site) -> None:
    for index in range(2):
        site.start(f"p{index}", index, 2, 0.0)
    await site.until(2, EXPIRED_S)
    loop = asyncio.get_running_loop()
    earlier = LeaderElection(site.host.client("e"), "agents", "agent", "e", loop.time)
    await earlier.acquire()
    lead = asyncio.ensure_future(earlier.lead())
    await asyncio.sleep(25.0)
    for _ in range(30):
        await asyncio.sleep(1.0)
        assert earlier.is_leading()
        assert not site.leading()
    lead.cancel()
    await earlier.release()
    await site.until(2, EXPIRED_S)


async def test_process_that_was_to_end_before_it_led_does_not_end_once_it_leads(
    host: FakeApiServer,
) -> None:
    loop = asyncio.get_running_loop()
    host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
    client = host.client("a")
    election = ShardElection(client, "agents", "agent", "a", loop.time, shards=ShardClusters(0, 2))
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}

    def lease(name: str, holder: str, **marks: str) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": "x"}
        metadata = {"name": name, "namespace": "agents", "annotations": marks}
        host.seed({**kind, "metadata": metadata, "spec": spec})

    lease("agent-0-of-3", "before")
    lease("agent", "", **{COUNT: "2", BEFORE: "3"})
    acquiring = asyncio.ensure_future(election.acquire())
    await asyncio.sleep(1.0)
    patch = {"metadata": {"annotations": {YIELDS: "a"}}}
    await client.merge_patch(f"{LEASES}/agent-0-of-2", patch)
    lease("agent", "", **{COUNT: "3", BEFORE: "2"})
    await asyncio.sleep(10.0)
    lease("agent", "", **{COUNT: "2", BEFORE: "3"})
    lease("agent-0-of-3", "")
    await asyncio.wait_for(acquiring, 20.0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(election.wait_handed_over(), 1.0)


async def test_process_that_lost_its_lead_has_nothing_to_release(host: FakeApiServer) -> None:
    election = await _leads_until_it_is_held_by(host, "another")
    with pytest.raises(LeadLostError):
        await election.lead()
    requests = len(host.requests)
    await election.release()
    assert len(host.requests) == requests


async def _leads_until_it_is_held_by(host: FakeApiServer, holder: str) -> ShardElection:
    """Return the election of a process that leads, and whose Lease was changed since."""
    loop = asyncio.get_running_loop()
    host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
    election = ShardElection(
        host.client("a"), "agents", "agent", "a", loop.time, shards=ShardClusters(0, 1)
    )
    await election.acquire()
    lease = host.live(f"{LEASES}/agent")
    lease["spec"]["holderIdentity"] = holder
    host.seed(lease)
    return election
