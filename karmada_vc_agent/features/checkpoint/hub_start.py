"""A start without the hub: from the checkpoint of an earlier leader."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.checkpoint.reader import Checkpoint, read_checkpoint, why_unusable
from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.kube.retries import retry_until_done
from karmada_vc_agent.model.domain import CHECKPOINT_ANNOTATION
from karmada_vc_agent.runner.hub_start import HubStart

_log = logging.getLogger(__name__)

CHECK_PATIENCE_S = 3.0
"""How long a start waits for the hub before it checks for a checkpoint."""
PEEK_S = 10.0
"""How often it checks for one that can be served from."""


class CheckpointStart(HubStart):
    """Reads the checkpoint where it may be needed."""

    def __init__(self, config: AgentConfig, hub: ApiClient, host: ApiClient) -> None:
        super().__init__(config, hub, host)
        self._is_away = False
        self._checkpoint: Checkpoint | None = None
        self.line = CHECKPOINT_ANNOTATION if config.checkpoint.enabled else ""

    async def was_seen(self) -> bool:
        """Return whether an earlier process registered Clusters or kept a checkpoint."""
        if await super().was_seen():
            return True
        namespace, name = self.config.agent_namespace, self.config.agent_name
        with suppress(ForbiddenError):  # without the right to it none could be kept
            return any(await CheckpointSecrets(self.host, namespace, name).peek())
        return False

    async def wait(self, checking: asyncio.Task[None]) -> None:
        """Wait until the hub was checked; where a checkpoint may be, no longer than it should take.

        Ends early if the hub is not what the agent needs: that ends all tasks of the group.
        """
        patience_s = CHECK_PATIENCE_S if self.config.checkpoint.enabled else None
        await asyncio.wait((checking,), timeout=patience_s)

    async def wait_for_either(
        self, checking: asyncio.Task[None], host: ApiClient, election: LeaderElection
    ) -> None:
        """Wait until the hub was checked, or there is a checkpoint that can be served from.

        A replica with neither must not lead: another one may reach the hub.
        """
        if not self.config.checkpoint.enabled:
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
                return "the last leader kept no checkpoint"
            return await why_unusable(host, self.config, self.identity)
        except KubeError as error:
            return str(error)

    async def look(self) -> None:
        """Check whether the hub answers now, where a checkpoint could replace it."""
        if self.config.checkpoint.enabled:
            answers = self.presence.is_checked and await self.presence.is_there()
            self._is_away = not answers

    async def read(
        self, host: ApiClient, state: AgentState, election: LeaderElection | None
    ) -> None:
        """Read the checkpoint; without the right to it there is none."""
        if not self.config.checkpoint.enabled:
            return
        is_continued = election is None or election.is_in_line
        read = partial(
            read_checkpoint,
            host,
            self.config,
            state,
            self.identity,
            is_continued=is_continued,
        )
        checkpoint = await retry_until_done("read the checkpoint on the host", read)
        self._checkpoint = replace(checkpoint, is_hub_away=self._is_away)
        self.provided = (self._checkpoint,)
        if election is not None:
            election.begin_line()

    @property
    def is_needed(self) -> bool:
        """Return whether nothing can be served before the hub was checked."""
        return self._checkpoint is None or not self._checkpoint.is_usable
