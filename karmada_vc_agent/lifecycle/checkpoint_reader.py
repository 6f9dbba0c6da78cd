"""Reads the checkpoint at the start of a leader."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from karmada_vc_agent.checkpoint.saved import Expected, Saved, oldest, read
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError
from karmada_vc_agent.lifecycle.agent_state import AgentState
from karmada_vc_agent.lifecycle.checkpoint_secrets import CheckpointSecrets
from karmada_vc_agent.lifecycle.hub_identity import HubIdentity

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where it is kept, what it had at the start, and whether the hub was away then."""

    secrets: CheckpointSecrets
    saved: Saved
    is_hub_away: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether anything can be served from it."""
        return bool(self.saved.clusters)


async def read_checkpoint(
    host: ApiClient, config: AgentConfig, state: AgentState, hub: HubIdentity
) -> Checkpoint | None:
    """Return the checkpoint; None without the right to it. Raises KubeError."""
    secrets = CheckpointSecrets(host, config.agent_namespace, config.agent_name)
    try:
        found = await secrets.load()
    except ForbiddenError as error:
        reason = str(error)
        _log.warning("Keeping no checkpoint: run karmada-vc-agent join", extra={"reason": reason})
        return None
    registered = {
        name: None if record.has_left or record.was_deleted else record.uid
        for name, record in state.clusters().items()
    }
    expected = Expected(
        template=config.namespace_template,
        uids=registered,
        hub=hub.uid,
        oldest=oldest(datetime.now(UTC), config.offline_max_age),
    )
    saved = read(found, expected)
    for name, refusal in saved.refusals.items():
        extra = {"virtual_cluster": name, "reason": str(refusal)}
        _log.warning("Not using the checkpoint", extra=extra)
    return Checkpoint(secrets, saved)
