"""Hands the lead over from a leader without the hub to a standby that reaches it."""

import time
from collections.abc import Callable

from karmada_vc_agent.kube.hand_over import HandOver
from karmada_vc_agent.model.domain import LACKS_HUB_ANNOTATION, OFFERS_HUB_ANNOTATION
from karmada_vc_agent.runner.hub_presence import CHECK_S, HubPresence

AWAY_S = 10.0
"""How long the leader lacks the hub before it reports that: less than the 40 s after which Karmada
takes the Clusters for lost."""
LED_S = 60.0
"""How long a process leads at least before it hands over."""
STEADY_S = 2 * CHECK_S
"""For how long a standby has had good answers only: three in a row. A hub that is just back has
answered the leader, too, by then."""


class _HubAway:
    """Determines with each renewal whether the hub is away from the leader for long."""

    def __init__(self, is_away: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._is_away = is_away
        self._clock = clock
        self._led_since: float | None = None
        self._since: float | None = None

    def lasts(self) -> bool:
        """Return whether it is time to hand the lead over."""
        now = self._clock()
        if self._led_since is None:
            self._led_since = now
        if not self._is_away():
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return now - self._since >= AWAY_S and now - self._led_since >= LED_S


def hub_relief(
    is_away: Callable[[], bool],
    presence: HubPresence,
    clock: Callable[[], float] = time.monotonic,
) -> HandOver:
    """Return how the lead is handed over. is_away: whether the hub is, from the leader.

    Both must have lasted, by the clock of each process alone, so that an unstable uplink does not
    make the lead change.
    """
    return HandOver(
        LACKS_HUB_ANNOTATION,
        OFFERS_HUB_ANNOTATION,
        _HubAway(is_away, clock).lasts,
        lambda: presence.answers_for_s() >= STEADY_S,
    )
