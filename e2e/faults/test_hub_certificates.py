"""The certificate of the hub changes, expires, or comes from another authority."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from control_planes.pki import Authority
from e2e.lab.followed import BEGINS, ENDS, Followed, says
from e2e.lab.lab import FAST, Lab
from e2e.lab.tls_front import TlsFront, lead
from e2e.lab.wait import BACKED_OFF_S, within

AUTHORITY = Authority("first")
LONG_AGO = dt.timedelta(minutes=-1)


class Fronted(NamedTuple):
    """An agent that follows a Work of a hub behind a front."""

    front: TlsFront
    seen: Followed


@pytest.fixture(name="fronted")
def serve(lab: Lab, tmp_path: Path) -> Iterator[Fronted]:
    group = lab.group("a")
    agent = lab.new_agent(group, flags=FAST)
    agent.join()
    with TlsFront(agent.hub_kubeconfig, tmp_path / "front") as front:
        front.use(AUTHORITY)
        lead(agent.hub_kubeconfig, front.server, AUTHORITY)
        agent.start(keeps_rights=True)
        lab.wait_serving(agent)
        yield Fronted(front, Followed(lab, group, agent))


def _assert_reported(seen: Followed, least: int) -> None:
    """Check that each outage has a beginning and an end.

    There may be a second one: what was about to connect when others were ended is still answered.
    """
    log = seen.agent.log()
    assert least <= log.count(BEGINS) <= 2, log
    assert log.count(BEGINS) == log.count(ENDS), log


def test_a_new_certificate_of_the_same_authority_is_nothing_new(fronted: Fronted) -> None:
    front, seen = fronted
    front.use(AUTHORITY)
    seen.recovers("2")
    _assert_reported(seen, 0)


def test_a_certificate_that_expired_is_an_outage_until_there_is_another(fronted: Fronted) -> None:
    front, seen = fronted
    front.use(AUTHORITY, LONG_AGO)
    within(BACKED_OFF_S, says, seen.agent, BEGINS)
    seen.drifts_and_is_repaired("1")
    front.use(AUTHORITY)
    seen.recovers("2")
    _assert_reported(seen, 1)


def test_another_authority_is_trusted_once_the_kubeconfig_names_it(fronted: Fronted) -> None:
    front, seen = fronted
    other = Authority("second")
    front.use(other)
    within(BACKED_OFF_S, says, seen.agent, BEGINS)
    seen.drifts_and_is_repaired("1")
    lead(seen.agent.hub_kubeconfig, front.server, other)
    seen.recovers("2")
    assert "Using changed credentials" in seen.agent.log()
    _assert_reported(seen, 1)
