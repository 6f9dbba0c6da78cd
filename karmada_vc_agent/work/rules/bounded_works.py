"""Which Works of one virtual cluster are within its bounds: the oldest that fit."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from karmada_vc_agent.model.objects import GroupVersionKind, bytes_of, dig, parse_api_version
from karmada_vc_agent.model.virtual_cluster import (
    BYTES_BOUND,
    KINDS_BOUND,
    MANIFESTS_BOUND,
    SHARED_OBJECTS_BOUND,
    WORKS_BOUND,
    Bounds,
)
from karmada_vc_agent.work.rules.work_conditions import Measure, SharedName

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


class _Verdict(NamedTuple):
    """Which Works are in: those before `cut`; how many kinds and shared objects they have.

    kinds_out, shared_out: which of these are too many.
    """

    cut: Rank = _END
    kinds: int = 0
    shared: int = 0
    kinds_out: frozenset[GroupVersionKind] = frozenset()
    shared_out: frozenset[SharedName] = frozenset()


class BoundedWorks:
    """The Works of one virtual cluster: those in are the oldest that fit.

    By creation time, then name, so that a restart or another replica gets the same result. A Work
    that does not fit also blocks the younger ones. Kinds and shared objects count for the oldest
    admitted Work that has them.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._entries: dict[str, _Entry] = {}
        self._line: list[Rank] = []
        self._bytes = 0
        self._kinds: Counter[GroupVersionKind] = Counter()
        self._shared: Counter[SharedName] = Counter()
        self._verdict = _Verdict()

    def __len__(self) -> int:
        """Return the number of Works, admitted or not."""
        return len(self._entries)

    def works(self) -> list[tuple[str, str]]:
        """Return name and uid of each Work, admitted or not."""
        return [(name, entry.uid) for name, entry in self._entries.items()]

    def measured(self, name: str, uid: str, generation: int) -> Measure | None:
        """Return the measure of a Work if it is recorded for this uid and generation."""
        entry = self._entries.get(name)
        if entry is None or not generation or (entry.uid, entry.generation) != (uid, generation):
            return None
        return entry.measure

    def measure_of(self, name: str) -> Measure | None:
        """Return the measure of a Work."""
        entry = self._entries.get(name)
        return entry.measure if entry is not None else None

    def put(
        self, name: str, created: str, uid: str, generation: int, measure: Measure
    ) -> list[str]:
        """Add or update a Work; return the other Works whose admission changed."""
        entry = _Entry((created, name), uid, generation, measure)
        former = self._entries.get(name)
        if former == entry:
            return []
        if former is not None:
            self._drop(former)
        self._entries[name] = entry
        if self._is_small(entry):
            insort(self._line, entry.rank)
            self._count(measure, 1)
        return self._changed_by(entry, former)

    def remove(self, name: str, uid: str) -> list[str]:
        """Remove a Work; return the Works whose admission changed."""
        entry = self._entries.get(name)
        if entry is None or entry.uid != uid:
            return []
        self._drop(entry)
        return self._changed_by(entry)

    def problem(self, name: str) -> str:
        """Return the bound (model/virtual_cluster.py) that a Work exceeds as a whole, or ""."""
        entry = self._entries.get(name)
        if entry is None:
            return ""
        if not self._is_small(entry):
            return MANIFESTS_BOUND
        if entry.rank < self._verdict.cut:
            return ""
        count = bisect_left(self._line, self._verdict.cut)
        return WORKS_BOUND if 0 < self.bounds.works <= count else BYTES_BOUND

    def is_kind_in(self, kind: GroupVersionKind) -> bool:
        """Return whether a kind of a Work that is in is in, too."""
        return kind not in self._verdict.kinds_out

    def is_shared_in(self, name: SharedName) -> bool:
        """Return whether a shared object of a Work that is in is in, too."""
        return name not in self._verdict.shared_out

    def met(self) -> list[str]:
        """Return the bounds that are exceeded now."""
        exceeded = [self.problem(self._verdict.cut[1])] if self._verdict.cut != _END else []
        if len(self._line) < len(self._entries):
            exceeded.append(MANIFESTS_BOUND)
        if 0 < self.bounds.kinds < self._verdict.kinds:
            exceeded.append(KINDS_BOUND)
        if 0 < self.bounds.shared_objects < self._verdict.shared:
            exceeded.append(SHARED_OBJECTS_BOUND)
        return exceeded

    def _is_small(self, entry: _Entry) -> bool:
        most = self.bounds.manifests_per_work
        return not most or entry.measure.manifest_count <= most

    def _drop(self, entry: _Entry) -> None:
        del self._entries[entry.rank[1]]
        if self._is_small(entry):
            del self._line[bisect_left(self._line, entry.rank)]
            self._count(entry.measure, -1)

    def _count(self, measure: Measure, by: int) -> None:
        self._bytes += by * measure.byte_count
        _add(self._kinds, measure.kinds, by)
        _add(self._shared, measure.shared, by)

    def _changed_by(self, *entries: _Entry | None) -> list[str]:
        """Judge again after a change of entries; return the other Works that it concerns."""
        before = self._verdict
        if before.cut == _END or any(each and each.rank <= before.cut for each in entries):
            self._verdict = self._judge()
        now, line = self._verdict, self._line
        first, last = (bisect_left(line, cut) for cut in sorted((before.cut, now.cut)))
        changed = {name for _, name in line[first:last]}
        kinds, shared = before.kinds_out ^ now.kinds_out, before.shared_out ^ now.shared_out
        for _, name in line[:last] if kinds or shared else ():
            measure = self._entries[name].measure
            if not kinds.isdisjoint(measure.kinds) or not shared.isdisjoint(measure.shared):
                changed.add(name)
        return sorted(changed - {each.rank[1] for each in entries if each})

    def _judge(self) -> _Verdict:
        """Admit the oldest Works that fit, which usually are all."""
        bounds = self.bounds
        if not (
            0 < bounds.works < len(self._line)
            or 0 < bounds.bytes < self._bytes
            or 0 < bounds.kinds < len(self._kinds)
            or 0 < bounds.shared_objects < len(self._shared)
        ):
            return _Verdict(kinds=len(self._kinds), shared=len(self._shared))
        cut, byte_count = _END, 0
        kinds: dict[GroupVersionKind, None] = {}
        shared: dict[SharedName, None] = {}
        for count, rank in enumerate(self._line):
            measure = self._entries[rank[1]].measure
            byte_count += measure.byte_count
            if 0 < bounds.works <= count or 0 < bounds.bytes < byte_count:
                cut = rank
                break
            kinds |= dict.fromkeys(measure.kinds)
            shared |= dict.fromkeys(measure.shared)
        kinds_out = list(kinds)[bounds.kinds :] if bounds.kinds else ()
        shared_out = list(shared)[bounds.shared_objects :] if bounds.shared_objects else ()
        return _Verdict(cut, len(kinds), len(shared), frozenset(kinds_out), frozenset(shared_out))


def _add(counted: Counter[T], things: Iterable[T], by: int) -> None:
    for thing in things:
        counted[thing] += by
        if not counted[thing]:
            del counted[thing]
