"""The state of the hub, saved on the host for a start without it."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.checkpoint.entries import cluster_of_key
from karmada_vc_agent.features.checkpoint.reader import (
    Checkpoint,
    CheckpointFields,
    is_kept,
    read_checkpoint,
    why_unusable,
)
from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets
from karmada_vc_agent.features.checkpoint.serving import (
    CHECKPOINT_KEPT,
    CheckpointParts,
    is_of_checkpoint,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, NotFoundError
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.kube.tasks import LogOnce, retry_until_done
from karmada_vc_agent.model.domain import CHECKPOINT_ANNOTATION, secret_names
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.hub_presence import HubStart
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts, Say


def checkpoint_kept(parts: Parts, vc: VirtualCluster) -> Condition | None:
    """Return the condition; None where no checkpoint is kept, or it is not in use yet."""
    made = parts.common.find(CheckpointParts)
    return made.kept(vc.name) if made is not None else None


CONDITIONS = (ConditionSpec(CHECKPOINT_KEPT, checkpoint_kept),)


_log = logging.getLogger(__name__)


async def remove_checkpoint(host: ApiClient, namespace: str, agent: str) -> list[str]:
    """Delete the Secrets of an agent's checkpoint; return the names of those that existed.

    Raises KubeError.
    """
    deleted = []
    for name in secret_names(agent):
        with suppress(NotFoundError):
            await host.delete(f"/api/v1/namespaces/{namespace}/secrets/{name}")
            deleted.append(name)
    return deleted


async def remove_disabled(host: ApiClient, namespace: str, agent: str) -> None:
    """Remove what was kept before the setting was turned off, and log what a denial leaves.

    Anything else is retried, as a page in place of an answer.
    """
    extra = {"namespace": namespace}

    async def remove() -> None:
        try:
            if await remove_checkpoint(host, namespace, agent):
                _log.info("Removed the checkpoint: it is turned off", extra=extra)
        except ForbiddenError:
            _log.info(
                "Not removing what an earlier checkpoint may have left: run karmada-vc-agent join, "
                f"or delete Secrets {agent}-checkpoint-*",
                extra=extra,
            )

    await retry_until_done("remove the checkpoint on the host", remove)


async def forget_saved(host: ApiClient, namespace: str, agent: str, cluster: str, say: Say) -> None:
    """Remove a virtual cluster from the Secrets of an agent's checkpoint. Raises KubeError.

    A running agent does it, too, once the Cluster is deleted. With the last virtual cluster the
    Secrets are deleted.
    """
    secrets = CheckpointSecrets(host, namespace, agent)
    try:
        await secrets.load()
        if {cluster_of_key(key) for _, key in secrets} <= {"", cluster}:
            if secrets.exist and await remove_checkpoint(host, namespace, agent):
                say(f"host: removed the checkpoint of {agent}")
        elif await secrets.remove(cluster):
            say(f"host: removed {cluster} from the checkpoint of {agent}")
    except ForbiddenError as error:
        say(f"host: the checkpoint of {agent} may still have {cluster}: {error}")


async def purge(host: ApiClient, namespace: str, agent: str, say: Say) -> None:
    """Remove the checkpoint of an agent that is removed. Raises KubeError."""
    if await remove_checkpoint(host, namespace, agent):
        say(f"host: removed the checkpoint of {agent}")


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
        self.line = CHECKPOINT_ANNOTATION if is_kept(config) else ""

    async def was_seen(self) -> bool:
        """Return whether an earlier process registered Clusters or kept a checkpoint."""
        if await super().was_seen():
            return True
        namespace, name = self.config.agent_namespace, self.config.agent_name
        with suppress(ForbiddenError):  # without the right to it none could be kept
            return any(await CheckpointSecrets(self.host, namespace, name).load(attempts=1))
        return False

    async def wait(self, checking: asyncio.Task[None]) -> None:
        """Wait until the hub was checked; where a checkpoint may be, no longer than it should take.

        Ends early if the hub is not what the agent needs: that ends all tasks of the group.
        """
        patience_s = CHECK_PATIENCE_S if is_kept(self.config) else None
        await asyncio.wait((checking,), timeout=patience_s)

    async def wait_for_either(
        self, checking: asyncio.Task[None], host: ApiClient, election: LeaderElection
    ) -> None:
        """Wait until the hub was checked, or there is a checkpoint that can be served from.

        A replica with neither must not lead: another one may reach the hub.
        """
        if not is_kept(self.config):
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
            if not await election.is_lineage_unbroken():
                return "the last leader kept no checkpoint"
            return await why_unusable(host, self.config, self.uid)
        except KubeError as error:
            return str(error)

    async def look(self) -> None:
        """Check whether the hub answers now, where a checkpoint could replace it."""
        if is_kept(self.config):
            answers = self.is_checked and await self.is_there()
            self._is_away = not answers

    async def read(
        self, host: ApiClient, state: AgentState, election: LeaderElection | None
    ) -> None:
        """Read the checkpoint; without the right to it there is none."""
        if not is_kept(self.config):
            return
        is_continued = election is None or election.continues_lineage

        async def read() -> Checkpoint:
            return await read_checkpoint(
                host, self.config, state, self.uid, is_continued=is_continued
            )

        checkpoint = await retry_until_done("read the checkpoint on the host", read)
        self._checkpoint = replace(checkpoint, is_hub_away=self._is_away)
        self.provided = (self._checkpoint,)
        if election is not None:
            election.begin_lineage()

    @property
    def is_needed(self) -> bool:
        """Return whether nothing can be served before the hub was checked."""
        return self._checkpoint is None or not self._checkpoint.is_usable


def _connect(parts: Parts) -> None:
    config, host = parts.common.config, parts.common.clients.host
    parts.spared_rights.append(partial(is_of_checkpoint, config.agent_name))
    if not is_kept(config):
        remove = partial(remove_disabled, host, config.agent_namespace, config.agent_name)
        parts.ends["remove the checkpoint"] = remove
    checkpoint = parts.common.find(Checkpoint)
    if checkpoint is not None:
        parts.checkpoint = made = CheckpointParts(checkpoint, parts.common, parts.works)
        parts.common.provide(made)
        parts.common.metrics.add_source(made.samples)
        parts.keeps["checkpoint"] = made.writer.run
        parts.ends["offline"] = made.offline.run


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    file = "roles" if is_kept(config) else "roles-off"
    return (f"features/checkpoint/{file}.yaml",)


FEATURE = Feature(
    "checkpoint",
    settings=CheckpointFields,
    hub_start=CheckpointStart,
    connect=_connect,
    conditions=CONDITIONS,
    metrics="features/checkpoint/metrics.yaml",
    host_roles=_host_roles,
    leave=forget_saved,
    purge=purge,
)
