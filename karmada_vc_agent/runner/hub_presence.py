"""Checks that the hub is what the agent needs, and that it answers now."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import KubeError, PageError, UnreachableError, UnreadableError
from karmada_vc_agent.kube.first_lists import not_listed
from karmada_vc_agent.kube.listing import check_listed
from karmada_vc_agent.kube.retries import retry_until_done
from karmada_vc_agent.runner.api_servers import check_apart, check_karmada
from karmada_vc_agent.runner.hub_identity import HubIdentity

CHECK_S = 10.0
"""Interval of requests by which a standby, which makes no others, checks the hub."""
PATIENCE_S = 1.0
"""How long a hub may take for a small answer before it counts as away: a round trip by satellite
takes 0.6 s. A slower one is replaced by the checkpoint until it answers."""


class HubPresence:
    """Checks the hub.

    was_seen: whether there is evidence on the host that it served Clusters before; may raise
    KubeError. refuses: why it would not accept this process, None if it would. away: why what
    answers in its place cannot be the hub, None if it does not.
    """

    def __init__(
        self,
        hub: ApiClient,
        identity: HubIdentity,
        was_seen: Callable[[], Awaitable[bool]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub = hub
        self._was_seen = was_seen
        self._identity = identity
        self._clock = clock
        self._requested_at: float | None = None
        self._answers_since: float | None = None
        self.is_checked = False
        self.refuses: str | None = None
        self.away: str | None = None

    async def check(self, host_uid: str) -> None:
        """Return once it is a Karmada, and another API server than the host. Raises ConfigError."""
        hub = self._hub
        await retry_until_done("list Clusters on the hub", self._check_karmada)
        self._identity.uid = await retry_until_done(
            "read namespace kube-system on the hub", lambda: check_apart(hub, host_uid)
        )
        self.is_checked = True

    async def _check_karmada(self) -> None:
        try:
            await check_karmada(self._hub)
        except ConfigError as error:
            if not await self._was_seen():
                raise
            text = f"{self._hub.credentials.server} does not list Clusters now, and did before"
            raise UnreadableError(text) from error

    async def keep_checking(self) -> None:
        """Notice while standing by that the hub is away, or would refuse this process."""
        while True:
            try:
                await self._check_once()
                self.refuses = self.away = None
                if self._answers_since is None:
                    self._answers_since = self._clock()
            except UnreachableError:
                self._answers_since = None  # reported by Outage
            except (PageError, UnreadableError) as error:
                self._answers_since = None
                self.away = not_listed(CLUSTERS_PATH, str(error))
            except KubeError as error:
                self._answers_since = None
                self.refuses = f"the hub refuses the agent: {error}"
            await asyncio.sleep(CHECK_S)

    async def is_there(self) -> bool:
        """Return whether it lists Clusters now; False at once where a response is overdue."""
        if self._is_overdue():
            return False
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._look()
        except (TimeoutError, KubeError):
            return False
        return True

    def answers_for_s(self) -> float:
        """Return for how long each answer while standing by was a good one."""
        if self._answers_since is None or self._is_overdue():
            return 0.0
        return self._clock() - self._answers_since

    def _is_overdue(self) -> bool:
        return self._requested_at is not None and self._clock() - self._requested_at > PATIENCE_S

    async def _check_once(self) -> None:
        self._requested_at = self._clock()
        try:
            await self._look()
        finally:
            self._requested_at = None

    async def _look(self) -> None:
        """Make the smallest list. Raises KubeError."""
        await check_listed(self._hub, CLUSTERS_PATH)
