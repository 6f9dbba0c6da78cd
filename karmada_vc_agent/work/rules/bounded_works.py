"""Which Works of one virtual cluster are within its bounds: the oldest that fit.

Ordered by creation time, then name, so that a restart or another replica gets the same result. A
Work that does not fit also blocks the younger ones, and none that is admitted is evicted when
another one is deleted. Kinds and shared objects count for the oldest admitted Work that has them.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from karmada_vc_agent.model.objects import GroupVersionKind, bytes_of, dig, parse_api_version
from karmada_vc_agent.model.virtual_cluster import (
    BYTES_BOUND,
    KINDS_BOUND,
    MANIFESTS_BOUND,
    SHARED_OBJECTS_BOUND,
    WORKS_BOUND,
    Bounds,
)

T = TypeVar("T", bound=Hashable)
Rank = tuple[str, str]
"""Creation time and name of a Work."""
SharedName = tuple[str, str, str]
"""Group, kind and name of an object that virtual clusters share."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The size of a Work; byte_count: what its manifests hold in memory."""

    byte_count: int
    manifest_count: int
    kinds: tuple[GroupVersionKind, ...]
    shared: tuple[SharedName, ...]


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


class _FirstOnes(Generic[T]):
    """Things in the order of the first Work that has them; the first `bound` are admitted."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._users: dict[T, set[Rank]] = {}
        self._first: dict[T, Rank] = {}
        self._order: list[tuple[Rank, T]] = []

    def __len__(self) -> int:
        """Return the number of things, admitted or not."""
        return len(self._order)

    def is_in(self, thing: T) -> bool:
        """Return whether a thing is admitted; unknown things are not."""
        first = self._first.get(thing)
        if first is None:
            return False
        if not self._bound or len(self._order) <= self._bound:
            return True
        return (first, thing) <= self._order[self._bound - 1]

    def users(self, thing: T) -> Iterable[Rank]:
        """Return the Works that have a thing."""
        return self._users.get(thing, ())

    def add(self, thing: T, rank: Rank) -> list[T]:
        """Record that a Work has a thing; return the things admitted or evicted by that."""
        self._users.setdefault(thing, set()).add(rank)
        first = self._first.get(thing)
        if first is not None and first <= rank:
            return []
        return self._move(thing, rank)

    def discard(self, thing: T, rank: Rank) -> list[T]:
        """Record that a Work no longer has a thing; return as `add`."""
        users = self._users.get(thing, set())
        users.discard(rank)
        if self._first.get(thing) != rank:
            return []
        return self._move(thing, min(users) if users else None)

    def _move(self, thing: T, first: Rank | None) -> list[T]:
        was_in = self.is_in(thing)
        old = self._first.pop(thing, None)
        if old is not None:
            del self._order[bisect_left(self._order, (old, thing))]
        if first is None:
            self._users.pop(thing, None)
        else:
            self._first[thing] = first
            insort(self._order, (first, thing))
        is_in, length = self.is_in(thing), len(self._order)
        changed = [thing] if is_in != was_in else []  # for others that have it, too
        if is_in and not was_in and self._bound and length > self._bound:
            changed.append(self._order[self._bound][1])  # it was the last one admitted
        if was_in and not is_in and self._bound and length >= self._bound:
            changed.append(self._order[self._bound - 1][1])  # it takes the free place
        return changed


@dataclass(frozen=True, slots=True)
class _Entry:
    rank: Rank
    uid: str
    generation: int
    measure: Measure


class BoundedWorks:
    """The Works of one virtual cluster, in order."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.kinds: _FirstOnes[GroupVersionKind] = _FirstOnes(bounds.kinds)
        self.shared: _FirstOnes[SharedName] = _FirstOnes(bounds.shared_objects)
        self._entries: dict[str, _Entry] = {}
        self._line: list[Rank] = []
        self._in = 0
        self._in_bytes = 0

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
        if self._entries.get(name) == entry:
            return []
        changed = self._remove(name)
        self._entries[name] = entry
        if self._is_small(entry):
            position = bisect_left(self._line, entry.rank)
            self._line.insert(position, entry.rank)
            if position < self._in:
                changed |= self._enter(entry)
        return sorted((changed | self._settle()) - {name})

    def remove(self, name: str, uid: str) -> list[str]:
        """Remove a Work; return the Works whose admission changed."""
        entry = self._entries.get(name)
        if entry is None or entry.uid != uid:
            return []
        return sorted((self._remove(name) | self._settle()) - {name})

    def problem(self, name: str) -> str:
        """Return the bound (model/virtual_cluster.py) that a Work exceeds as a whole, or ""."""
        entry = self._entries.get(name)
        if entry is None:
            return ""
        if not self._is_small(entry):
            return MANIFESTS_BOUND
        if self._in == len(self._line) or entry.rank < self._line[self._in]:
            return ""
        return WORKS_BOUND if self.bounds.works and self._in >= self.bounds.works else BYTES_BOUND

    def met(self) -> list[str]:
        """Return the bounds that are exceeded now."""
        exceeded = [self.problem(rank[1]) for rank in self._line[self._in : self._in + 1]]
        if len(self._line) < len(self._entries):
            exceeded.append(MANIFESTS_BOUND)
        if 0 < self.bounds.kinds < len(self.kinds):
            exceeded.append(KINDS_BOUND)
        if 0 < self.bounds.shared_objects < len(self.shared):
            exceeded.append(SHARED_OBJECTS_BOUND)
        return exceeded

    def _is_small(self, entry: _Entry) -> bool:
        return not self.bounds.manifests_per_work or (
            entry.measure.manifest_count <= self.bounds.manifests_per_work
        )

    def _remove(self, name: str) -> set[str]:
        entry = self._entries.pop(name, None)
        if entry is None or not self._is_small(entry):
            return set()
        position = bisect_left(self._line, entry.rank)
        del self._line[position]
        return self._leave(entry) if position < self._in else set()

    def _settle(self) -> set[str]:
        """Admit what fits, evict what no longer does; return those that changed."""
        changed: set[str] = set()
        while self._in and not self._fits(0, 0):
            entry = self._entries[self._line[self._in - 1][1]]
            changed |= {entry.rank[1]} | self._leave(entry)
        while self._in < len(self._line):
            entry = self._entries[self._line[self._in][1]]
            if not self._fits(1, entry.measure.byte_count):
                break
            changed |= {entry.rank[1]} | self._enter(entry)
        return changed

    def _fits(self, works: int, byte_count: int) -> bool:
        bounds = self.bounds
        is_few = not bounds.works or self._in + works <= bounds.works
        return is_few and (not bounds.bytes or self._in_bytes + byte_count <= bounds.bytes)

    def _enter(self, entry: _Entry) -> set[str]:
        self._in += 1
        self._in_bytes += entry.measure.byte_count
        return _each(self.kinds, self.kinds.add, entry.measure.kinds, entry.rank) | _each(
            self.shared, self.shared.add, entry.measure.shared, entry.rank
        )

    def _leave(self, entry: _Entry) -> set[str]:
        self._in -= 1
        self._in_bytes -= entry.measure.byte_count
        return _each(self.kinds, self.kinds.discard, entry.measure.kinds, entry.rank) | _each(
            self.shared, self.shared.discard, entry.measure.shared, entry.rank
        )


def _each(
    ones: _FirstOnes[T], change: Callable[[T, Rank], list[T]], things: Iterable[T], rank: Rank
) -> set[str]:
    """Apply a change to all things of a Work; return the Works whose admission it changes."""
    changed = (other for thing in things for other in change(thing, rank))
    return {name for thing in changed for _, name in ones.users(thing)}
