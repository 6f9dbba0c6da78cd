"""What is kept in memory of Works and host objects: as much as bounds allow.

Of a Work that is out as a whole only its identity is kept in memory. It is measured as it is
decoded, so that not even a first list holds more than a page of what is over the bound.

Host objects are kept whole within the bound of their virtual cluster, of others their identity; who
needs more reads them (host_objects.py). So a tenant with too many slows down only itself.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary, ref

from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model import virtual_cluster, vocabulary
from karmada_vc_agent.model.core import HubShape
from karmada_vc_agent.model.objects import (
    NAMESPACE,
    OBJECT_BYTES,
    GroupVersionKind,
    Object,
    annotations_of,
    bytes_of,
    dig,
    gvk_of,
    labels_of,
    maps_at,
    parse_api_version,
    uid_of,
)
from karmada_vc_agent.model.virtual_cluster import (
    Bounds,
    VirtualCluster,
)
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, WITH_PODS, WORK_ANNOTATION
from karmada_vc_agent.translation.guards import HOLDERS
from karmada_vc_agent.translation.kind_policy import Code, Refusal
from karmada_vc_agent.translation.namespace_defaults import DEFAULT_KINDS, POD_SECURITY_LABEL
from karmada_vc_agent.work.works import (
    Measure,
    SharedName,
    WorkKey,
    is_trimmed,
    key_of_work,
    manifests_of,
    trim,
    without_reflected,
)

T = TypeVar("T")
Rank = tuple[str, str]
"""Creation time and name of a Work."""
_END: Rank = ("\U0010ffff", "")
"""After all Works."""


def measure(manifests: object, is_shared: Callable[[GroupVersionKind], bool]) -> Measure:
    """Measure the manifests of a Work, whatever their shape."""
    given = manifests if isinstance(manifests, list) else []
    kinds: dict[GroupVersionKind, None] = {}
    shared: dict[SharedName, None] = {}
    for manifest in given:
        kind = kind_of(manifest)
        if kind is None:
            continue
        kinds.setdefault(kind)
        name = shared_name(manifest, kind)
        if name is not None and is_shared(kind):
            shared.setdefault(name)
    return Measure(bytes_of(given), len(given), tuple(kinds), tuple(shared))


def kind_of(manifest: Any) -> GroupVersionKind | None:
    """Return the kind of a manifest; None if it is malformed."""
    api_version, kind = dig(manifest, "apiVersion"), dig(manifest, "kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    return parse_api_version(api_version, kind)


def shared_name(manifest: Any, kind: GroupVersionKind) -> SharedName | None:
    """Return the name under which a shared manifest is counted; None without a name."""
    name = dig(manifest, "metadata", "name")
    return (kind.group, kind.kind, name) if isinstance(name, str) else None


class _Entry(NamedTuple):
    rank: Rank
    uid: str
    generation: int
    measure: Measure


class _FirstOnes(Generic[T]):
    """Things in the order of the oldest Work that has them; the first `bound` are in."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._users: defaultdict[T, list[Rank]] = defaultdict(list)
        self._order: list[tuple[Rank, T]] = []

    def count(self, cut: Rank) -> int:
        return bisect_left(self._order, cut, key=itemgetter(0))

    def is_in(self, thing: T) -> bool:
        users = self._users.get(thing)
        place = (users[0], thing) if users else None
        return not (self._bound and place) or bisect_left(self._order, place) < self._bound

    def change(self, thing: T, rank: Rank, by: int) -> set[str]:
        users, before = self._users[thing], self._order[: self._bound]
        oldest, place = users[:1], bisect_left(users, rank)
        users[place : place + (by < 0)] = [rank] if by > 0 else []
        if oldest == users[:1]:
            return set()
        is_over = len(self._order) > self._bound
        if oldest:
            del self._order[bisect_left(self._order, (oldest[0], thing))]
        if users:
            insort(self._order, (users[0], thing))
        else:
            del self._users[thing]
        if not (self._bound and (is_over or len(self._order) > self._bound)):
            return set()
        moved = {each for _, each in before} ^ {each for _, each in self._order[: self._bound]}
        return {name for each in moved for _, name in self._users.get(each, ())}


