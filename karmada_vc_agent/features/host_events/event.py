"""Events of the host as read-only structs with only the fields that are used.

API servers bound neither the texts of core/v1 Events nor the names in them, but by what etcd
stores: what waits is cut here, where it is read.
"""

import msgspec
from msgspec import Struct

TEXT_AT_MOST = 4096
"""Characters of a message that are kept."""
NAME_AT_MOST = 253
"""No name, kind or UID of an object is longer."""
COUNT_AT_MOST = 2**31 - 1
"""Of the field of an Event."""


class EventMeta(Struct, rename="camel", gc=False):
    """Metadata of an Event, without labels and annotations."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Involved(Struct, rename="camel", gc=False):
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


class EventSeries(Struct, rename="camel", gc=False):
    """The count and last time of reporters that use events.k8s.io."""

    count: int = 0
    last_observed_time: str | None = None


class HostEvent(Struct, rename="camel"):
    """An Event; any writer of Events in its namespace may have written all of it."""

    metadata: EventMeta
    involved_object: Involved = msgspec.field(default_factory=Involved)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    series: EventSeries | None = None
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
