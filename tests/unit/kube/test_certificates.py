"""Certificates: how long they live, and for how long new ones are asked for."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from karmada_vc_agent.kube.certificates import Certificate, read_certificate, signing_request
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


def test_certificate_is_read_as_the_library_reads_it() -> None:
    # Times from 2050 on have another form.
    authority = Authority()
    for start in (START, datetime(2049, 12, 31, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)):
        chain, _ = authority.pair(start=start, lifetime=timedelta(days=400))
        theirs = x509.load_pem_x509_certificate(chain)
        ours = read_certificate(chain)
        assert ours.not_before == theirs.not_valid_before_utc
        assert ours.not_after == theirs.not_valid_after_utc
        assert [text.decode() for _, text in ours.subject] == [
            each.value for each in theirs.subject
        ]


def test_certificate_that_is_cut_off_is_refused() -> None:
    chain, _ = Authority().pair()
    der = x509.load_pem_x509_certificate(chain).public_bytes(serialization.Encoding.DER)
    for size in range(len(der)):
        pem = base64.b64encode(der[:size])
        with pytest.raises(ValueError, match=r"cut off|unpack|padding|time"):
            read_certificate(b"-----BEGIN CERTIFICATE-----%s-----END CERTIFICATE-----" % pem)


def test_time_without_its_zone_is_of_utc_and_one_of_another_zone_refused() -> None:
    assert _ending(b"260101000000").not_after == START
    with pytest.raises(ValueError, match="isoformat"):
        _ending(b"260101000000+0100")


def _ending(text: bytes) -> Certificate:
    def element(tag: int, *content: bytes) -> bytes:
        joined = b"".join(content)
        return bytes((tag, len(joined))) + joined

    validity = element(0x30, element(0x17, b"250101000000Z"), element(0x17, text))
    nothing = element(0x30)
    parts = element(0x02), nothing, nothing, validity, nothing
    pem = base64.b64encode(element(0x30, element(0x30, *parts)))
    return read_certificate(b"-----BEGIN CERTIFICATE-----%s-----END CERTIFICATE-----" % pem)
