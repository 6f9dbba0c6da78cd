"""The cached state of a resource, and the history of the API server it is of."""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from karmada_vc_agent.kube.codec import Codec, Key, Unreadable
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.flows import LogOnce, low_priority
from karmada_vc_agent.model.objects import Object, dig, uid_of

_MOST_DIGITS = 20
"""Digits of a 64-bit number, which etcd uses; int() itself fails at some thousand digits."""


def is_lower(version: str, other: str) -> bool:
    """Return whether a version is certainly lower than another."""
    return version != other and is_at_most(version, other)


def is_at_most(version: str, other: str) -> bool:
    """Return whether a version is certainly lower than another or the same: both are decimal."""
    return _is_number(version) and _is_number(other) and int(version) <= int(other)


def is_of_storage(version: str) -> bool:
    """Return whether a list can be of a storage: each has a version to watch from."""
    return version not in ("", "0")


def _is_number(version: str) -> bool:
    return version.isdecimal() and len(version) <= _MOST_DIGITS


_log = logging.getLogger(__name__)

SECOND_LIST_S = 10.0
QUIET_S = 10.0
"""After an outage, how long no other is logged: where new connections fail, there are many."""

NEVER = float("inf")


class History:
    """The history of one API server, shared by all of its clients and reflectors.

    A watch from a version that a server no longer has, as after a restore, is silent forever. So
    once a version is lower than before, everything is listed again at once, and once more after a
    pause: until then the server is in doubt, and nothing is deleted based on its answers.
    """

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._away_since: float | None = None
        self._quiet_until = 0.0
        """Until when no outage is logged; NEVER while one that was logged lasts."""
        self._recovered_at = clock()
        self._ended = asyncio.Event()
        self.recovered = Signal[[]]()
        """Emitted when a client that got no answer gets answers again, and when any does."""
        self.epoch = 0
        self.time_resets = 0
        self.server = server
        self.first_version = ""
        """Of the first list, again after a reset: what is of a later version changed since then."""
        self._listed_epochs: dict[object, int] = {}
        self._settled_at_epoch: int | None = None
        self._second_list: asyncio.TimerHandle | None = None
        self._moved = asyncio.Event()
        self.was_reset = Signal[[]]()
        """Emitted when a reset is seen, before anything is listed."""
        self.settled = Signal[[]]()
        """Emitted after the second list."""

    @property
    def is_in_doubt(self) -> bool:
        """Return whether time was reset and not everything was listed twice since."""
        return self._second_list is not None or self._settled_at_epoch is not None

    def check(self, before: str, version: str, what: str, epoch: int) -> bool:
        """Report a version that is lower than before; epoch: in which `before` was seen."""
        is_back = is_lower(version, before) and epoch == self.epoch
        if is_back:
            self.notice(f"{what} was at version {before} and is at {version}")
        return is_back

    def check_written(self, written: Object, epoch: int, live: Object) -> None:
        """Notice a restore by an object that only this agent writes; written: {} = never."""
        # It shows one even where the versions of the server have passed those of before since.
        if written and uid_of(written) == uid_of(live):
            old, now = (str(dig(e, "metadata", "resourceVersion") or "") for e in (written, live))
            self.check(old, now, f"{live.get('kind')} {live['metadata']['name']}", epoch)

    def notice(self, evidence: str) -> None:
        """Report that time was reset; evidence: for the log."""
        before, loop = self._second_list, asyncio.get_running_loop()
        self._second_list = loop.call_later(SECOND_LIST_S, self._list_again)
        self._settled_at_epoch = None
        if before is not None:
            before.cancel()
            return
        self.time_resets += 1
        self.first_version = ""
        _log.warning(
            "An API server went back in time, as after a restore from a backup; listing "
            "everything again",
            extra={"server": self.server, "reason": evidence},
        )
        self.was_reset.emit()
        self._move()

    def join(self, member: object) -> None:
        """Count a reflector among those that have to list before the server is trusted again."""
        self._listed_epochs[member] = self.epoch

    def leave(self, member: object) -> None:
        self._listed_epochs.pop(member, None)
        self._settle()

    def listed(self, member: object, epoch: int) -> None:
        self._listed_epochs[member] = epoch
        self._settle()

    async def wait_new_epoch(self, epoch: int) -> None:
        while self.epoch == epoch:
            await self._moved.wait()

    def _list_again(self) -> None:
        self._second_list = None
        self._settled_at_epoch = self.epoch + 1
        self._move()
        self._settle()

    def _move(self) -> None:
        self.epoch += 1
        self._moved.set()
        self._moved = asyncio.Event()

    def _settle(self) -> None:
        target = self._settled_at_epoch
        if target is None or any(each < target for each in self._listed_epochs.values()):
            return
        self._settled_at_epoch = None
        _log.info("Listed everything again", extra={"server": self.server})
        self.settled.emit()

    @property
    def is_reachable(self) -> bool:
        """Return whether the last finished request got an answer; True before the first one."""
        return self._away_since is None

    @property
    def since(self) -> float:
        """Return since when all clients get answers, by the clock; NEVER in an outage."""
        return self._recovered_at if self.is_reachable else NEVER

    def begin_outage(self, url: str, reason: str) -> None:
        now = self._clock()
        if self._away_since is None:
            self._away_since = now
        if now >= self._quiet_until:
            self._quiet_until = NEVER
            extra = {"server": self.server, "url": url, "reason": reason}
            _log.warning("Waiting for API server", extra=extra)

    def answered(self, *, was_away: bool) -> None:
        """Record an answer; log the end of an outage. was_away: the client got none before."""
        now, away_since, self._away_since = self._clock(), self._away_since, None
        if away_since is not None:
            self._ended.set()
            self._ended = asyncio.Event()
            if self._quiet_until == NEVER:
                self._quiet_until = now + QUIET_S
                extra = {"server": self.server, "away_s": round(now - away_since, 1)}
                _log.info("API server answers again", extra=extra)
        if was_away:
            self._recovered_at = now
        if was_away or away_since is not None:
            self.recovered.emit()

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until an outage ends: the first client with an answer wakes all."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()


