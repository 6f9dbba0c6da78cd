"""Entries of the checkpoint, and the Secrets on the host that have them.

    {"format":1,"kind":"works","hub":"...",...,"sum":"..."} newline <zlib>

Saved is what a client wrote of each object, without its version, so that the hub is newer; of a
status only whether all of a Work was applied, where there are windows (ADR 43). Nothing is saved
of what has a deletion mark, nor Works over a bound: the agent keeps only their names.

    <agent>-checkpoint-0 ... -31
        cluster.<name>                a Cluster, and into how many parts its Works are split
        works.<name>.<parts>.<part>   the Works whose names hash to that part
        rules                         interpreter customizations and webhook configurations (-0)
        contact                       the last contact with the hub (-0)

The parts of a virtual cluster are in consecutive Secrets, beginning with that of its name. What
does not fit below `LARGEST_SECRET` is left out, that of the largest virtual clusters first.

Each write carries the last version. After a conflict, as with an earlier leader, and after a write
without a result the Secret is read again and overwritten: the state of the leader counts.
"""

import asyncio
import base64
import hashlib
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec
import orjson

from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.flows import MET_ANOTHER
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, annotations_of, is_map_of_texts
from karmada_vc_agent.work.works import applied_of, is_dispatched


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


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The subject of an entry, and its hub.

    hub: uid of its kube-system, "" = not readable. cluster, uid: of a Cluster. template: of host
    namespaces. parts: into how many entries its Works are split; part: which one of them this is.
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
    header, body = verified(content), content.partition(b"\n")[2]
    try:
        objects = orjson.loads(zlib.decompressobj().decompress(body, LARGEST_BYTES))
    except (zlib.error, ValueError, RecursionError) as error:
        raise UnusableError(Reason.UNREADABLE, f"its content cannot be read: {error}") from error
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise UnusableError(Reason.UNREADABLE, "its content is no list of objects")
    return header, objects


def identity(content: bytes) -> str:
    """Return the identity of the content of an entry, whenever it was saved; "?" if damaged."""
    try:
        header = verified(content)
    except UnusableError:
        return "?"
    if header.kind == CONTACT:
        return header.sum
    return _sum(msgspec.structs.replace(header, saved=""), content.partition(b"\n")[2])


def _sum(header: Header, body: bytes) -> str:
    summed = msgspec.json.encode(msgspec.structs.replace(header, sum=""))
    return hashlib.sha256(summed + b"\n" + body).hexdigest()


LARGEST_OBJECT = 2 * 2**20
"""Bytes of JSON; API servers store no object of twice that, and it must fit beside others."""

_METADATA = (
    "name",
    "namespace",
    "uid",
    "generation",
    "creationTimestamp",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)
_AGES = frozenset((vocabulary.OBSERVED_AT_ANNOTATION, vocabulary.HUB_CONTACT_ANNOTATION))
_CONTENT = ("apiVersion", "kind", "spec", "target", "customizations", "webhooks")
"""Fields of Works, Clusters, customizations and webhook configurations that a client wrote."""


def _dispatched(obj: Object) -> Object | None:
    """Return Dispatching of a Work of whose generation all is applied; None where it may wait."""
    applied, generation = applied_of(obj.get("status")), obj["metadata"].get("generation")
    if not is_dispatched(obj) or (applied is not None and applied["status"] != "True"):
        return None
    return {"type": "Dispatching", "status": "True", "observedGeneration": generation}


def encoded(obj: Object) -> bytes | None:
    """Return the JSON that is saved of an object; None where it is not, or cannot be."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    left = {key: obj[key] for key in _CONTENT if key in obj}
    left["metadata"] = {key: metadata[key] for key in _METADATA if key in metadata}
    if "annotations" in metadata:
        left["metadata"]["annotations"] = _annotations(obj)
    if dispatched := _dispatched(obj):
        left["status"] = {"conditions": [dispatched]}
    try:
        content = orjson.dumps(left, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError, RecursionError):
        return None  # nested too deep, or with a number that JSON has not
    return content if len(content) <= LARGEST_OBJECT else None


def _annotations(obj: Object) -> Mapping[str, str]:
    """Return the annotations without those that change with each status of a Cluster."""
    annotations = annotations_of(obj)
    if _AGES.isdisjoint(annotations):
        return annotations
    return {key: text for key, text in annotations.items() if key not in _AGES}


def mark(obj: Object) -> int:
    """Return a number, by `metadata.generation`, that changes with what is saved of an object."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return 0
    parts = [str(metadata.get(key)) for key in ("uid", "generation")]
    kept = (metadata.get("labels"), _annotations(obj), metadata.get("finalizers"))
    parts += [str(value or "") for value in kept]
    parts.append(str(_dispatched(obj) is not None))
    return zlib.crc32("\n".join(parts).encode("utf-8", "surrogatepass")) or 1


