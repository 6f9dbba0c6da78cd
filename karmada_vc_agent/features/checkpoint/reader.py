"""Reads the checkpoint at the start of a leader."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.checkpoint.outdated import EVERYTHING, Outdated
from karmada_vc_agent.features.checkpoint.refused import UnusableError
from karmada_vc_agent.features.checkpoint.saved import Expected, Saved, read, usable_times
from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets
from karmada_vc_agent.features.checkpoint.shards import CONTACT_KEY, RULES_KEY
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, NotFoundError
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.runner.hub_identity import HubIdentity

_log = logging.getLogger(__name__)

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint at the start, and whether the hub was away then.

    outdated: the notes of what must not be served.
    """

    secrets: CheckpointSecrets
    saved: Saved
    outdated: Outdated
    is_hub_away: bool = False

    @property
    def is_usable(self) -> bool:
        """Return whether anything can be served from it."""
        return bool(self.saved.clusters)


async def read_checkpoint(
    host: ApiClient,
    config: AgentConfig,
    state: AgentState,
    hub: HubIdentity,
    *,
    is_continued: bool = True,
) -> Checkpoint:
    """Return the checkpoint, an empty one without the right to it. Raises KubeError.

    is_continued: whether the last leader kept it; an earlier version of the agent, or one whose
    settings have it off, did not, and may have seen another state of the hub.
    """
    secrets = CheckpointSecrets(host, config.agent_namespace, config.agent_name)
    outdated = Outdated(state)
    if not is_continued:
        await outdated.note(EVERYTHING)
    try:
        data = await secrets.load()
    except ForbiddenError:  # the writer logs it
        secrets.doubt_all()
        return Checkpoint(secrets, Saved(), outdated)
    saved = read(data, _expected(config, state, hub), secrets.names)
    for name, refusal in saved.refusals.items():
        log_refusal(name, refusal)
    return Checkpoint(secrets, saved, outdated)


def log_refusal(name: str, refusal: UnusableError) -> None:
    """Log that something of the checkpoint is not used. name: Cluster, or another entry's key."""
    of = "entry" if name in (RULES_KEY, CONTACT_KEY) else "virtual_cluster"
    _log.warning("Not using the checkpoint", extra={of: name, "reason": str(refusal)})


async def why_unusable(host: ApiClient, config: AgentConfig, hub: HubIdentity) -> str:
    """Return why nothing can be served from the checkpoint now, "" if something can.

    Gauge before this process leads; changes nothing. Raises KubeError.
    """
    state = AgentState(host, config.agent_namespace, config.agent_name)
    with suppress(NotFoundError):
        await state.look()
    secrets = CheckpointSecrets(host, config.agent_namespace, config.agent_name)
    saved = read(await secrets.peek(), _expected(config, state, hub), secrets.names)
    if saved.clusters:
        return ""
    reasons = [f"{name}: {refusal}" for name, refusal in sorted(saved.refusals.items())]
    reasons += [f"Secret {name} cannot be read: {why}" for name, why in secrets.unread.items()]
    return listed(reasons, _SHOWN) or "there is no checkpoint"


def _expected(config: AgentConfig, state: AgentState, hub: HubIdentity) -> Expected:
    registered = {
        name: None if record.has_left or record.was_deleted else record.uid
        for name, record in state.clusters().items()
    }
    return Expected(
        template=config.namespace_template,
        uids=registered,
        hub=hub.uid,
        times=usable_times(datetime.now(UTC), config.offline_max_age),
        is_outdated=Outdated(state).has,
    )
