"""One entry of the checkpoint: a header, and objects as compressed JSON.

    {"format":1,"kind":"works","hub":"...",...,"sum":"..."} newline <zlib>

The checksum is over header and objects, so each entry is used or refused by itself, whatever was
written of the others.
"""

import hashlib
import zlib
from collections.abc import Sequence

import msgspec
import orjson

from karmada_vc_agent.features.checkpoint.refused import Reason, UnusableError
from karmada_vc_agent.model.objects import Object

FORMAT = 1
LEVEL = 3
"""Of zlib: half the time of level 6 for 8 % more bytes (Works of 3.4 kB)."""
LARGEST_BYTES = 128 * 2**20
"""What an entry may be decompressed to; its writer could fill the memory otherwise."""

CLUSTER, WORKS, RULES, CONTACT = "cluster", "works", "rules", "contact"
"""The kinds of entries."""


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The subject of an entry, and its hub.

    hub: uid of its namespace kube-system, "" where the agent may not read it. cluster, uid: name
    and uid of a Cluster. template: that of host namespaces. parts: into how many entries the Works
    of the Cluster are split; part: which one of them this is. saved: the time of that
    state. sum: the checksum.
    """

    format: int
    kind: str
    hub: str = ""
    cluster: str = ""
    uid: str = ""
    template: str = ""
    part: int = 0
    parts: int = 0
    saved: str = ""
    sum: str = ""


class Entry(msgspec.Struct, frozen=True):
    """A header and the objects below it."""

    header: Header
    objects: list[Object]


def encode(header: Header, objects: Sequence[bytes]) -> bytes:
    """Return an entry. objects: the JSON of each."""
    body = zlib.compress(b"[" + b",".join(objects) + b"]", LEVEL)
    summed = msgspec.structs.replace(header, sum=_sum(header, body))
    return msgspec.json.encode(summed) + b"\n" + body


def header_of(content: bytes) -> Header:
    """Return the header of an entry; nothing of it is checked. Raises UnusableError."""
    line, separator, _ = content.partition(b"\n")
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnusableError(Reason.UNREADABLE, f"its header cannot be read: {error}") from error
    if header.format != FORMAT:
        detail = f"it has format {header.format}, this agent reads format {FORMAT}"
        raise UnusableError(Reason.FORMAT, detail)
    if not separator:
        raise UnusableError(Reason.UNREADABLE, "nothing follows its header")
    return header


def verified(content: bytes) -> Header:
    """Return the header of an entry whose checksum is right. Raises UnusableError."""
    header = header_of(content)
    if header.sum != _sum(header, _body(content)):
        raise UnusableError(Reason.CHECKSUM, "its checksum differs from its content")
    return header


def decode(content: bytes) -> Entry:
    """Return an entry whose checksum is right. Raises UnusableError."""
    header, body = verified(content), _body(content)
    try:
        objects = orjson.loads(_decompressed(body))
    except (zlib.error, ValueError, RecursionError) as error:
        raise UnusableError(Reason.UNREADABLE, f"its content cannot be read: {error}") from error
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise UnusableError(Reason.UNREADABLE, "its content is no list of objects")
    return Entry(header, objects)


def identity(content: bytes) -> str:
    """Return the identity of the content of an entry, whenever it was saved; never "".

    A damaged one differs from all that is to be saved, so that it is written again.
    """
    try:
        header = verified(content)
    except UnusableError:
        return "?"
    if header.kind == CONTACT:
        return header.sum
    return _sum(msgspec.structs.replace(header, saved=""), _body(content))


def _body(content: bytes) -> bytes:
    return content.partition(b"\n")[2]


def _decompressed(body: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(body, LARGEST_BYTES)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise UnusableError(Reason.UNREADABLE, "its content is cut off or too large")
    return content


def _sum(header: Header, body: bytes) -> str:
    """Return the checksum of header and body, whatever checksum the header has."""
    summed = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(header, sum="")))
    summed.update(b"\n")
    summed.update(body)
    return summed.hexdigest()
