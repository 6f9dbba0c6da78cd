"""Entries of the checkpoint: what is saved of an object, and where.

    {"format":1,"kind":"works","hub":"...",...,"sum":"..."} newline <zlib>

The checksum is over header and objects, so each entry is used or refused by itself, whatever was
written of the others.

Of a status is saved only whether nothing of a Work waited for its maintenance window (ADR 43);
without that nothing is recreated while the window is closed.

Nothing is saved of what has a deletion mark. A Work over a bound of its virtual cluster is not
saved either: the agent keeps only its name. A suspended Work is saved as suspended: it must not be
touched. Versions are left out, so that the hub is newer, whatever version it has.

    <agent>-checkpoint-0 ... -31
        cluster.<name>                a Cluster, and into how many parts its Works are split
        works.<name>.<parts>.<part>   the Works whose names hash to that part
        rules                         interpreter customizations and webhook configurations (-0)
        contact                       the last contact with the hub (-0)

The number of parts grows with the Works of a virtual cluster. Its parts are in consecutive Secrets,
beginning with that of its name, so that those of few Works are in one Secret.
What does not fit below `LARGEST_SECRET` is left out, largest first: the Works of one virtual
cluster must not displace those of another one.
"""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
import orjson

from karmada_vc_agent.model.domain import CHECKPOINT_SECRETS
from karmada_vc_agent.model.objects import Object, maps_at


class Reason(StrEnum):
    """The reasons, as conditions have them."""

    UNREADABLE = "Unreadable"
    FORMAT = "FormatDiffers"
    CHECKSUM = "ChecksumDiffers"
    HUB = "HubDiffers"
    CLUSTER = "ClusterDiffers"
    TEMPLATE = "TemplateDiffers"
    DELETED = "ClusterGone"
    TOO_OLD = "TooOld"
    OUTDATED = "Outdated"


DAMAGED = frozenset({Reason.UNREADABLE, Reason.CHECKSUM})
"""The reasons where an entry is not as the agent wrote it; its Secret is named."""


class UnusableError(Exception):
    """An entry of the checkpoint must not be used; `str()` says why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


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


def encode(header: Header, objects: Sequence[bytes]) -> bytes:
    """Return an entry. objects: the JSON of each."""
    body = zlib.compress(b"[" + b",".join(objects) + b"]", LEVEL)
    summed = msgspec.structs.replace(header, sum=_sum(header, body))
    return msgspec.json.encode(summed) + b"\n" + body


def verified(content: bytes) -> Header:
    """Return the header of an entry whose checksum is right. Raises UnusableError."""
    line, _, body = content.partition(b"\n")
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnusableError(Reason.UNREADABLE, f"its header cannot be read: {error}") from error
    if header.format != FORMAT:
        detail = f"it has format {header.format}, this agent reads format {FORMAT}"
        raise UnusableError(Reason.FORMAT, detail)
    if header.sum != _sum(header, body):
        raise UnusableError(Reason.CHECKSUM, "its checksum differs from its content")
    return header


def decode(content: bytes) -> tuple[Header, list[Object]]:
    """Return an entry whose checksum is right. Raises UnusableError."""
    header, unpacking = verified(content), zlib.decompressobj()
    try:
        objects = orjson.loads(unpacking.decompress(_body(content), LARGEST_BYTES))
    except (zlib.error, ValueError, RecursionError) as error:
        raise UnusableError(Reason.UNREADABLE, f"its content cannot be read: {error}") from error
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise UnusableError(Reason.UNREADABLE, "its content is no list of objects")
    return header, objects


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


def _sum(header: Header, body: bytes) -> str:
    """Return the checksum of header and body, whatever checksum the header has."""
    summed = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(header, sum="")))
    summed.update(b"\n")
    summed.update(body)
    return summed.hexdigest()


LARGEST_OBJECT = 2 * 2**20
"""Bytes of JSON; API servers store no object of twice that, and it must fit beside others."""

_METADATA = (
    *("name", "namespace", "uid", "generation", "creationTimestamp"),
    *("labels", "annotations", "finalizers", "ownerReferences"),
)
_CONTENT = ("apiVersion", "kind", "spec", "target", "customizations", "webhooks")
"""Fields of Works, Clusters, customizations and webhook configurations that a client wrote."""


def _dispatched(obj: Object) -> Object | None:
    """Return Dispatching of a Work of whose generation nothing waits; None where it may wait."""
    generation = obj["metadata"].get("generation")
    expected = {"type": "Dispatching", "status": "True", "observedGeneration": generation}
    conditions = maps_at(obj, "status", "conditions") if generation else ()
    return expected if any(expected.items() <= each.items() for each in conditions) else None


def encoded(obj: Object) -> bytes | None:
    """Return the JSON that is saved of an object; None where it is not, or cannot be."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    left = {key: obj[key] for key in _CONTENT if key in obj}
    left["metadata"] = {key: metadata[key] for key in _METADATA if key in metadata}
    if dispatched := _dispatched(obj):
        left["status"] = {"conditions": [dispatched]}
    try:
        content = orjson.dumps(left, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError, RecursionError):
        return None  # nested too deep, or with a number that JSON has not
    return content if len(content) <= LARGEST_OBJECT else None


