"""The health of an API server: one probe, shared by all callers for a while."""

import asyncio
import time
from collections.abc import Callable

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ApiError, KubeError, NotServedError
from karmada_vc_agent.kube.flows import SharedLock

TIMEOUT_S = 10.0


class HealthProbe:
    """Requests /readyz, or /healthz if that is not served."""

    def __init__(
        self, client: ApiClient, max_age_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = SharedLock()
        self._probed_at = float("-inf")
        self._status: int | None = None

    async def status(self) -> int | None:
        """Return the HTTP status of the answer, None if there is none; at most max_age_s old."""
        async with self._lock:
            if self._clock() - self._probed_at >= self._max_age_s:
                self._status = await self._probe()
                self._probed_at = self._clock()
            return self._status

    async def _probe(self) -> int | None:
        for path in ("/readyz", "/healthz"):
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await self._client.request("GET", path)
            except NotServedError:
                continue
            except ApiError as error:
                return error.status
            except (KubeError, TimeoutError):
                return None
            return 200
        return 404
