"""Which virtual clusters take changes now, by their maintenance windows, and when that changes."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.windows import Opening, opening, parse_windows

CHECK_S = 15.0
"""The clock may be set, and settings may change."""
_OPEN = Opening(is_open=True)


class Openings:
    """The states of all windows; changed: emits a virtual cluster whose window opened or closed.

    now: an aware time. Without a window a virtual cluster is always open.
    """

    def __init__(
        self, virtual_clusters: Mapping[str, VirtualCluster], now: Callable[[], datetime]
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._now = now
        self._was_open: dict[str, bool] = {}
        self.changed: Signal[[str]] = Signal()

    def of(self, vc: VirtualCluster) -> Opening:
        """Return whether a virtual cluster takes changes, and until when that is so."""
        return opening(parse_windows(vc.window), self._now()) if vc.window else _OPEN

    def check(self) -> float:
        """Emit the windows that opened or closed; return the seconds until the next one does."""
        now, next_s = self._now(), CHECK_S
        before, self._was_open = self._was_open, {}
        for name, vc in self._virtual_clusters.items():
            state = self.of(vc)
            self._was_open[name] = state.is_open
            if state.until is not None:
                next_s = min(next_s, (state.until - now).total_seconds())
            if before.get(name, state.is_open) != state.is_open:
                self.changed.emit(name)
        return max(next_s, 0.0)

    async def run(self) -> None:
        """Emit windows when they open and close, until cancelled."""
        while True:  # noqa: ASYNC110 - time passes without an event
            await asyncio.sleep(self.check() + 0.01)