def mark(obj: Object) -> int:
    """Return a number that changes whenever what is saved of an object does.

    Cheap, and the same in one process only: `metadata.generation` grows with each change of the
    content.
    """
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return 0
    parts = [str(metadata.get(key)) for key in ("uid", "generation")]
    parts += [str(metadata.get(key) or "") for key in ("labels", "annotations", "finalizers")]
    parts.append(str(_dispatched(obj) is not None))
    return zlib.crc32("\n".join(parts).encode("utf-8", "surrogatepass")) or 1


LARGEST_SECRET = 500_000
"""Bytes in one Secret; an API server takes 1 MiB, and a request for it with base64 is larger."""
LARGEST_RULES = LARGEST_SECRET // 2
WORKS_A_PART = 32
"""They fit into a Secret if they have 15 kB each, compressed."""
MOST_PARTS = 512
RULES_KEY, CONTACT_KEY = "rules", "contact"


def head_key(cluster: str) -> str:
    """Return the key of a Cluster."""
    return f"cluster.{cluster}"


def works_prefix(cluster: str, parts: int) -> str:
    """Return what the keys begin with of a Cluster whose Works are split into so many parts."""
    return f"works.{cluster}.{parts}."


def works_key(cluster: str, parts: int, part: int) -> str:
    """Return the key of a part of the Works of a Cluster."""
    return f"{works_prefix(cluster, parts)}{part}"


def cluster_of_key(key: str) -> str:
    """Return the Cluster that a key is of, "" for none. Names of Clusters have no dots."""
    kind, _, rest = key.partition(".")
    return rest.partition(".")[0] if kind in ("cluster", "works") else ""


def part_of(name: str, parts: int) -> int:
    """Return the part of a Work."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % parts


def place_of(cluster: str, part: int) -> int:
    """Return the number of the Secret of a part; the Cluster itself is beside part 0."""
    return (zlib.crc32(cluster.encode()) + part) % CHECKPOINT_SECRETS


def parts_for(works: int, at_present: int = 1) -> int:
    """Return into how many parts so many Works are split, a power of two.

    at_present: into how many they are; a smaller number only where it is far smaller, so that a
    few Works more or less do not have all of them written again.
    """
    parts = 1
    while parts * WORKS_A_PART < works and parts < MOST_PARTS:
        parts *= 2
    return parts if parts > at_present or parts * 4 <= at_present else at_present


def left_out(sizes: Mapping[str, int]) -> frozenset[str]:
    """Return the keys that do not fit into one Secret, those of the largest Clusters first.

    sizes: bytes of each key in that Secret. Keys of no Cluster always stay.
    """
    total = sum(sizes.values())
    by_cluster: dict[str, int] = {}
    for key, size in sizes.items():
        by_cluster[cluster_of_key(key)] = by_cluster.get(cluster_of_key(key), 0) + size
    dropped: set[str] = set()
    for cluster in sorted(by_cluster, key=lambda name: (-by_cluster[name], name)):
        for key in sorted(sizes, key=lambda name: (-sizes[name], name)):
            if total <= LARGEST_SECRET:
                return frozenset(dropped)
            if cluster and cluster_of_key(key) == cluster and key.startswith("works."):
                dropped.add(key)
                total -= sizes[key]
    return frozenset(dropped)
