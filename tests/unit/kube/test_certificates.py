"""Certificates: how long they live, and for how long new ones are asked for."""

from datetime import datetime, timedelta

from karmada_vc_agent.kube.certificates import read_certificate, signing_request
from tests.fakes.authority import START, Authority


def test_short_lives_are_requested_at_the_least_that_is_signed() -> None:
    # The API server refuses less than ten minutes.
    chain, _ = Authority().pair(lifetime=timedelta(seconds=90))
    request = signing_request("x", b"", read_certificate(chain).lifetime_s)
    assert request["spec"]["expirationSeconds"] == 600


def test_chain_lives_as_long_as_its_shortest_certificate() -> None:
    authority = Authority()
    later = START + timedelta(days=1)
    short, _ = authority.pair(start=later, lifetime=timedelta(days=2))
    long, _ = authority.pair(lifetime=timedelta(days=9))
    found = read_certificate(long + short)
    assert (found.not_before, found.not_after) == (later, later + timedelta(days=2))
    assert found.remaining(datetime.fromisoformat("2026-01-03T00:00:00+00:00")) == 0.5