def doubt_of(*histories: History) -> str:
    """Return which of some servers may have been reset, as text; "" if none."""
    text = " went back in time and is being listed again"
    return next((each.server + text for each in histories if each.is_in_doubt), "")


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

    Fed by a reflector, and by writers with the server's answers (`observe`); what is older than the
    stored object is dropped. An unreadable object is not a deleted one: its cached state stays.

    begun_at: what the first list enqueues is a backlog, but for what changed since that version.
    on_replaced: called after each list, with whether the time of the server was reset.
    on_observed: called with what was stored although no watch has reported it.
    """

    def __init__(
        self, codec: Codec[T], indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None
    ) -> None:
        self.codec = codec
        self._objects: dict[Key, T] = {}
        self._index_keys = dict(indexes or {})
        self._indexed: dict[str, defaultdict[str, dict[Key, None]]] = {
            name: defaultdict(dict) for name in self._index_keys
        }
        self._handlers: list[Handler[T]] = []
        self._deleted_uids: deque[str] = deque(maxlen=_DELETED_REMEMBERED)
        self._unreported: set[Key] = set()
        self._seeded: set[Key] = set()
        self.listed_version = self.begun_at = ""
        self._faults = LogOnce(_log, _FAULTS_LOGGED)
        self.on_fault: Callable[[str], None] = lambda _: None
        self.on_replaced: Callable[[bool], None] = lambda _: None
        self.on_observed: Callable[[T], None] = lambda _: None
        self.unreadable: dict[Key | None, str] = {}
        self.is_synced = False

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """Iterate over a copy, so that the store may change meanwhile."""
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get((namespace, name))

    def by_index(self, index: str, value: str) -> list[T]:
        return [self._objects[key] for key in self._indexed[index].get(value, ())]

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler` for all stored objects and for every later change."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            self._call(handler, None, obj)

    def apply(self, obj: T) -> None:
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
        is_same = old is not None and self.codec.uid(old) == self.codec.uid(obj)
        if old is not None and is_same and not self._is_older(obj, old):
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
        self._remove(self.codec.key(obj), self.codec.uid(obj))

    def remove_unlisted(self, obj: T, version: str | None) -> None:
        """Remove an object that a list at `version` lacks, unless it is newer; None = never."""
        if version is None or is_at_most(self._version(obj), version):
            self.remove(obj)

    def remove_unreadable(self, item: Unreadable) -> None:
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
            with low_priority():
                self._notify(None, obj)

    def unseed(self, namespace: str, name: str) -> bool:
        """Remove an object that was seeded; return whether there was one."""
        key = (namespace, name)
        if key not in self._seeded:
            return False
        self._seeded.discard(key)
        self._drop(key, self._objects[key])
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
        unreadable: what else is in the list; one without a name may be any cached object. is_back:
        the server was reset, so earlier versions mean nothing.
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
        for key, obj in listed.items():
            cached = self._objects.get(key)
            is_new = cached is None or self._version(cached) != self._version(obj)
            is_fresh = self.is_synced or is_lower(self.begun_at, self._version(obj))
            with low_priority(is_low=not is_fresh):
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
        if old is not None:
            self._unindex(key, old)
        for name in self._index_keys:
            for value in self._values(name, obj):
                self._indexed[name][value][key] = None
        self._objects[key] = obj

    def _drop(self, key: Key, old: T) -> None:
        self._unindex(key, old)
        del self._objects[key]
        self._notify(old, None)

    def _unindex(self, key: Key, obj: T) -> None:
        for name in self._index_keys:
            for value in self._values(name, obj):
                keys = self._indexed[name][value]
                keys.pop(key, None)
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
        about = (part, name)
        self._faults.bug("Failed to handle an object", error, about=about, part=part, object=name)

    def _notify(self, old: T | None, new: T | None) -> None:
        obj = new if new is not None else old
        if obj is not None:
            self._unreported.discard(self.codec.key(obj))
        for handler in self._handlers:
            self._call(handler, old, new)
