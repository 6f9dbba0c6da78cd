"""Judgements and HubContact: what the agent holds, and what the hub has of it."""

import pytest

from karmada_vc_agent.cluster.hub_clusters import LEASE, STATUS, HubContact, Judgements
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError
from tests.fakes.virtual_time import Clock

PATIENCE_S = 40.0


def ready(status: str) -> Condition:
    return Condition(type="Ready", status=status, reason="R", message="m")


async def write(error: KubeError | None = None) -> str:
    if error is not None:
        raise error
    return "written"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def contact(clock: Clock) -> HubContact:
    return HubContact(PATIENCE_S, Scopes(), clock)


def test_judgement_is_held_until_it_is_forgotten() -> None:
    scopes = Scopes()
    judgements = Judgements(scopes)
    assert not judgements.is_ready("branch-a")
    judgements.judge("branch-a", ready("True"))
    assert judgements.is_ready("branch-a")
    assert not judgements.is_ready("branch-b")
    scopes.end("branch-a")
    assert not judgements.is_ready("branch-a")


def test_listeners_hear_of_another_status_only() -> None:
    judgements = Judgements(Scopes())
    heard: list[str] = []
    judgements.changed.subscribe(heard.append)
    for status in ("True", "True", "False", "True"):
        judgements.judge("branch-a", ready(status))
    assert heard == ["branch-a"] * 3


async def test_refusal_is_reported_once_the_patience_of_the_hub_is_over(
    contact: HubContact, clock: Clock
) -> None:
    assert await contact.track("branch-a", LEASE, write()) == "written"
    contact.accepted("branch-a", LEASE)
    clock.advance(PATIENCE_S)
    with pytest.raises(ForbiddenError):
        await contact.track("branch-a", LEASE, write(ForbiddenError(401, "", "Unauthorized")))
    assert contact.problem_of() is None
    assert contact.is_accepted("branch-a")
    clock.advance(1.0)
    expected = "the hub accepts no Lease of Cluster branch-a: Unauthorized"
    assert contact.problem_of() == expected
    assert not contact.is_accepted("branch-a")
    contact.accepted("branch-a", LEASE)
    assert contact.problem_of() is None


async def test_lease_that_is_renewed_does_not_hide_a_status_that_is_refused(
    contact: HubContact, clock: Clock
) -> None:
    for name in ("branch-a", "branch-b", "branch-c"):
        contact.accepted(name, STATUS)
    clock.advance(PATIENCE_S + 1)
    for name in ("branch-a", "branch-b", "branch-c"):
        contact.accepted(name, LEASE)
    contact.accepted("branch-c", STATUS)
    expected = "the hub accepts no status of Cluster branch-a (and 1 more)"
    assert contact.problem_of() == expected
    assert contact.is_accepted("branch-c")


async def test_what_is_forgotten_is_not_missed(contact: HubContact, clock: Clock) -> None:
    contact.accepted("branch-a", STATUS)
    contact.accepted("branch-a", LEASE)
    contact.forget("branch-a")
    clock.advance(1000.0)
    assert contact.problem_of() is None


async def test_contact_with_one_cluster_is_recorded(contact: HubContact, clock: Clock) -> None:
    assert contact.silent_s("branch-a") is None
    await contact.track("branch-a", STATUS, write())
    assert contact.silent_s("branch-a") is None, "what was sent need not be accepted"
    contact.accepted("branch-a", STATUS)
    clock.advance(10.0)
    contact.accepted("branch-a", LEASE)
    clock.advance(PATIENCE_S - 5)
    assert contact.silent_s("branch-a") == PATIENCE_S - 5
    assert contact.problem_of("branch-a") == "the hub accepts no status of Cluster branch-a"
    assert contact.problem_of("branch-b") is None
    contact.forget("branch-a")
    assert contact.silent_s("branch-a") is None


def test_listeners_hear_of_the_first_contact_and_of_the_end_of_a_silence(
    contact: HubContact, clock: Clock
) -> None:
    heard: list[str] = []
    contact.changed.subscribe(heard.append)
    for what in (STATUS, LEASE, LEASE):
        contact.accepted("branch-a", what)
    assert heard == ["branch-a"], "the rest is nothing new"
    clock.advance(PATIENCE_S + 1)
    contact.accepted("branch-a", LEASE)
    assert heard == ["branch-a"], "its status is late as before"
    contact.accepted("branch-a", STATUS)
    contact.accepted("branch-a", STATUS)
    assert heard == ["branch-a"] * 2
    contact.forget("branch-a")
    contact.accepted("branch-a", LEASE)
    assert heard == ["branch-a"] * 3
