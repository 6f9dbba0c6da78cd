"""The last known state of one watched resource, with indexes.

Fed by a reflector, and by whoever has just written an object and knows its answer
(`observe`), so that the next reconcile does not plan against a stale copy. A change that
is older than what is stored is dropped, and so is an answer about an object whose
deletion was seen already.

An object that cannot be read is not one that is gone: what was known of it stays. An index
or a handler that fails costs that index or handler this one object, and nobody else.
"""

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from karmada_vc_agent.kube.codec import Codec, Key, Unreadable
from karmada_vc_agent.kube.versions import is_at_most, is_lower
from karmada_vc_agent.model.objects import Object

_log = logging.getLogger(__name__)

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]
"""Called with old and new object after a change was stored; None = was or is not there."""

_DELETED_REMEMBERED = 4096
_FAULTS_LOGGED = 1000


def is_echo(old: Object | None, new: Object | None) -> bool:
    """Whether a watch tells of a write of our own, which was stored when it was answered."""
    if old is None or new is None:
        return False
    before, after = old["metadata"], new["metadata"]
    return bool(before.get("resourceVersion") == after.get("resourceVersion"))


class Store(Generic[T]):
    """Objects by (namespace, name); indexes map a name to the keys an object appears under.

    on_replaced: called after each list, with whether the time of the server went back.
    """

    def __init__(
        self, codec: Codec[T], indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None
    ) -> None:
        self._codec = codec
        self._objects: dict[Key, T] = {}
        self._index_keys = dict(indexes or {})
        self._indexed: dict[str, defaultdict[str, set[Key]]] = {
            name: defaultdict(set) for name in self._index_keys
        }
        self._handlers: list[Handler[T]] = []
        self._deleted_uids: deque[str] = deque(maxlen=_DELETED_REMEMBERED)
        self._untold: set[Key] = set()
        self.listed_version = ""
        self._faults: set[tuple[str, str]] = set()
        self.on_fault: Callable[[str], None] = lambda _: None
        self.on_replaced: Callable[[bool], None] = lambda _: None
        self.unreadable: dict[Key | None, str] = {}
        self.is_synced = False

    def __len__(self) -> int:
        """Return how many objects are stored."""
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """Iterate over a copy of the list, so that the store may change meanwhile."""
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> T | None:
        """Return one object, for reading only."""
        return self._objects.get((namespace, name))

    def by_index(self, index: str, value: str) -> list[T]:
        """Return the objects that appear under a value of an index."""
        return [self._objects[key] for key in self._indexed[index].get(value, ())]

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler` for what is stored now and for every later change."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            self._tell(handler, None, obj)

    def apply(self, obj: T) -> None:
        """Store an object from the watch."""
        key = self._codec.key(obj)
        self.unreadable.pop(key, None)
        old = self._objects.get(key)
        if old is not None and self._is_older(obj, old):
            return
        self._put(key, old, obj)
        self._notify(old, obj)

    def observe(self, obj: T) -> None:
        """Store an object that the server has just answered; handlers are told by the watch."""
        key = self._codec.key(obj)
        old = self._objects.get(key)
        if self._codec.uid(obj) in self._deleted_uids:
            return
        if old is None and is_at_most(self._version(obj), self.listed_version):
            return  # a later list did not have it any more
        if old is None or self._is_older(old, obj):
            self._put(key, old, obj)
            self._untold.add(key)

    def untold(self) -> list[T]:
        """Return what was observed, and what no watch has told of since."""
        return [self._objects[key] for key in self._untold if key in self._objects]

    def complete(self, obj: T) -> None:
        """Store the same version of an object with more of it than is stored; nobody is told."""
        key = self._codec.key(obj)
        old = self._objects.get(key)
        if old is None or self._codec.uid(old) != self._codec.uid(obj):
            return
        if not self._is_older(obj, old):
            self._put(key, old, obj)

    def put_back(self, obj: T) -> None:
        """Store an object of a server whose time went back; versions known before mean nothing."""
        key = self._codec.key(obj)
        old = self._objects.get(key)
        with suppress(ValueError):
            self._deleted_uids.remove(self._codec.uid(obj))
        if old is None or self._version(old) != self._version(obj):
            self._put(key, old, obj)
            self._notify(old, obj)

    def accept(self, obj: T) -> None:
        """Store an object that the server has just answered, and tell the handlers at once."""
        key = self._codec.key(obj)
        old = self._objects.get(key)
        self.observe(obj)
        if self._objects.get(key) is obj:
            self._notify(old, obj)

    def remove(self, obj: T) -> None:
        """Forget an object whose deletion the watch has shown."""
        self._remove(self._codec.key(obj), self._codec.uid(obj))

    def remove_unreadable(self, found: Unreadable) -> None:
        """Forget an object whose deletion the watch has shown, without the rest of it."""
        if found.key is not None:
            self._remove(found.key, found.uid)

    def doubt(self, found: Unreadable) -> None:
        """Note an object that cannot be read, or not whole; what was known of it stays."""
        self.unreadable[found.key] = found.reason

    def _remove(self, key: Key, uid: str) -> None:
        self.unreadable.pop(key, None)
        self._deleted_uids.append(uid)
        old = self._objects.get(key)
        if old is not None and self._codec.uid(old) == uid:
            self._drop(key, old)
            self._notify(old, None)

    def is_ahead_of(self, objects: Iterable[T], version: str) -> bool:
        """Whether a list has an object older than it was known before that list was made.

        Then the time of the server went back, although its versions have grown past since.
        """
        for obj in objects:
            known = self._objects.get(self._codec.key(obj))
            if known is None or not is_at_most(self._version(known), version):
                continue  # what was observed after the list was made
            if self._is_older(obj, known):
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
        """Make the store equal to a fresh list; handlers see the differences only.

        version: resourceVersion of the list. What was observed and not yet told is told.
        unreadable: what else is in the list. Where one has no name, it may be any of those
        that are known and not listed: none of them is taken to be gone.
        is_back: the time of the server went back, so versions known before mean nothing.
        """
        self.listed_version = version
        if is_back:
            self._deleted_uids.clear()
            self._untold.clear()
        listed = {self._codec.key(obj): obj for obj in objects}
        there = {found.key for found in unreadable}
        for key, old in list(self._objects.items()):
            if key not in listed and key not in there and None not in there:
                self._deleted_uids.append(self._codec.uid(old))
                self._drop(key, old)
                self._notify(old, None)
        for key, obj in listed.items():
            known = self._objects.get(key)
            is_new = known is None or self._version(known) != self._version(obj)
            if is_back and is_new:
                self._put(key, known, obj)
                self._notify(known, obj)
            elif is_new or key in self._untold:
                self.apply(obj)
        self.unreadable = {found.key: found.reason for found in unreadable}
        self.is_synced = True
        try:
            self.on_replaced(is_back)
        except Exception:  # noqa: BLE001 - who listens must not cost the list
            self._fault("handler of lists", None)

    def _version(self, obj: T) -> str:
        return self._codec.resource_version(obj)

    def _is_older(self, first: T, second: T) -> bool:
        is_same = self._codec.uid(first) == self._codec.uid(second)
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
        """Return where an object appears in an index; nowhere where the index fails at it."""
        try:
            return set(self._index_keys[index](obj))
        except Exception:  # noqa: BLE001 - one object must not cost the others
            self._fault(f"index {index}", obj)
            return set()

    def _tell(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:  # noqa: BLE001 - one object must not cost the others
            self._fault(f"handler {getattr(handler, '__qualname__', handler)}", new or old)

    def _fault(self, part: str, obj: T | None) -> None:
        """Count a fault of an index or handler; log its traceback once for each object."""
        name = "/".join(self._codec.key(obj)) if obj is not None else ""
        self.on_fault(part.partition(" ")[0])
        if (part, name) not in self._faults and len(self._faults) < _FAULTS_LOGGED:
            self._faults.add((part, name))
            _log.exception("Failing at an object", extra={"part": part, "object": name})

    def _notify(self, old: T | None, new: T | None) -> None:
        told = new if new is not None else old
        if told is not None:
            self._untold.discard(self._codec.key(told))
        for handler in self._handlers:
            self._tell(handler, old, new)
