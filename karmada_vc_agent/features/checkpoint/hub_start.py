"""What a start needs of the hub: that it is the right one, or what an earlier leader kept of it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.checkpoint.reader import Checkpoint, read_checkpoint, why_unusable
from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, NotFoundError
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.kube.retries import retry_until_done
from karmada_vc_agent.runner.hub_identity import HubIdentity
from karmada_vc_agent.runner.hub_presence import HubPresence

_log = logging.getLogger(__name__)

CHECK_PATIENCE_S = 3.0
"""How long a start waits for the hub before it looks for a checkpoint."""
PEEK_S = 10.0
"""How often it looks for one that can be served from."""


class HubStart:
    """Checks the hub, however late it answers, and reads the checkpoint where it may be needed.

    host: where an earlier process left what it recorded. identity: which hub it is, once it
    answered. on_known: called with its uid then.
    """

    def __init__(self, config: AgentConfig, hub: ApiClient, host: ApiClient) -> None:
        self._config = config
        self._host = host
        self._is_away = False
        self.identity = HubIdentity()
        self.presence = HubPresence(hub, self.identity, self._was_seen)
        self.checkpoint: Checkpoint | None = None
        self.lack = ""
        """Why nothing can be served from the checkpoint, as far as that was looked for."""
        self.on_known: Callable[[str], None] = lambda _: None

    async def check(self, host_uid: str) -> None:
        """Check that the hub is what the agent needs. Raises ConfigError."""
        await self.presence.check(host_uid)
        self.on_known(self.identity.uid)

    async def _was_seen(self) -> bool:
        """Whether an earlier process registered Clusters or kept a checkpoint. Raises KubeError."""
        namespace, name = self._config.agent_namespace, self._config.agent_name
        state = AgentState(self._host, namespace, name)
        with suppress(NotFoundError):
            await state.look()
        if state.clusters():
            return True
        with suppress(ForbiddenError):  # nobody could keep one without the right to it
            return any(await CheckpointSecrets(self._host, namespace, name).peek())
        return False

    async def wait(self, checking: asyncio.Task[None]) -> None:
        """Wait until the hub was checked; where a checkpoint may be, no longer than it should take.

        Ends early if the hub is not what the agent needs: that ends all tasks of the group.
        """
        patience_s = CHECK_PATIENCE_S if self._config.checkpoint.enabled else None
        await asyncio.wait((checking,), timeout=patience_s)

    async def wait_for_either(
        self, checking: asyncio.Task[None], host: ApiClient, election: LeaderElection
    ) -> None:
        """Wait until the hub was checked, or there is a checkpoint that can be served from.

        Who has neither must not lead: another replica may reach the hub.
        """
        if not self._config.checkpoint.enabled:
            return
        once = LogOnce(_log)
        while not checking.done():
            self.lack = await self._lack(host, election)
            if not self.lack:
                return
            once.warning("Waiting for the hub: nothing can be served without it", reason=self.lack)
            await asyncio.wait((checking,), timeout=PEEK_S)

    async def _lack(self, host: ApiClient, election: LeaderElection) -> str:
        """Return why nothing can be served from the checkpoint, "" if something can."""
        try:
            if not await election.is_line_unbroken():
                return "no checkpoint was kept by whoever led last"
            return await why_unusable(host, self._config, self.identity)
        except KubeError as error:
            return str(error)

    async def look(self) -> None:
        """Find out whether the hub answers now, as far as anybody would do otherwise then."""
        if self._config.checkpoint.enabled:
            is_there = self.presence.is_checked and await self.presence.is_there()
            self._is_away = not is_there

    async def read_checkpoint(
        self, host: ApiClient, state: AgentState, election: LeaderElection | None
    ) -> None:
        """Read what was kept of the hub; without the right to it the agent does without."""
        if not self._config.checkpoint.enabled:
            return
        is_continued = election is None or election.is_in_line
        read = partial(
            read_checkpoint,
            host,
            self._config,
            state,
            self.identity,
            is_continued=is_continued,
        )
        found = await retry_until_done("read the checkpoint on the host", read)
        self.checkpoint = replace(found, is_hub_away=self._is_away)
        if election is not None:
            election.begin_line()

    @property
    def is_needed(self) -> bool:
        """Whether nothing can be served before the hub was checked."""
        return self.checkpoint is None or not self.checkpoint.is_usable
