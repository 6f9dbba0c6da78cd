"""Events of the host: decoded, filtered, and counted in series.

API servers bound neither the texts of core/v1 Events nor the names in them, but by what etcd
stores: what waits is cut here, where it is read.

A host has thousands of Events, and any writer of them in one namespace can make that millions. What
is not taken is dropped as it is decoded: pages of a list are in memory until its end.

Several events are one series if they say the same of objects that one manifest made, as those of
the pods of a Deployment do. All that is remembered is bounded for each virtual cluster.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from cachetools import LRUCache
from msgspec import Struct

from karmada_vc_agent.kube.codec import Page, StructCodec, Unreadable, WatchEvent
from karmada_vc_agent.kube.events import Series
from karmada_vc_agent.kube.store import Store

TEXT_AT_MOST = 4096
"""Characters of a message that are kept."""
NAME_AT_MOST = 253
"""No name, kind or UID of an object is longer."""
COUNT_AT_MOST = 2**31 - 1
"""Of the field of an Event."""


class _EventMeta(Struct, rename="camel", gc=False):
    """Metadata of an Event, without labels and annotations."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Involved(Struct, rename="camel", gc=False):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_sound(self) -> bool:
        """Return whether there may be such an object at all."""
        texts = (self.api_version, self.kind, self.name, self.uid)
        return bool(self.name) and all(len(text) <= NAME_AT_MOST for text in texts)


class _EventSeries(Struct, rename="camel", gc=False):
    """The count and last time of reporters that use events.k8s.io."""

    count: int = 0
    last_observed_time: str | None = None


class HostEvent(Struct, rename="camel"):
    """An Event; any writer of Events in its namespace may have written all of it."""

    metadata: _EventMeta
    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    series: _EventSeries | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None

    def __post_init__(self) -> None:
        self.message = self.message[:TEXT_AT_MOST]

    @property
    def times(self) -> int:
        """The number of times that it occurred, at least 1."""
        return max(1, self.count, self.series.count if self.series else 0)

    @property
    def first(self) -> str:
        """The time of the first one, RFC 3339, or ""."""
        return self.first_timestamp or self.event_time or ""

    @property
    def last(self) -> str:
        """The time of the last one, RFC 3339, or ""."""
        observed = self.series.last_observed_time if self.series else None
        return observed or self.last_timestamp or self.event_time or ""


EVENTS_PATH = "/api/v1/events"
WARNINGS = {"fieldSelector": "type=Warning"}


class FilteringCodec(StructCodec[HostEvent]):
    """Decodes Events, and leaves out those that `takes` rejects."""

    def __init__(self, takes: Callable[[HostEvent], bool]) -> None:
        super().__init__(HostEvent)
        self._takes = takes

    def page(self, content: bytes) -> Page[HostEvent]:
        """Decode one page. Raises ValueError if it cannot be read as a whole."""
        return self._filtered(super().page(content))

    def page_by_items(self, content: bytes) -> Page[HostEvent]:
        """Decode one page item by item. Raises UnreadableError if it is not a list."""
        return self._filtered(super().page_by_items(content))

    def event(self, line: bytes) -> WatchEvent[HostEvent]:
        """Decode one line of a watch. Raises UnreadableError if it is not an event."""
        change = super().event(line)
        if change.obj is None or self._takes(change.obj):
            return change
        return WatchEvent(change.type, None, change.resource_version)

    def _filtered(self, page: Page[HostEvent]) -> Page[HostEvent]:
        items = [event for event in page.items if self._takes(event)]
        return Page(items, page.resource_version, page.continue_token, page.unreadable)


class PassingStore(Store[HostEvent]):
    """Notifies its handlers of each event, and stores none."""

    def apply(self, obj: HostEvent) -> None:
        """Notify of an event from the watch."""
        self._notify(None, obj)

    def remove(self, obj: HostEvent) -> None:
        """Do nothing: what was recorded stays recorded."""

    def doubt(self, unreadable: Unreadable) -> None:
        """Do nothing: an event that cannot be read reports nothing."""

    def replace_all(
        self,
        objects: Iterable[HostEvent],
        version: str = "",
        unreadable: Sequence[Unreadable] = (),
        *,
        is_back: bool = False,
    ) -> None:
        """Notify of all that is listed."""
        del unreadable
        super().replace_all((), version, is_back=is_back)
        for event in objects:
            self._notify(None, event)

    def __iter__(self) -> Iterator[HostEvent]:
        """Iterate over nothing."""
        return iter(())