class BoundedWorks:
    """The Works of one virtual cluster: those in are the oldest that fit.

    By creation time, then name, whatever process decides. A Work that does not fit also blocks the
    younger ones. Kinds and shared objects count for the oldest admitted Work that has them.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._entries: dict[str, _Entry] = {}
        self._line: list[Rank] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self.kinds: _FirstOnes[GroupVersionKind] = _FirstOnes(bounds.kinds)
        self.shared: _FirstOnes[SharedName] = _FirstOnes(bounds.shared_objects)
        self._cut = _END
        self.whole: dict[str, Object] = {}  # by name, those that are cached with all they have

    def uids(self) -> dict[str, str]:
        """Return name -> uid of all Works, admitted or not."""
        return {name: entry.uid for name, entry in self._entries.items()}

    def measure_of(self, name: str) -> Measure | None:
        entry = self._entries.get(name)
        return entry.measure if entry is not None else None

    def measured(self, name: str, uid: str, generation: int) -> Measure | None:
        """Return the measure of a Work if it is recorded for this uid and generation."""
        entry = self._entries.get(name)
        is_same = entry is not None and (entry.uid, entry.generation) == (uid, generation)
        return entry.measure if entry is not None and is_same and generation else None

    def put(
        self, name: str, created: str, uid: str, generation: int, measure: Measure
    ) -> list[str]:
        """Add or update a Work; return the other Works whose admission changed."""
        entry = _Entry((created, name), uid, generation, measure)
        former = self._entries.get(name)
        if former == entry:
            return []
        changed = self._count(former, -1) if former is not None else set[str]()
        self._entries[name] = entry
        return sorted((changed | self._count(entry, 1)) - {name})

    def remove(self, name: str, uid: str) -> list[str]:
        """Remove a Work; return the Works whose admission changed."""
        entry = self._entries.get(name)
        if entry is None or entry.uid != uid:
            return []
        del self._entries[name]
        self.whole.pop(name, None)
        return sorted(self._count(entry, -1) - {name})

    def problem(self, name: str) -> str:
        """Return the bound (model/virtual_cluster.py) that a Work exceeds as a whole, or ""."""
        entry = self._entries.get(name)
        if entry is None:
            return ""
        if not self._is_small(entry):
            return virtual_cluster.MANIFESTS_BOUND
        if entry.rank < self._cut:
            return ""
        is_full = 0 < self.bounds.works <= bisect_left(self._line, self._cut)
        return virtual_cluster.WORKS_BOUND if is_full else virtual_cluster.BYTES_BOUND

    def met(self) -> list[str]:
        """Return the bounds that are exceeded now."""
        exceeded = [self.problem(self._cut[1])] if self._cut != _END else []
        if len(self._line) < len(self._entries):
            exceeded.append(virtual_cluster.MANIFESTS_BOUND)
        if 0 < self.bounds.kinds < self.kinds.count(self._cut):
            exceeded.append(virtual_cluster.KINDS_BOUND)
        if 0 < self.bounds.shared_objects < self.shared.count(self._cut):
            exceeded.append(virtual_cluster.SHARED_OBJECTS_BOUND)
        return exceeded

    def _is_small(self, entry: _Entry) -> bool:
        most = self.bounds.manifests_per_work
        return not most or entry.measure.manifest_count <= most

    def _count(self, entry: _Entry, by: int) -> set[str]:
        if not self._is_small(entry):
            return set()
        measure, place = entry.measure, bisect_left(self._line, entry.rank)
        self._line[place : place + (by < 0)] = [entry.rank] if by > 0 else []
        self._sizes[place : place + (by < 0)] = [measure.byte_count] if by > 0 else []
        self._bytes += by * measure.byte_count
        changed = self._move_cut() if entry.rank <= self._cut else set[str]()
        for kind in measure.kinds:
            changed |= self.kinds.change(kind, entry.rank, by)
        for name in measure.shared:
            changed |= self.shared.change(name, entry.rank, by)
        return changed

    def _move_cut(self) -> set[str]:
        before, line, most = self._cut, self._line, self.bounds.works or len(self._line)
        if 0 < self.bounds.bytes < self._bytes:
            most = bisect_right(list(accumulate(self._sizes[:most])), self.bounds.bytes)
        self._cut = line[most] if most < len(line) else _END
        first, last = (bisect_left(line, cut) for cut in sorted((before, self._cut)))
        return {name for _, name in line[first:last]}


NAMESPACES_KEPT = 50
"""Of a Work that is out before it is stored."""
NOT_MEASURED = Measure(0, 0, (), ())
"""Of a Work that is not read."""

IsShared = Callable[[GroupVersionKind], bool]
KeepStatus = Callable[[str, str, Object], Object | None]
"""See KeptObjects.take_status()."""
_CUT = "cut"
"""Marks an entry that has more on the hub: it differs from every one that is to be written."""


def keep_all(_cluster: str, _uid: str, status: Object) -> Object:
    return status


_AMOUNTS = {
    virtual_cluster.WORKS_BOUND: "{0.works} Works",
    virtual_cluster.BYTES_BOUND: "{0.bytes} bytes of memory for the manifests of its Works",
    virtual_cluster.MANIFESTS_BOUND: "{0.manifests_per_work} manifests in one Work",
    virtual_cluster.KINDS_BOUND: "{0.kinds} kinds",
    virtual_cluster.SHARED_OBJECTS_BOUND: "{0.shared_objects} shared objects",
}


@dataclass(eq=False)
class WorkBounds:
    """Which Works, and which manifests in them, are out.

    on_change: called with a Work that was admitted or evicted because of another one. on_met:
    called with a virtual cluster and what it has too much of, once each time that begins.
    """

    virtual_clusters: Mapping[str, VirtualCluster]
    is_shared: IsShared = lambda _: False
    on_change: Callable[[WorkKey], None] = lambda _: None
    on_met: Callable[[str, str], None] = lambda *_: None
    kept: KeepStatus = keep_all

    def __post_init__(self) -> None:
        self._lines: dict[str, BoundedWorks] = {}
        self._met: dict[str, frozenset[str]] = {}

    def cached(self, work: Object) -> Object | None:
        """Return a Work as it is kept already, if that is whole and of the same version."""
        cluster, name = key_of_work(work)
        cached = self._lines[cluster].whole.get(name) if cluster in self._lines else None
        return cached if uid_of(cached) == uid_of(work) and is_echo(cached, work) else None

    def observe(self, work: Object, namespaces_at_most: int | None = NAMESPACES_KEPT) -> None:
        """Take a Work as it is now; trim() it, and others, where they are out or not served."""
        cluster, name = key_of_work(work)
        line, vc = self._lines.get(cluster), self.virtual_clusters.get(cluster)
        if line is not None and line.whole.get(name) is work:
            return  # taken as it was decoded, and in since
        if vc is None:
            trim(work, NOT_MEASURED, namespaces_at_most)
            return
        line = line or self._lines.setdefault(cluster, BoundedWorks(vc.bounds))
        metadata = work["metadata"]
        created = str(metadata.get("creationTimestamp") or "")
        uid, generation = uid_of(work), metadata.get("generation") or 0
        measured = is_trimmed(work) or line.measured(name, uid, generation)
        if measured is None:
            measured = measure(manifests_of(work), self.is_shared)
        changed = line.put(name, created, uid, generation, measured)
        if line.problem(name):
            trim(work, measured, namespaces_at_most)
            line.whole.pop(name, None)
        elif not is_trimmed(work):
            line.whole[name] = work
            self._trim_status(cluster, work)
        self._moved(cluster, line, changed)

    def _trim_status(self, cluster: str, work: Object) -> None:
        entries = maps_at(work, "status", "manifestStatuses")
        if not any("status" in entry for entry in entries):
            return
        kept = self.kept(cluster, uid_of(work), work["status"])
        if kept is None:
            kept = without_reflected(work["status"])
            for entry in kept["manifestStatuses"]:
                entry[_CUT] = True
        work["status"] = kept

    def remove(self, work: Object) -> None:
        self._remove(key_of_work(work), uid_of(work))

    def _remove(self, key: WorkKey, uid: str) -> None:
        line = self._lines.get(key[0])
        if line is None:
            return
        self._moved(key[0], line, line.remove(key[1], uid))

    def listed(self, works: Iterable[Object], clusters: Iterable[str]) -> None:
        """Take the stored Works of some virtual clusters; what is not among them is deleted."""
        read = frozenset(clusters)
        stored = {(key_of_work(work), uid_of(work)): work for work in works}
        for cluster in read & self._lines.keys():
            for name, uid in self._lines[cluster].uids().items():
                if ((cluster, name), uid) not in stored:
                    self._remove((cluster, name), uid)
        for (key, _), work in stored.items():
            if key[0] in read:
                self.observe(work, None)
            else:  # perhaps it was when its page was decoded
                trim(work, NOT_MEASURED)

    def forget_cluster(self, cluster: str) -> None:
        self._lines.pop(cluster, None)
        self._met.pop(cluster, None)

    def refusal(self, work: Object) -> Refusal | None:
        """Return why a Work is out as a whole; None where it is in."""
        cluster, name = key_of_work(work)
        line = self._lines.get(cluster)
        bound = line.problem(name) if line is not None else ""
        return _refusal(line.bounds, bound) if line is not None and bound else None

    def byte_count(self, work: Object) -> int:
        """Return what the manifests of a Work hold in memory."""
        cluster, name = key_of_work(work)
        line = self._lines.get(cluster)
        measured = line.measure_of(name) if line is not None else None
        return bytes_of(manifests_of(work)) if measured is None else measured.byte_count

    def refusal_of(self, cluster: str, manifest: Object) -> Refusal | None:
        """Return why a manifest of a Work that is in is out; None where it is in, too."""
        line, kind = self._lines.get(cluster), kind_of(manifest)
        if line is None or kind is None:
            return None
        if not line.kinds.is_in(kind):
            return _refusal(line.bounds, virtual_cluster.KINDS_BOUND)
        name = shared_name(manifest, kind) if self.is_shared(kind) else None
        if name is not None and not line.shared.is_in(name):
            return _refusal(line.bounds, virtual_cluster.SHARED_OBJECTS_BOUND)
        return None

    def met(self) -> Iterable[tuple[str, str]]:
        """Return (virtual cluster, bound) of each bound for which something is out now."""
        for cluster, bounds in self._met.items():
            for bound in sorted(bounds):
                yield cluster, bound

    def _moved(self, cluster: str, line: BoundedWorks, names: Iterable[str]) -> None:
        for name in names:
            measured = line.measure_of(name)
            if measured is not None and line.problem(name):
                whole = line.whole.pop(name, None)
                if whole is not None:
                    trim(whole, measured)
            self.on_change((cluster, name))
        before, now = self._met.get(cluster, frozenset()), frozenset(line.met())
        self._met[cluster] = now
        for bound in sorted(now - before):
            self.on_met(cluster, _text(line.bounds, bound))


class WorkCodec(RawCodec):
    """Measures Works as they are decoded; read: the virtual clusters whose Works are."""

    shape = HubShape

    def __init__(
        self, bounds: WorkBounds, read: Callable[[], Container[str]] | None = None
    ) -> None:
        self._bounds = bounds
        self._read = read

    def trim(self, obj: Object) -> Object:
        """Return what is kept of a Work."""
        work = super().trim(obj)
        if self._read is not None and key_of_work(work)[0] not in self._read():
            trim(work, NOT_MEASURED, 0)
        elif (cached := self._bounds.cached(work)) is not None:
            return cached
        else:
            self._bounds.observe(work)
        return work


def _text(bounds: Bounds, bound: str) -> str:
    return f"the virtual cluster may have {_AMOUNTS[bound].format(bounds)} (bounds.{bound})"


def _refusal(bounds: Bounds, bound: str) -> Refusal:
    which, help_text = "older Works have them", "delete what is not needed"
    if bound == virtual_cluster.MANIFESTS_BOUND:
        which, help_text = "it has more", "divide it"
    detail = f"{_text(bounds, bound)}, and {which}; {help_text}, or have bounds.{bound} raised"
    return Refusal(Code.BOUND_EXCEEDED, "", detail)


SMALL_OBJECT = 16 * 2**10
"""Kinds that the agent adds to namespaces are kept whole up to this size, over any bound."""
SMALL_STATUS = 3 * 2**10
"""Statuses of Works are kept whole up to this size, over any bound."""
_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp"),
)
_MARKS = vocabulary.MARKS | {
    vocabulary.MANAGED_LABEL,
    vocabulary.MANAGED_LABELS_ANNOTATION,
    POD_SECURITY_LABEL,
}
"""Labels and annotations by which the agent finds and judges objects."""
_MARKS_LENGTH, _MARKS_LENGTH_OF_TENANTS = 4096, 1024
"""Of all marks of an object that is not whole; tenants write those of objects in namespaces."""
_OWN_KINDS = frozenset(gvk.group_kind for gvk in DEFAULT_KINDS)
_READ_KINDS = _OWN_KINDS | HOLDERS.keys() | WITH_PODS | {NAMESPACE.group_kind}
"""Kinds whose content is read of any object; of other kinds if a Work has it."""

_Key = tuple[str, str]
"""API version and uid: informers of two versions of a kind keep an object each."""
_STATUS = "status"
"""Of a Work, in place of its API version."""


@dataclass(slots=True, weakref_slot=True)
class _Account:
    """What is kept for one virtual cluster: bytes of whole objects, number of those over it."""

    used: int = 0
    over: int = 0


class _Whole(dict[str, Any]):
    """A complete object or status; of its copies in memory the newest one counts."""

    __slots__ = ("__weakref__", "_account", "_before", "_newest", "byte_count", "counted")

    def __init__(
        self, obj: Object, account: _Account, size: int, newest: "tuple[_Copies, _Key]"
    ) -> None:
        super().__init__(obj)
        self._account, self.byte_count, self._newest = account, size, newest
        before = newest[0].get(newest[1])
        self._before = ref(before) if before is not None else None
        if before is not None:
            before.count(is_newest=False)
        self.counted = 0
        self.count(is_newest=True)

    def count(self, *, is_newest: bool) -> None:
        size = self.byte_count if is_newest else 0
        self._account.used += size - self.counted
        self.counted = size
        if is_newest:
            self._newest[0][self._newest[1]] = self

    def __del__(self) -> None:
        """Count it no more; where the newest is dropped, a store may keep the one before."""
        before = self._before() if self._before is not None and self.counted else None
        self.count(is_newest=False)
        if before is not None:
            before.count(is_newest=True)


_Copies = WeakValueDictionary[_Key, _Whole]


class ObjectIdentity(dict[str, Any]):
    """What is kept of an object that has to be read; account: of who has too much."""

    __slots__ = ("_account",)

    def __init__(self, obj: Object, account: _Account | None = None) -> None:
        metadata = obj["metadata"]
        super().__init__({key: obj[key] for key in ("apiVersion", "kind") if key in obj})
        self["metadata"] = {key: metadata[key] for key in _METADATA if key in metadata}
        most = _MARKS_LENGTH_OF_TENANTS if metadata.get("namespace") else _MARKS_LENGTH
        self["metadata"]["labels"] = _marks(labels_of(obj), most)
        self["metadata"]["annotations"] = _marks(annotations_of(obj), most)
        self._account = account or _Account()
        self._account.over += 1

    def __del__(self) -> None:
        self._account.over -= 1


class KeptObjects(RawCodec):
    """Decides what is kept of host objects as they are decoded, and of what Works report of them.

    cluster_on: the virtual cluster that has a host namespace: what is there counts for it, whatever
    its label says. over: one that has more than is kept, and the bound in words, once.
    """

    def __init__(
        self, virtual_clusters: Mapping[str, VirtualCluster], cluster_on: Callable[[str], str]
    ) -> None:
        super().__init__()
        self._virtual_clusters = virtual_clusters
        self._cluster_on = cluster_on
        # An account exists for as long as anything counts on it.
        self._accounts: WeakValueDictionary[str, _Account] = WeakValueDictionary()
        self._whole: _Copies = WeakValueDictionary()
        self.over: Signal[[str, str]] = Signal()

    def trim(self, obj: Object) -> Object:
        """Return what is kept of an object; of the same version, what is kept already."""
        obj = super().trim(obj)
        label = labels_of(obj).get(CLUSTER_LABEL)
        if label is None or isinstance(obj, _Whole | ObjectIdentity):
            return obj
        cached = self._whole.get(_key(obj))
        if cached is not None and is_echo(cached, obj):
            return cached
        kind = gvk_of(obj).group_kind
        if WORK_ANNOTATION not in annotations_of(obj) and kind not in _READ_KINDS:
            return ObjectIdentity(obj)
        cluster = self._cluster_on(obj["metadata"].get("namespace") or "") or label
        size = bytes_of(obj)
        is_small = size <= SMALL_OBJECT and kind in _OWN_KINDS
        kept = self._take(cluster, _key(obj), obj, size, is_small=is_small)
        return ObjectIdentity(obj, kept) if isinstance(kept, _Account) else kept

    def take_status(self, cluster: str, uid: str, status: Object) -> Object | None:
        """Return the status of a Work as it is kept; None = what it reflects is over the bound."""
        size = 0 if isinstance(status, _Whole) else bytes_of(status)
        if size <= SMALL_STATUS:
            return status
        kept = self._take(cluster, (_STATUS, uid), status, size)
        return None if isinstance(kept, _Account) else kept

    def _take(
        self, cluster: str, key: _Key, obj: Object, size: int, *, is_small: bool = False
    ) -> _Whole | _Account:
        vc, before = self._virtual_clusters.get(cluster), self._whole.get(key)
        account = self._accounts.setdefault(cluster if vc is not None else "", _Account())
        bounds = vc.bounds if vc is not None else Bounds()
        used = account.used + size - (before.counted if before is not None else 0)
        fits = not bounds.bytes or used <= bounds.bytes
        if is_small or (fits and size <= OBJECT_BYTES):
            return _Whole(obj, account, size, (self._whole, key))
        if not account.over:
            text = (
                f"the agent keeps {bounds.bytes} bytes of its objects on the host in memory "
                "(bounds.bytes), and reads the others each time it needs them"
            )
            self.over.emit(cluster, text)
        return account

    def met(self) -> Iterable[tuple[str, str]]:
        """Return (virtual cluster, bound) of those that have more than is kept."""
        for cluster, account in self._accounts.items():
            if cluster in self._virtual_clusters and account.over:
                yield cluster, virtual_cluster.HOST_BYTES_BOUND


def held_bytes(obj: Object) -> int:
    """Return what an object holds in memory."""
    return obj.byte_count if isinstance(obj, _Whole) else bytes_of(obj)


def _key(obj: Object) -> _Key:
    return str(obj.get("apiVersion")), uid_of(obj)


def _marks(texts: Mapping[str, str], most: int) -> dict[str, str]:
    kept = {}
    for key in sorted(texts.keys() & _MARKS, key=lambda key: (len(texts[key]), key)):
        kept[key] = texts[key][:most]
        most -= len(kept[key])
    return kept
