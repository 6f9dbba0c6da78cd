"""How often what occurred: the counts of the host's events, by subject and content.

Several events are one series if they say the same of objects that one manifest made, as those of
the pods of a Deployment do. All that is remembered is bounded for each virtual cluster.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

from cachetools import LRUCache

from karmada_vc_agent.features.host_events.event import COUNT_AT_MOST, HostEvent
from karmada_vc_agent.kube.events import Series

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
class Tally:
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
        self._series: LRUCache[str, Tally] = LRUCache(SERIES_OF_ONE)
        self._of_event: LRUCache[str, Tally] = LRUCache(SERIES_OF_ONE * 2)

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

    def of_event(self, event: HostEvent) -> Tally | None:
        """Return the series that an event was counted in before."""
        return self._of_event.get(event.metadata.uid)

    def of(self, now_s: float, *identity: str) -> Tally:
        """Return a series by what distinguishes it; the name of its Event is derived from that."""
        name = series_name(*identity)
        tally = self._series.get(name)
        if tally is None:
            tally = self._series[name] = Tally(name, now_s)
        return tally

    def count(self, tally: Tally, event: HostEvent, now: str) -> None:
        """Count an event in a series."""
        tally.note(event, now)
        self._of_event[event.metadata.uid] = tally


def series_name(*identity: str) -> str:
    """Return what the name of the Event of a series ends with."""
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]


def _stamp(time: str) -> str:
    """Return a time of the API server without fractions of a second."""
    return f"{time[:19]}Z" if time else ""
