"""The host's warnings, told as they come; none of them is kept.

A host has thousands of Events, and whoever may create them in one namespace can make that millions.
What is not wanted is dropped as it is decoded: pages of a list are in memory until its end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from karmada_vc_agent.features.host_events.event import HostEvent
from karmada_vc_agent.kube.codec import Page, StructCodec, Unreadable, WatchEvent
from karmada_vc_agent.kube.store import Store

EVENTS_PATH = "/api/v1/events"
WARNINGS = {"fieldSelector": "type=Warning"}


class WantedCodec(StructCodec[HostEvent]):
    """Decodes Events, and leaves out those that are not wanted."""

    def __init__(self, wants: Callable[[HostEvent], bool]) -> None:
        super().__init__(HostEvent)
        self._wants = wants

    def page(self, content: bytes) -> Page[HostEvent]:
        """Decode one page. Raises ValueError if it cannot be read as a whole."""
        return self._wanted(super().page(content))

    def page_by_items(self, content: bytes) -> Page[HostEvent]:
        """Decode one page item by item. Raises UnreadableError if it is not a list."""
        return self._wanted(super().page_by_items(content))

    def event(self, line: bytes) -> WatchEvent[HostEvent]:
        """Decode one line of a watch. Raises UnreadableError if it is not an event."""
        told = super().event(line)
        if told.obj is None or self._wants(told.obj):
            return told
        return WatchEvent(told.type, None, told.resource_version)

    def _wanted(self, page: Page[HostEvent]) -> Page[HostEvent]:
        items = [event for event in page.items if self._wants(event)]
        return Page(items, page.resource_version, page.continue_token, page.unreadable)


class PassingStore(Store[HostEvent]):
    """Tells its handlers of each event, and stores none."""

    def apply(self, obj: HostEvent) -> None:
        """Tell of an event from the watch."""
        self._notify(None, obj)

    def remove(self, obj: HostEvent) -> None:
        """Do nothing: what is told stays told."""

    def doubt(self, found: Unreadable) -> None:
        """Do nothing: an event that cannot be read tells nothing."""

    def replace_all(
        self,
        objects: Iterable[HostEvent],
        version: str = "",
        unreadable: Sequence[Unreadable] = (),
        *,
        is_back: bool = False,
    ) -> None:
        """Tell of all that is listed."""
        del unreadable
        super().replace_all((), version, is_back=is_back)
        for event in objects:
            self._notify(None, event)

    def __iter__(self) -> Iterator[HostEvent]:
        """Iterate over nothing."""
        return iter(())
