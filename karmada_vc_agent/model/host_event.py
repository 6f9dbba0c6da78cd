"""Events of the host as read-only structs with only the fields that are used."""

from msgspec import Struct, field

from karmada_vc_agent.model.core import Meta


class Involved(Struct, rename="camel", gc=False):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(Struct, rename="camel", gc=False):
    """How often and when last, as reporters count that use events.k8s.io."""

    count: int = 0
    last_observed_time: str | None = None


class HostEvent(Struct, rename="camel"):
    """An Event; whoever may create Events in its namespace may have written all of it."""

    metadata: Meta
    involved_object: Involved = field(default_factory=Involved)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    series: EventSeries | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def times(self) -> int:
        """How often it occurred; at least once."""
        return max(1, self.count, self.series.count if self.series else 0)

    @property
    def first(self) -> str:
        """When it occurred first, RFC 3339, or ""."""
        return self.first_timestamp or self.event_time or ""

    @property
    def last(self) -> str:
        """When it occurred last, RFC 3339, or ""."""
        observed = self.series.last_observed_time if self.series else None
        return observed or self.last_timestamp or self.event_time or ""
