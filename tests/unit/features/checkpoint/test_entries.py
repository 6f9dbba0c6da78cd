"""Entries of the checkpoint: what is written is read, and nothing else."""

import zlib

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint.entries import (
    WORKS,
    Reason,
    UnusableError,
    decode,
    encode,
)
from tests.unit.features.checkpoint.scene import header

CONTENT = [b'{"a":1}', b'{"b":"2"}']


def refusal_of(content: bytes) -> Reason:
    with pytest.raises(UnusableError) as caught:
        decode(content)
    return caught.value.reason


def test_what_is_written_is_read() -> None:
    found, contents = decode(encode(header(WORKS, part=3, parts=4), CONTENT))
    assert contents == [{"a": 1}, {"b": "2"}]
    assert (found.part, found.parts, found.hub) == (3, 4, "hub-1")


def test_same_content_has_same_bytes() -> None:
    assert encode(header(WORKS), CONTENT) == encode(header(WORKS), CONTENT)


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_a_changed_byte_is_refused(place: int, by: int) -> None:
    content = bytearray(encode(header(WORKS, part=1, parts=2), CONTENT))
    content[place % len(content)] ^= by
    with pytest.raises(UnusableError):
        decode(bytes(content))


@given(st.binary(max_size=200))
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(UnusableError):
        decode(content)


def test_what_is_cut_off_is_refused() -> None:
    content = encode(header(WORKS), CONTENT)
    assert refusal_of(content[:-3]) is Reason.CHECKSUM
    assert refusal_of(content.partition(b"\n")[0]) is Reason.CHECKSUM


def test_another_format_is_refused() -> None:
    content = encode(msgspec.structs.replace(header(WORKS), format=2), CONTENT)
    assert refusal_of(content) is Reason.FORMAT


def test_a_header_of_another_entry_is_refused() -> None:
    one, other = encode(header(WORKS, part=0), CONTENT), encode(header(WORKS, part=1), CONTENT[:1])
    assert refusal_of(one.partition(b"\n")[0] + b"\n" + other.partition(b"\n")[2]) is (
        Reason.CHECKSUM
    )


@pytest.mark.parametrize("body", [b"not zlib", zlib.compress(b"{"), zlib.compress(b"[1]")])
def test_content_that_is_no_list_of_objects_is_refused(body: bytes) -> None:
    summed = msgspec.structs.replace(header(WORKS), sum=entries._sum(header(WORKS), body))
    content = msgspec.json.encode(summed) + b"\n" + body
    assert refusal_of(content) is Reason.UNREADABLE


def test_content_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "LARGEST_BYTES", 1000)
    content = encode(header(WORKS), [orjson.dumps({"a": "x" * 5000})])
    assert refusal_of(content) is Reason.UNREADABLE
