"""The host's warnings, handled as they are watched; none of them is cached.

A host has thousands of Events, and any writer of them in one namespace can make that millions. What
is not taken is dropped as it is decoded: pages of a list are in memory until its end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from karmada_vc_agent.features.host_events.event import HostEvent
from karmada_vc_agent.kube.codec import Page, StructCodec, Unreadable, WatchEvent
from karmada_vc_agent.kube.store import Store

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
