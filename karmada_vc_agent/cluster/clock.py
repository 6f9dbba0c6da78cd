"""The clocks of one process."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from karmada_vc_agent.model.timestamps import timestamp


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic seconds, and the time as Kubernetes writes it."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], str] = lambda: timestamp(datetime.now(UTC))
