"""Checks the hub at the start and standing by; hands the lead to who reaches it."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, AgentState
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.flows import retry_on, retry_until_done
from karmada_vc_agent.kube.informers import not_listed_text
from karmada_vc_agent.kube.leader_election import HandOver, LeaderElection
from karmada_vc_agent.kube.reflector import check_listed
from karmada_vc_agent.model.vocabulary import LACKS_HUB_ANNOTATION, OFFERS_HUB_ANNOTATION

_log = logging.getLogger(__name__)

KUBE_SYSTEM_PATH = "/api/v1/namespaces/kube-system"
TRIES = 5
PAUSE_S = 1.0
"""A starting Karmada serves its own kinds shortly after all others."""


async def check_karmada(hub: ApiClient, *, pause_s: float = PAUSE_S) -> None:
    """Check that the hub serves Clusters. Raises ConfigError if it does not, KubeError."""
    try:
        await retry_on(
            errors.NotServedError, TRIES, lambda: check_listed(hub, CLUSTERS_PATH), pause_s
        )
    except errors.NotServedError as error:
        problem = (
            f"{hub.credentials.server} is not a Karmada control plane: it does not serve "
            "cluster.karmada.io; use a kubeconfig of Karmada's API server, or try again later"
        )
        raise ConfigError("settings", "karmadaKubeconfig", problem) from error


async def check_apart(hub: ApiClient, host_uid: str) -> str:
    """Refuse host_uid; return the hub's uid, "" = not readable. Raises ConfigError, KubeError."""
    try:
        kube_system = await hub.get(KUBE_SYSTEM_PATH)
    except errors.NotFoundError:
        return ""
    except errors.ForbiddenError as error:
        _log.warning(
            "Cannot determine whether hub and host are different API servers",
            extra={"reason": str(error)},
        )
        return ""
    uid = str(kube_system["metadata"]["uid"])
    if uid == host_uid:
        problem = (
            f"{hub.credentials.server} is also the API server of the host (its kube-system has "
            "the same uid); the hub must be another one"
        )
        raise ConfigError("settings", "karmadaKubeconfig", problem)
    return uid


CHECK_S = 10.0
"""Interval of requests by which a standby, which makes no others, checks the hub."""
PATIENCE_S = 1.0
"""How long a hub may take for a small answer before it counts as away: by satellite it is 0.6 s."""
AWAY_S = 10.0
"""How long the leader lacks the hub before it reports that: Karmada waits 40 s for Clusters."""
LED_S = 60.0
STEADY_S = 2 * CHECK_S
"""For how long a standby had good answers only: a hub that is back answered the leader, too."""


@dataclass(eq=False)
class HubStart:
    """Checks the hub, however late it answers; a feature may start without it.

    host: where an earlier process left its record. uid: of the hub's kube-system, "" until it
    answers; on_hub_answer: called with it. refuses: why the hub would not accept this process.
    away: why what answers in its place cannot be the hub. line: annotation of leaders that can
    serve without the hub; lack: why this process cannot. patience_s: how long a start waits, None =
    for the end. provided: read at a start without. is_needed: whether nothing can be served before.
    """

    config: AgentConfig
    hub: ApiClient
    host: ApiClient
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._requested_at: float | None = None
        self._answers_since: float | None = None
        self._led_since: float | None = None
        self._away_since: float | None = None
        self.uid = self.line = self.lack = ""
        self.patience_s: float | None = None
        self.provided: tuple[object, ...] = ()
        self.is_needed = True
        self.is_checked = False
        self.refuses: str | None = None
        self.away: str | None = None
        self.on_hub_answer: Callable[[str], None] = lambda _: None

    async def check(self, host_uid: str) -> None:
        """Return once it is a Karmada, and another API server than the host. Raises ConfigError."""
        await retry_until_done("list Clusters on the hub", self._check_karmada)
        self.uid = await retry_until_done(
            "read namespace kube-system on the hub", lambda: check_apart(self.hub, host_uid)
        )
        self.is_checked = True
        self.on_hub_answer(self.uid)

    async def _check_karmada(self) -> None:
        try:
            await check_karmada(self.hub)
        except ConfigError as error:
            config = self.config
            state = await AgentState.recorded(self.host, config.agent_namespace, config.agent_name)
            if not state.clusters():
                raise
            text = f"{self.hub.credentials.server} does not list Clusters now, and did before"
            raise errors.UnreadableError(text) from error

    async def keep_checking(self) -> None:
        """Notice while standing by that the hub is away, or would refuse this process."""
        while True:
            try:
                self._requested_at = self.clock()
                await check_listed(self.hub, CLUSTERS_PATH)
                self.refuses = self.away = None
                if self._answers_since is None:
                    self._answers_since = self.clock()
            except KubeError as error:
                self._answers_since = None
                if isinstance(error, (errors.PageError, errors.UnreadableError)):
                    self.away = not_listed_text(CLUSTERS_PATH, str(error))
                elif not isinstance(error, errors.UnreachableError):  # which History reports
                    self.refuses = f"the hub refuses the agent: {error}"
            finally:
                self._requested_at = None
            await asyncio.sleep(CHECK_S)

    async def is_there(self) -> bool:
        """Return whether it lists Clusters now; False at once where a response is overdue."""
        if self._is_overdue():
            return False
        try:
            async with asyncio.timeout(PATIENCE_S):
                await check_listed(self.hub, CLUSTERS_PATH)
        except (TimeoutError, KubeError):
            return False
        return True

    def answers_for_s(self) -> float:
        """Return for how long each answer while standing by was a good one."""
        if self._answers_since is None or self._is_overdue():
            return 0.0
        return self.clock() - self._answers_since

    def _is_overdue(self) -> bool:
        return self._requested_at is not None and self.clock() - self._requested_at > PATIENCE_S

    async def wait_for_either(
        self, checking: asyncio.Task[None], host: ApiClient, election: LeaderElection
    ) -> None:
        """Wait until the hub was checked or is not needed: else this must not lead."""

    async def read(
        self, host: ApiClient, state: AgentState, election: LeaderElection | None
    ) -> None:
        """Read what is served while the hub is away."""

    def hand_over(self, is_away: Callable[[], bool]) -> HandOver:
        return HandOver(
            LACKS_HUB_ANNOTATION,
            OFFERS_HUB_ANNOTATION,
            lambda: self._lasts(is_away=is_away()),
            lambda: self.answers_for_s() >= STEADY_S,
        )

    def _lasts(self, *, is_away: bool) -> bool:
        """Return with each renewal whether the hub is away for so long that it is handed over."""
        now = self.clock()
        if self._led_since is None:
            self._led_since = now
        if not is_away:
            self._away_since = None
            return False
        if self._away_since is None:
            self._away_since = now
        return now - self._away_since >= AWAY_S and now - self._led_since >= LED_S
