"""What serves in place of a hub that is away; a feature may provide it."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Offline(Protocol):
    """Serves as the hub said before this process began, until the hub has listed everything."""

    has_begun: asyncio.Event
    on_known: Callable[[], None]

    @property
    def is_fencing(self) -> bool:
        """Whether the Clusters are those that were saved."""

    def hub_known(self, hub: str) -> None:
        """Take which hub it is that answers. hub: uid of its kube-system, "" = not readable."""

    async def run(self) -> None:
        """Serve until the hub has listed everything."""


class SavedHub(Protocol):
    """What is saved of the hub.

    offline: what serves from it.
    """

    @property
    def offline(self) -> Offline:
        """What serves from it."""

    def remark(self) -> str | None:
        """Return what is served from it, and what of it is not used, None = nothing."""

    def is_served_from(self) -> bool:
        """Whether any virtual cluster is served as the hub said before this process began."""
