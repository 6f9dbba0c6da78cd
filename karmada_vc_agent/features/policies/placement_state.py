"""What holds of the admission policies of the host, as it was found last."""

import asyncio
import logging

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.kube.signal import Signal

_log = logging.getLogger(__name__)

IN_EFFECT_WITHIN_S = 10.0
"""A server acts on a new policy after about a second (1.1 s, 1.34.4); then we go on without."""


class PlacementState:
    """The conditions PlacementEnforced and RightsConfined, the same for all Clusters.

    placement, confinement: None while they are not known. changed: one of them is another one now.
    """

    def __init__(self) -> None:
        self.placement: Condition | None = None
        self.confinement: Condition | None = None
        self._settled = asyncio.Event()
        self.changed: Signal[[]] = Signal()

    def report(self, placement: Condition, confinement: Condition) -> None:
        """Hold the conditions found."""
        if (placement, confinement) != (self.placement, self.confinement):
            self.placement, self.confinement = placement, confinement
            extra = {"enforced": placement["status"], "reason": placement["message"]}
            _log.info("Reporting placement", extra=extra)
            self.changed.emit()

    def settle(self) -> None:
        """Let those go on that wait until what can be in effect is."""
        self._settled.set()

    async def wait_settled(self, timeout_s: float = IN_EFFECT_WITHIN_S) -> None:
        """Wait until what can be in effect is; then go on, the condition says what is not."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        except TimeoutError:
            _log.warning(
                "Writing workloads before admission policies are in effect",
                extra={"waited_s": timeout_s},
            )