LARGEST_SECRET = 500_000
"""Bytes in one Secret; an API server takes 1 MiB, and a request for it with base64 is larger."""
LARGEST_RULES = LARGEST_SECRET // 2
WORKS_A_PART = 32
"""They fit into a Secret if they have 15 kB each, compressed."""
MOST_PARTS = 512
LARGEST_PART = LARGEST_SECRET // 4
"""Bytes of an entry with several Works, above which they are split further."""
RULES_KEY, CONTACT_KEY = "rules", "contact"


def head_key(cluster: str) -> str:
    return f"cluster.{cluster}"


def works_prefix(cluster: str, parts: int) -> str:
    """Return what the keys begin with of a Cluster whose Works are split into so many parts."""
    return f"works.{cluster}.{parts}."


def works_key(cluster: str, parts: int, part: int) -> str:
    return f"{works_prefix(cluster, parts)}{part}"


def cluster_of_key(key: str) -> str:
    """Return the Cluster that a key is of, "" for none. Names of Clusters have no dots."""
    kind, _, rest = key.partition(".")
    return rest.partition(".")[0] if kind in ("cluster", "works") else ""


def part_of(name: str, parts: int) -> int:
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % parts


def place_of(cluster: str, part: int) -> int:
    """Return the number of the Secret of a part; the Cluster itself is beside part 0."""
    return (zlib.crc32(cluster.encode()) + part) % vocabulary.CHECKPOINT_SECRETS


def parts_for(works: int, at_present: int = 1) -> int:
    """Return into how many parts so many Works are split, a power of two.

    at_present: stays unless far fewer do, so that a few Works less do not rewrite all of them.
    """
    parts = 1
    while parts * WORKS_A_PART < works and parts < MOST_PARTS:
        parts *= 2
    return parts if parts > at_present or parts * 4 <= at_present else at_present


def left_out(sizes: Mapping[str, int]) -> frozenset[str]:
    """Return the keys above one Secret, of the largest Clusters first. sizes: in bytes."""
    totals: Counter[str] = Counter()
    for key, size in sizes.items():
        totals[cluster_of_key(key)] += size
    total, dropped = totals.total(), set()

    def rank(key: str) -> tuple[int, str, int, str]:
        return -totals[cluster_of_key(key)], cluster_of_key(key), -sizes[key], key

    for key in sorted((key for key in sizes if key.startswith("works.")), key=rank):
        if total <= LARGEST_SECRET:
            break
        dropped.add(key)
        total -= sizes[key]
    return frozenset(dropped)


ATTEMPTS = 5
READ_PAUSE_S = 1.0
"""Between two attempts to read a Secret that the host has, and fails to show."""
_OF_ALL = (
    errors.UnreachableError,
    errors.UnreadableError,
    errors.ForbiddenError,
    errors.UnauthorizedError,
    errors.PageError,
)
"""Errors that are not about one Secret: they do not show what is kept."""
Changes = Mapping[str, bytes | None]
"""Key of a Secret -> its new content, None = it is removed."""


