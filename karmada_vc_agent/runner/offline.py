"""The interface of what a feature serves in place of a hub that is away."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Offline(Protocol):
    """Serves what is saved of the hub, until the hub has listed everything."""

    has_begun: asyncio.Event
    on_known: Callable[[], None]

    @property
    def is_fencing(self) -> bool:
        """Return whether the Clusters are those that were saved."""

    def hub_known(self, hub: str) -> None:
        """Take which hub it is that answers. hub: uid of its kube-system, "" = not readable."""


class SavedHub(Protocol):
    """All that is saved of the hub.

    offline: serves from it.
    """

    @property
    def offline(self) -> Offline:
        """Return what serves from it."""

    def remark(self) -> str | None:
        """Return what is served from it, and what of it is not used, None = nothing."""

    def is_served_from(self) -> bool:
        """Return whether any virtual cluster is served from it."""
