"""The cached state of one watched resource, with indexes."""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from karmada_vc_agent.kube.codec import Codec, Key, Unreadable
from karmada_vc_agent.kube.history import is_at_most, is_lower
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.model.objects import Object

_log = logging.getLogger(__name__)

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]
"""Called with old and new object after a change was stored; None = does not exist."""

_DELETED_REMEMBERED = 4096
_FAULTS_LOGGED = 1000


def is_echo(old: Object | None, new: Object | None) -> bool:
    """Return whether a watch event is about our own write, which was stored with its answer."""
    if old is None or new is None:
        return False
    before, after = old["metadata"], new["metadata"]
    return bool(before.get("resourceVersion") == after.get("resourceVersion"))


class Store(Generic[T]):
    """Objects by (namespace, name); indexes map a name to the keys an object appears under.

    Fed by a reflector, and by writers with the server's answers (`observe`), so that the next
    reconcile does not plan against a stale copy; what is older than the stored object is dropped.
    An unreadable object is not a deleted one: its cached state stays. If an index or a handler
    fails at an object, only that index or handler misses it.

    on_replaced: called after each list, with whether the time of the server was reset.
    on_observed: called with what was stored although no watch has reported it.
    """

    def __init__(
        self, codec: Codec[T], indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None
    ) -> None:
        self.codec = codec
        self._objects: dict[Key, T] = {}
        self._index_keys = dict(indexes or {})
        self._indexed: dict[str, defaultdict[str, set[Key]]] = {
            name: defaultdict(set) for name in self._index_keys
        }
        self._handlers: list[Handler[T]] = []
        self._deleted_uids: deque[str] = deque(maxlen=_DELETED_REMEMBERED)
        self._unreported: set[Key] = set()
        self._seeded: set[Key] = set()
        self.listed_version = ""
        self._faults = LogOnce(_log, _FAULTS_LOGGED)
        self.on_fault: Callable[[str], None] = lambda _: None
        self.on_replaced: Callable[[bool], None] = lambda _: None
        self.on_observed: Callable[[T], None] = lambda _: None
        self.unreadable: dict[Key | None, str] = {}
        self.is_synced = False

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """Iterate over a copy, so that the store may change meanwhile."""
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> T | None:
        """Return one object, read-only."""
        return self._objects.get((namespace, name))

    def by_index(self, index: str, value: str) -> list[T]:
        """Return the objects with a value of an index."""
        return [self._objects[key] for key in self._indexed[index].get(value, ())]

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler` for all stored objects and for every later change."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            self._call(handler, None, obj)

    def apply(self, obj: T) -> None:
        """Store an object from the watch."""
        key = self.codec.key(obj)
        self.unreadable.pop(key, None)
        old = self._objects.get(key)
        if old is not None and self._is_older(obj, old):
            return
        self._put(key, old, obj)
        self._notify(old, obj)

    def observe(self, obj: T) -> T | None:
        """Store an object from a server's answer; return what is kept, None if out of date."""
        key = self.codec.key(obj)
        old = self._objects.get(key)
        if self.codec.uid(obj) in self._deleted_uids:
            return None
        if old is None and is_at_most(self._version(obj), self.listed_version):
            return None  # a later list did not contain it any more
        if old is not None and not self._is_older(old, obj):
            return None
        kept = self.codec.trim(obj)
        self._put(key, old, kept)
        self._unreported.add(key)
        self.on_observed(kept)
        return kept

    def unreported(self) -> list[T]:
        """Return the objects from answers that no watch has reported yet."""
        return [self._objects[key] for key in self._unreported if key in self._objects]

    def complete(self, obj: T) -> None:
        """Store a fuller copy of the same version of an object; handlers are not notified."""
        key = self.codec.key(obj)
        old = self._objects.get(key)
        if old is None or self.codec.uid(old) != self.codec.uid(obj):
            return
        if not self._is_older(obj, old):
            self._put(key, old, obj)

    def put_back(self, obj: T) -> None:
        """Store an object of a server whose time was reset; earlier versions mean nothing."""
        key = self.codec.key(obj)
        old = self._objects.get(key)
        with suppress(ValueError):
            self._deleted_uids.remove(self.codec.uid(obj))
        if old is None or self._version(old) != self._version(obj):
            self._put(key, old, obj)
            self._notify(old, obj)

    def accept(self, obj: T) -> None:
        """Store an object from a server's answer, and notify the handlers immediately."""
        old = self._objects.get(self.codec.key(obj))
        kept = self.observe(obj)
        if kept is not None:
            self._notify(old, kept)

    def remove(self, obj: T) -> None:
        """Remove an object whose deletion the watch reported."""
        self._remove(self.codec.key(obj), self.codec.uid(obj))

    def remove_unlisted(self, obj: T, version: str) -> None:
        """Remove an object from an answer that a list at `version` lacks, unless it is newer."""
        if is_at_most(self._version(obj), version):
            self.remove(obj)

    def remove_unreadable(self, item: Unreadable) -> None:
        """Remove an unreadable object whose deletion the watch reported."""
        if item.key is not None:
            self._remove(item.key, item.uid)

    def seed(self, objects: Iterable[T]) -> None:
        """Store objects that an earlier process had listed, until the first list."""
        for obj in objects:
            key = self.codec.key(obj)
            if self.is_synced or key in self._objects:
                continue
            self._seeded.add(key)
            self._put(key, None, obj)
            self._notify(None, obj)

    def unseed(self, namespace: str, name: str) -> bool:
        """Remove an object that was seeded; return whether there was one."""
        key = (namespace, name)
        if key not in self._seeded:
            return False
        self._seeded.discard(key)
        old = self._objects[key]
        self._drop(key, old)
        self._notify(old, None)
        return True

    def doubt(self, item: Unreadable) -> None:
        """Record an object that cannot be read, or only in part; its cached state stays."""
        self.unreadable[item.key] = item.reason

    def _remove(self, key: Key, uid: str) -> None:
        self.unreadable.pop(key, None)
        self._deleted_uids.append(uid)
        old = self._objects.get(key)
        if old is not None and self.codec.uid(old) == uid:
            self._drop(key, old)
            self._notify(old, None)

    def is_ahead_of(self, objects: Iterable[T], version: str) -> bool:
        """Return whether a list has an older version of an object than was cached before it."""
        for obj in objects:
            cached = self._objects.get(self.codec.key(obj))
            if cached is None or not is_at_most(self._version(cached), version):
                continue  # what was observed after the list was made
            if self._is_older(obj, cached):
                return True
        return False

    def replace_all(
        self,
        objects: Iterable[T],
        version: str = "",
        unreadable: Sequence[Unreadable] = (),
        *,
        is_back: bool = False,
    ) -> None:
        """Replace the content by a new list at `version`; handlers see the differences only.

        Objects from answers that are newer than the list stay: the watch continues before them.
        unreadable: what else is in the list; one without a name may be any cached object, so none
        is removed. is_back: the server was reset, so earlier versions mean nothing.
        """
        self.listed_version = version
        if is_back:
            self._deleted_uids.clear()
            self._unreported.clear()
        listed = {self.codec.key(obj): obj for obj in objects}
        kept = {item.key for item in unreadable}
        for key, old in list(self._objects.items()):
            if key in listed or key in kept or None in kept:
                continue
            if not (key in self._unreported and is_lower(version, self._version(old))):
                self._deleted_uids.append(self.codec.uid(old))
                self._drop(key, old)
                self._notify(old, None)
        for key, obj in listed.items():
            cached = self._objects.get(key)
            is_new = cached is None or self._version(cached) != self._version(obj)
            if (is_back and is_new) or key in self._seeded:
                self._put(key, cached, obj)
                self._notify(cached, obj)
            elif is_new or key in self._unreported:
                self.apply(obj)
        self.unreadable = {item.key: item.reason for item in unreadable}
        self._seeded.clear()
        self.is_synced = True
        try:
            self.on_replaced(is_back)
        except Exception as error:  # noqa: BLE001 - who listens must not cost the list
            self._fault("handler of lists", None, error)

    def _version(self, obj: T) -> str:
        return self.codec.resource_version(obj)

    def _is_older(self, first: T, second: T) -> bool:
        is_same = self.codec.uid(first) == self.codec.uid(second)
        return is_same and is_lower(self._version(first), self._version(second))

    def _put(self, key: Key, old: T | None, obj: T) -> None:
        if self._index_keys:
            if old is not None:
                self._unindex(key, old)
            for name in self._index_keys:
                for value in self._values(name, obj):
                    self._indexed[name][value].add(key)
        self._objects[key] = obj

    def _drop(self, key: Key, old: T) -> None:
        self._unindex(key, old)
        del self._objects[key]

    def _unindex(self, key: Key, obj: T) -> None:
        for name in self._index_keys:
            for value in self._values(name, obj):
                keys = self._indexed[name].get(value)
                if keys:
                    keys.discard(key)
                    if not keys:
                        del self._indexed[name][value]

    def _values(self, index: str, obj: T) -> set[str]:
        """Return the values of an object in an index; none if the index fails at it."""
        try:
            return set(self._index_keys[index](obj))
        except Exception as error:  # noqa: BLE001 - one object must not cost the others
            self._fault(f"index {index}", obj, error)
            return set()

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception as error:  # noqa: BLE001 - one object must not cost the others
            self._fault(f"handler {getattr(handler, '__qualname__', handler)}", new or old, error)

    def _fault(self, part: str, obj: T | None, error: Exception) -> None:
        """Count a bug of an index or handler; log its traceback once for each object."""
        name = "/".join(self.codec.key(obj)) if obj is not None else ""
        self.on_fault(part.partition(" ")[0])
        text = "Failed to handle an object"
        self._faults.bug(text, error, about=(part, name), part=part, object=name)

    def _notify(self, old: T | None, new: T | None) -> None:
        obj = new if new is not None else old
        if obj is not None:
            self._unreported.discard(self.codec.key(obj))
        for handler in self._handlers:
            self._call(handler, old, new)
