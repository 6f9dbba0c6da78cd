"""Bounds what manifests take in memory while they are applied: of large ones, few at once.

Small ones are bounded by the number of workers. One whose object on the host turns out to be large
is applied again among the large ones.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from karmada_vc_agent.kube.flows import FairSlots

LARGE_AT_ONCE = 2
"""Of all virtual clusters; where there are several, one of each, and they take turns."""


class InFlight:
    """The places of large manifests. is_shared: whether there are several virtual clusters."""

    def __init__(self, is_shared: Callable[[], bool] = lambda: True) -> None:
        self._places = FairSlots(LARGE_AT_ONCE, is_shared)

    def large(self) -> AbstractAsyncContextManager[None]:
        """Have a place for one large manifest."""
        return self._places.hold()