class CheckpointSecrets:
    """The Secrets by number, and the identity and size of each entry by key."""

    def __init__(self, host: ApiClient, namespace: str, agent: str) -> None:
        self._host = host
        self._namespace = namespace
        self._agent = agent
        self.names = vocabulary.secret_names(agent)
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._versions: dict[int, str] = {}
        self._entries: dict[int, dict[str, tuple[str, int]]] = {}
        self._doubtful: set[int] = set()
        self._unreadable: set[int] = set()
        self._left_out: set[str] = set()
        self.unread: dict[str, str] = {}
        """Name of a Secret that could not be read -> why."""
        self.surprises = 0
        """How often a Secret was not as it was left; its cached content may be lost."""

    async def load(self, attempts: int = ATTEMPTS) -> list[dict[str, str]]:
        """Return the data of each Secret, {} if unreadable. Raises KubeError if it is about all."""
        numbers = range(len(self.names))
        return await asyncio.gather(*(self._load(number, attempts) for number in numbers))

    async def _load(self, number: int, attempts: int) -> dict[str, str]:
        for pause_s in (*[READ_PAUSE_S] * (attempts - 1), 0.0):
            try:
                data = await self._read(number)
            except _OF_ALL:
                raise
            except errors.KubeError as error:
                self.unread[self.names[number]] = str(error)
                await asyncio.sleep(pause_s)
            else:
                self.unread.pop(self.names[number], None)
                return data
        self._doubtful.add(number)
        return {}

    @property
    def exist(self) -> bool:
        return bool(self._versions)

    @property
    def too_large(self) -> frozenset[str]:
        return frozenset(map(cluster_of_key, self._left_out))

    def identity(self, number: int, key: str) -> str:
        """Return the identity of an entry, "" where there is none."""
        return self._entries.get(number, {}).get(key, ("", 0))[0]

    def doubt_all(self) -> None:
        """Have all Secrets read again: the host was restored, or they could not be read."""
        self._doubtful.update(range(len(self.names)))
        self._unreadable.clear()

    async def settle(self) -> None:
        """Read again what may differ from how it was left. Raises KubeError if it is about all."""
        for number in self._doubtful - self._unreadable:
            try:
                await self._settle(number)
            except _OF_ALL:
                raise
            except errors.KubeError:  # the next write to it raises
                self._unreadable.add(number)

    async def _settle(self, number: int) -> None:
        before = self._versions.get(number), self._entries.get(number)
        await self._read(number)
        self.surprises += before != (self._versions.get(number), self._entries.get(number))
        self._doubtful.discard(number)
        self._unreadable.discard(number)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, entries in self._entries.items():
            for key in list(entries):
                yield number, key

    async def write_bounded(self, number: int, changes: Changes) -> None:
        """Write some entries of a Secret; what does not fit is left out. Raises KubeError."""
        sizes = {key: size for key, (_, size) in self._entries.get(number, {}).items()}
        sizes |= {key: len(new) for key, new in changes.items() if new is not None}
        sizes = {k: size for k, size in sizes.items() if changes.get(k, b"") is not None}
        dropped = left_out(sizes)
        await self.write(number, {**changes, **dict.fromkeys(dropped)})
        self._left_out = (self._left_out - changes.keys()) | dropped

    def forget_left_out(self, cluster: str, *but: str) -> None:
        """Forget what did not fit of a virtual cluster. but: prefixes of keys to keep."""
        self._left_out = {
            key for key in self._left_out if cluster_of_key(key) != cluster or key.startswith(but)
        }

    async def write(self, number: int, changes: Changes) -> None:
        """Write some entries of a Secret, as far as they differ. Raises KubeError."""
        for attempt in range(1, ATTEMPTS + 1):
            if number in self._doubtful:
                await self._settle(number)
            try:
                await self._write(number, changes)
            except BaseException as error:
                met_another = isinstance(error, MET_ANOTHER)
                if met_another or not isinstance(error, errors.ApiError) or error.status >= 500:
                    self._doubtful.add(number)  # a server that failed may have written before
                if not met_another or attempt == ATTEMPTS:
                    raise
            else:
                return

    async def remove(self, cluster: str) -> bool:
        """Remove all of a virtual cluster, its Cluster first; return whether there was any."""
        home = place_of(cluster, 0)
        had_any = await self.remove_where(lambda key: cluster_of_key(key) == cluster, home)
        self.forget_left_out(cluster)
        return had_any

    async def remove_where(self, is_of: Callable[[str], bool], first: int = 0) -> bool:
        """Remove entries by key, those of Secret `first` before others; return whether any was."""
        removed: defaultdict[int, dict[str, bytes | None]] = defaultdict(dict)
        for number, key in self:
            if is_of(key):
                removed[number][key] = None
        for number in sorted(removed, key=lambda each: each != first):
            await self.write(number, removed[number])
        return bool(removed)

    async def _write(self, number: int, changes: Changes) -> None:
        data = {
            key: base64.b64encode(new).decode() if new is not None else None
            for key, new in changes.items()
            if self.identity(number, key) != (identity(new) if new is not None else "")
        }
        if not data:
            return
        version = self._versions.get(number)
        if version is None:
            filled = {key: text for key, text in data.items() if text is not None}
            labels = {vocabulary.AGENT_LABEL: self._agent}
            metadata = {"name": self.names[number], "namespace": self._namespace, "labels": labels}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": filled}
            answer = await self._host.create(self._collection, secret)
        else:
            patch = {"metadata": {"resourceVersion": version}, "data": data}
            answer = await self._host.merge_patch(self._path(number), patch)
        self._take(number, answer)

    async def _read(self, number: int) -> dict[str, str]:
        try:
            return self._take(number, await self._host.get(self._path(number)))
        except errors.NotFoundError:
            self._versions.pop(number, None)
            self._entries.pop(number, None)
            return {}

    def _take(self, number: int, secret: Object) -> dict[str, str]:
        value = secret.get("data")
        data: dict[str, str] = value if is_map_of_texts(value) and isinstance(value, dict) else {}
        self._versions[number] = str(secret["metadata"]["resourceVersion"])
        self._entries[number] = {key: _measured(text) for key, text in data.items()}
        return data

    def _path(self, number: int) -> str:
        return f"{self._collection}/{self.names[number]}"


def _measured(text: str) -> tuple[str, int]:
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        return "?", len(text)
    return identity(content), len(content)