WAITING_OF_ONE = 500
SERIES_OF_ONE = 500
EVENTS_OF_SERIES = 64
GATHERED_S = 2.0
"""Pods fail together, and after a start all events are listed at once: they get one count."""
REPEATED_AFTER_S = 60.0
"""A count that only rises is recorded so often at most: the budget of an object is for failures."""

EventName = tuple[str, str]
"""Host namespace and name of an Event."""


@dataclass(slots=True)
class _Tally:
    """One series; earlier: the count of events that are not remembered any more."""

    name: str
    begun_at_s: float
    counts: OrderedDict[str, int] = field(default_factory=OrderedDict)
    earlier: int = 0
    first: str = ""
    last: str = ""
    recorded: int = 0
    recorded_at_s: float = 0.0

    def note(self, event: HostEvent, now: str) -> None:
        """Count an event, also a repeated one. now: bound of times of edges ahead."""
        self.counts[event.metadata.uid] = event.times
        self.counts.move_to_end(event.metadata.uid)
        if len(self.counts) > EVENTS_OF_SERIES:
            self.earlier += self.counts.popitem(last=False)[1]
        first, last = (_stamp(each) or now for each in (event.first, event.last))
        self.first = min(self.first or first, first, now)
        self.last = max(self.last, min(last, now))

    @property
    def series(self) -> Series:
        """Return what is to be recorded now."""
        count = self.earlier + sum(self.counts.values())
        return Series(self.name, min(count, COUNT_AT_MOST), self.first, self.last)

    def wait_s(self, now_s: float) -> float:
        """Return for how long a new count is not recorded yet."""
        due_s = (
            self.recorded_at_s + REPEATED_AFTER_S if self.recorded else self.begun_at_s + GATHERED_S
        )
        return max(0.0, due_s - now_s)


class Tallies:
    """The series of one virtual cluster, and its events that wait."""

    def __init__(self) -> None:
        self._waiting: dict[EventName, HostEvent] = {}
        self._series: LRUCache[str, _Tally] = LRUCache(SERIES_OF_ONE)
        self._of_event: LRUCache[str, _Tally] = LRUCache(SERIES_OF_ONE * 2)

    def add(self, event: HostEvent) -> bool:
        """Have an event wait, in its latest state; return False if there are too many."""
        name = (event.metadata.namespace, event.metadata.name)
        if name not in self._waiting and len(self._waiting) >= WAITING_OF_ONE:
            return False
        self._waiting[name] = event
        return True

    def waiting(self, name: EventName) -> HostEvent | None:
        """Return the event that waits."""
        return self._waiting.get(name)

    def done(self, event: HostEvent) -> None:
        """Drop an event, unless it has occurred again meanwhile."""
        name = (event.metadata.namespace, event.metadata.name)
        if self._waiting.get(name) is event:
            del self._waiting[name]

    def of_event(self, event: HostEvent) -> _Tally | None:
        """Return the series that an event was counted in before."""
        return self._of_event.get(event.metadata.uid)

    def of(self, now_s: float, *identity: str) -> _Tally:
        """Return a series by what distinguishes it; the name of its Event is derived from that."""
        name = series_name(*identity)
        tally = self._series.get(name)
        if tally is None:
            tally = self._series[name] = _Tally(name, now_s)
        return tally

    def count(self, tally: _Tally, event: HostEvent, now: str) -> None:
        """Count an event in a series."""
        tally.note(event, now)
        self._of_event[event.metadata.uid] = tally


def series_name(*identity: str) -> str:
    """Return what the name of the Event of a series ends with."""
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]


def _stamp(time: str) -> str:
    """Return a time of the API server without fractions of a second."""
    return f"{time[:19]}Z" if time else ""
