"""The results of the last check of the admission policies of the host."""

import asyncio
import logging

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.kube.signal import Signal

_log = logging.getLogger(__name__)

IN_EFFECT_WITHIN_S = 10.0
"""A server acts on a new policy after about a second (1.1 s, 1.34.4); then we go on without."""


class PlacementState:
    """The conditions PlacementEnforced and RightsConfined, the same for all Clusters.

    placement, confinement: None before the first check. changed: one of them differs now.
    """

    def __init__(self) -> None:
        self.placement: Condition | None = None
        self.confinement: Condition | None = None
        self._settled = asyncio.Event()
        self.changed: Signal[[]] = Signal()

    def report(self, placement: Condition, confinement: Condition) -> None:
        """Store the conditions of a check."""
        if (placement, confinement) != (self.placement, self.confinement):
            self.placement, self.confinement = placement, confinement
            extra = {"enforced": placement["status"], "reason": placement["message"]}
            _log.info("Reporting placement", extra=extra)
            self.changed.emit()

    def settle(self) -> None:
        """Release the callers of `wait_settled`."""
        self._settled.set()

    async def wait_settled(self, timeout_s: float = IN_EFFECT_WITHIN_S) -> None:
        """Wait until what can be in effect is, at most for timeout_s."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        except TimeoutError:
            _log.warning(
                "Writing workloads before admission policies are in effect",
                extra={"waited_s": timeout_s},
            )
