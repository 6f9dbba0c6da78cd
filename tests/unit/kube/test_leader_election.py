"""LeaderElection: taking, renewing, losing and giving back a Lease."""

import asyncio
from typing import Any

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.leader_election import LeaderElection, LeadLostError
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer

LEASES = "/apis/coordination.k8s.io/v1/namespaces/agents/leases"
LEASE = f"{LEASES}/agent"
LEASE_DURATION_S, RETRY_PERIOD_S = 15.0, 2.0


def election(client: ApiClient, identity: str = "me") -> LeaderElection:
    """Return an election on the virtual clock of the loop."""
    clock = asyncio.get_running_loop().time
    return LeaderElection(client, "agents", "agent", identity, clock)


@pytest.fixture
async def me(host: FakeApiServer, client: ApiClient) -> LeaderElection:
    host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
    return election(client)


def lease_of(holder: str, **spec: Any) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "agent", "namespace": "agents"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 4,
            **spec,
        },
    }


def holder(host: FakeApiServer) -> str:
    found: str = host.live(LEASE)["spec"]["holderIdentity"]
    return found


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def stop(task: "asyncio.Future[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_one_leads_before_acquiring(me: LeaderElection) -> None:
    assert not me.is_leading()


async def test_lease_is_made_where_there_is_none(host: FakeApiServer, me: LeaderElection) -> None:
    await me.acquire()
    assert me.is_leading()
    spec = host.live(LEASE)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("me", 15)
    assert spec["leaseTransitions"] == 0


async def test_lease_given_back_is_taken_at_once(host: FakeApiServer, me: LeaderElection) -> None:
    host.seed(lease_of(""))
    before = now_s()
    await me.acquire()
    assert now_s() == before
    assert holder(host) == "me"
    assert host.live(LEASE)["spec"]["leaseTransitions"] == 5


async def test_own_lease_is_taken_again_without_a_transition(
    host: FakeApiServer, me: LeaderElection
) -> None:
    host.seed(lease_of("me"))
    await me.acquire()
    spec = host.live(LEASE)["spec"]
    assert spec["leaseTransitions"] == 4
    assert spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert spec["renewTime"] > "2026-01-01T00:00:00.000000Z"


async def test_foreign_lease_is_taken_only_after_standing_still_for_its_duration(
    host: FakeApiServer, me: LeaderElection
) -> None:
    host.seed(lease_of("other"))
    before = now_s()
    await me.acquire()
    assert 15.0 <= now_s() - before <= 18.0
    assert holder(host) == "me"
    assert host.live(LEASE)["spec"]["leaseTransitions"] == 5


async def test_foreign_lease_that_is_renewed_is_not_taken(
    host: FakeApiServer, me: LeaderElection
) -> None:
    host.seed(lease_of("other"))
    task = asyncio.ensure_future(me.acquire())
    for minute in range(1, 10):
        await asyncio.sleep(10.0)
        host.seed(lease_of("other", renewTime=f"2026-01-01T00:0{minute}:00.000000Z"))
    assert not task.done()
    assert not me.is_leading()
    assert holder(host) == "other"
    await stop(task)


@pytest.mark.parametrize("year", [1999, 2099])
async def test_clocks_of_two_replicas_may_differ_by_years(
    host: FakeApiServer, client: ApiClient, me: LeaderElection, year: int
) -> None:
    """Only that the time of a Lease changes counts, and it never goes back."""
    host.seed(lease_of("other", renewTime=f"{year}-01-01T00:00:00.000000Z"))
    task = asyncio.ensure_future(me.acquire())
    for second in range(1, 20):
        await asyncio.sleep(5.0)
        host.seed(lease_of("other", renewTime=f"{year}-01-01T00:00:{second:02}.000000Z"))
    assert not task.done(), "it is renewed, whatever its time"
    before = now_s()
    await task
    assert 15.0 <= now_s() - before <= 18.0, "it is not renewed any more"
    assert host.live(LEASE)["spec"]["renewTime"] > f"{year}-01-01T00:00:19.000000Z"
    standby = asyncio.ensure_future(election(client, "other").acquire())
    leading = asyncio.ensure_future(me.lead())
    await asyncio.sleep(60.0)
    assert me.is_leading()
    assert not standby.done()
    await stop(standby)
    await stop(leading)


async def test_lead_is_renewed_while_leading(host: FakeApiServer, me: LeaderElection) -> None:
    await me.acquire()
    task = asyncio.ensure_future(me.lead())
    await asyncio.sleep(60.0)
    assert me.is_leading()
    assert len(host.asked("PUT", LEASE)) >= 20
    await stop(task)


async def test_writes_are_fenced_from_the_deadline_on_while_the_server_is_away(
    host: FakeApiServer, me: LeaderElection
) -> None:
    await me.acquire()
    task = asyncio.ensure_future(me.lead())
    with host.down():
        await asyncio.sleep(9.0)
        assert me.is_leading()
        await asyncio.sleep(2.0)
        assert not me.is_leading()
        await asyncio.sleep(60.0)
        assert not task.done()
    await asyncio.sleep(3.0)
    assert me.is_leading()
    await stop(task)


async def test_lead_that_becomes_uncertain_during_its_renewal_is_regained_by_it(
    host: FakeApiServer, me: LeaderElection
) -> None:
    regained: list[float] = []
    me.regained.subscribe(lambda: regained.append(now_s()))
    await me.acquire()
    task = asyncio.ensure_future(me.lead())
    with host.down("GET", LEASE):
        await asyncio.sleep(7.0)
    released = host.hold("GET", LEASE)
    await asyncio.sleep(2.5)
    assert me.is_leading()  # the last attempt began with the lead certain
    await asyncio.sleep(1.0)
    assert not me.is_leading()
    released.set()
    await asyncio.sleep(0.5)
    assert (me.is_leading(), len(regained)) == (True, 1)
    await stop(task)


async def test_lead_taken_by_another_process_ends_the_leader(
    host: FakeApiServer, me: LeaderElection
) -> None:
    await me.acquire()
    task = asyncio.ensure_future(me.lead())
    host.seed(lease_of("other"))
    with pytest.raises(LeadLostError, match="other now holds lease agents/agent"):
        await task
    assert not me.is_leading()


async def test_lost_race_for_the_lease_is_tried_again(
    host: FakeApiServer, me: LeaderElection
) -> None:
    host.seed(lease_of(""))
    host.before("PUT", LEASE, lambda: host.seed(lease_of("faster")))
    task = asyncio.ensure_future(me.acquire())
    await asyncio.sleep(5.0)
    assert not task.done()
    assert holder(host) == "faster"
    await stop(task)


async def test_lost_race_for_creating_the_lease_is_tried_again(
    host: FakeApiServer, me: LeaderElection
) -> None:
    host.before("POST", LEASES, lambda: host.seed(lease_of("faster")))
    task = asyncio.ensure_future(me.acquire())
    await asyncio.sleep(5.0)
    assert not me.is_leading()
    assert holder(host) == "faster"
    await stop(task)


async def test_deleted_lease_is_made_again_while_leading(
    host: FakeApiServer, me: LeaderElection
) -> None:
    await me.acquire()
    task = asyncio.ensure_future(me.lead())
    host.remove(LEASE)
    await asyncio.sleep(3.0)
    assert holder(host) == "me"
    assert me.is_leading()
    await stop(task)


async def test_released_lease_is_free_for_the_next(
    host: FakeApiServer, client: ApiClient, me: LeaderElection
) -> None:
    await me.acquire()
    await me.release()
    assert not me.is_leading()
    assert holder(host) == ""
    before = now_s()
    await election(client, "next").acquire()
    assert now_s() == before
    assert holder(host) == "next"


async def test_release_leaves_the_lease_of_another_alone(
    host: FakeApiServer, me: LeaderElection
) -> None:
    await me.acquire()
    host.seed(lease_of("other"))
    await me.release()
    assert holder(host) == "other"


@pytest.mark.parametrize(("stored", "left"), [("me", ""), ("other", "other")])
async def test_release_looks_again_where_the_lease_changed_meanwhile(
    host: FakeApiServer, me: LeaderElection, stored: str, left: str
) -> None:
    """As by a renewal of its own that was cancelled but stored, or by who took it."""
    await me.acquire()
    host.before("PUT", LEASE, lambda: host.seed(lease_of(stored)))
    await me.release()
    assert holder(host) == left


async def test_release_does_nothing_where_the_lease_was_never_held(
    host: FakeApiServer, me: LeaderElection
) -> None:
    await me.release()
    assert host.requests == []


async def test_release_is_silent_when_the_server_is_away(
    host: FakeApiServer, me: LeaderElection
) -> None:
    await me.acquire()
    with host.down():
        await me.release()
    assert not me.is_leading()


async def test_standby_says_once_for_whom_it_waits(
    host: FakeApiServer, me: LeaderElection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    host.seed(lease_of("other"))
    await me.acquire()
    said = [(r.message, r.__dict__.get("leader")) for r in caplog.records]
    assert said == [("Standing by", "other"), ("Leading", None)]


async def test_missing_right_is_reported_once_while_waiting(
    host: FakeApiServer, me: LeaderElection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    host.fail(403, "Forbidden", times=5, message="no right to get leases")
    await me.acquire()
    assert [r.__dict__["reason"] for r in caplog.records] == ["no right to get leases"]


async def test_slow_response_counts_from_its_request(
    host: FakeApiServer, me: LeaderElection
) -> None:
    """The server may have stored the renewal long before its answer comes."""
    await me.acquire()
    released = host.hold("PUT", LEASE)
    task = asyncio.ensure_future(me.lead())
    await asyncio.sleep(5.0)
    released.set()
    await asyncio.sleep(0.5)
    await stop(task)
    await asyncio.sleep(6.0)
    assert me.is_leading()
    await asyncio.sleep(1.0)
    assert not me.is_leading()


@pytest.mark.parametrize(
    "spec",
    [
        {"leaseTransitions": 2**31 - 1},
        {"leaseTransitions": -5},
        {"leaseTransitions": None},
        {"leaseTransitions": "many"},
        {"leaseDurationSeconds": None},
        {"leaseDurationSeconds": "long"},
        {"renewTime": None},
        {"renewTime": ["x"]},
        {"acquireTime": 7},
    ],
)
async def test_edited_lease_is_taken_over_when_it_expired(
    host: FakeApiServer, me: LeaderElection, spec: Object
) -> None:
    host.seed(lease_of("other", **spec))
    await me.acquire()
    assert holder(host) == "me"
    assert 0 <= host.live(LEASE)["spec"]["leaseTransitions"] < 2**31


@pytest.mark.parametrize("holder_", [["x"], {"a": "b"}, 7])
async def test_holder_of_any_shape_is_another_process(
    host: FakeApiServer, me: LeaderElection, holder_: Any
) -> None:
    host.seed(lease_of("", holderIdentity=holder_))
    await me.acquire()
    assert holder(host) == "me"


async def test_lease_older_than_we_wrote_it_says_that_the_server_was_rolled_back(
    host: FakeApiServer, client: ApiClient, me: LeaderElection
) -> None:
    await me.acquire()
    backup = host.storage.backup()
    leading = asyncio.ensure_future(me.lead())
    await asyncio.sleep(10.0)
    assert not client.history.is_in_doubt
    host.storage.restore(backup)
    host.storage.version += 1000
    await asyncio.sleep(5.0)
    assert client.history.time_resets == 1
    assert me.is_leading()
    leading.cancel()


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_connection_that_hangs_does_not_cost_the_lead(
    host: FakeApiServer, me: LeaderElection, method: str
) -> None:
    await me.acquire()
    task = asyncio.ensure_future(me.lead())
    released = host.hold(method, LEASE)
    for _ in range(30):
        await asyncio.sleep(1.0)
        assert me.is_leading()
    released.set()
    await stop(task)


async def test_process_that_was_stopped_for_a_while_is_not_in_touch(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
    loop, stopped_s = asyncio.get_running_loop(), [0.0]
    made = LeaderElection(client, "agents", "agent", "me", lambda: loop.time() + stopped_s[0])
    assert not made.is_in_touch()
    await made.acquire()
    assert made.is_in_touch()
    stopped_s[0] = 300.0
    assert not made.is_in_touch()


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_process_that_was_stopped_during_an_attempt_is_not_in_touch(
    host: FakeApiServer, client: ApiClient, method: str
) -> None:
    host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
    loop, stopped_s = asyncio.get_running_loop(), [0.0]
    made = LeaderElection(client, "agents", "agent", "me", lambda: loop.time() + stopped_s[0])
    await made.acquire()
    task = asyncio.ensure_future(made.lead())
    released = host.hold(method, LEASE)
    await asyncio.sleep(RETRY_PERIOD_S + 1.0)
    stopped_s[0] = LEASE_DURATION_S
    for _ in range(9):
        assert not made.is_in_touch(), "the end of that attempt is no contact"
        await asyncio.sleep(0.5)
    released.set()
    await stop(task)


async def test_process_that_was_stopped_is_in_touch_again_by_a_renewal_only(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}})
    loop, stopped_s = asyncio.get_running_loop(), [0.0]
    made = LeaderElection(client, "agents", "agent", "me", lambda: loop.time() + stopped_s[0])
    await made.acquire()
    task = asyncio.ensure_future(made.lead())
    await asyncio.sleep(RETRY_PERIOD_S / 2)
    stopped_s[0] = LEASE_DURATION_S  # between two attempts; the next ones fail at once
    with host.down():
        for _ in range(9):
            await asyncio.sleep(RETRY_PERIOD_S / 2)
            assert not made.is_in_touch(), "another one may lead since"
    await asyncio.sleep(RETRY_PERIOD_S)
    assert made.is_leading()
    with host.down():
        for _ in range(99):
            await asyncio.sleep(RETRY_PERIOD_S / 2)
            assert made.is_in_touch(), "nobody can take the Lease"
    await stop(task)


async def test_who_tries_in_vain_is_in_touch(host: FakeApiServer, me: LeaderElection) -> None:
    await me.acquire()
    task = asyncio.ensure_future(me.lead())
    with host.down():
        for _ in range(60):
            await asyncio.sleep(1.0)
            assert me.is_in_touch()
        assert not me.is_leading()
    await stop(task)


LINE = "example.org/line"


def of_line(client: ApiClient, identity: str, line: str = LINE) -> LeaderElection:
    clock = asyncio.get_running_loop().time
    return LeaderElection(client, "agents", "agent", identity, clock, lineage=line)


async def lead_once(made: LeaderElection) -> None:
    """Lead until the Lease was renewed, then release it."""
    await made.acquire()
    task = asyncio.ensure_future(made.lead())
    await asyncio.sleep(5.0)
    await stop(task)
    await made.release()


async def test_who_follows_one_of_the_line_is_of_it(me: LeaderElection, client: ApiClient) -> None:
    first, second, third = (of_line(client, name) for name in ("a", "b", "c"))
    await first.acquire()
    assert not first.continues_lineage
    first.begin_lineage()
    await lead_once(first)
    await lead_once(second)
    assert second.continues_lineage
    await third.acquire()
    assert third.continues_lineage


async def test_who_led_without_knowing_of_the_line_ends_it(
    me: LeaderElection, client: ApiClient
) -> None:
    """As an earlier version of the program, or one with other settings."""
    first, stranger, second, third = (
        of_line(client, "a"),
        me,
        of_line(client, "b"),
        of_line(client, "c"),
    )
    first.begin_lineage()
    await lead_once(first)
    await lead_once(stranger)
    await lead_once(second)
    assert not second.continues_lineage
    await lead_once(third)
    assert not third.continues_lineage, "nobody began it again"
    await third.acquire()
    third.begin_lineage()
    await lead_once(third)
    last = of_line(client, "d")
    await last.acquire()
    assert last.continues_lineage


async def test_a_lease_that_was_deleted_meanwhile_stays_in_line(
    host: FakeApiServer, me: LeaderElection, client: ApiClient
) -> None:
    first, second = of_line(client, "a"), of_line(client, "b")
    await first.acquire()
    first.begin_lineage()
    task = asyncio.ensure_future(first.lead())
    await asyncio.sleep(5.0)
    host.remove(LEASE)
    await asyncio.sleep(5.0)
    await stop(task)
    await first.release()
    await second.acquire()
    assert second.continues_lineage
