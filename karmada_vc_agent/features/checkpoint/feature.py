"""The state of the hub, saved on the host for a start without it."""

from functools import partial

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.checkpoint.checkpoint_kept import CONDITIONS
from karmada_vc_agent.features.checkpoint.hub_start import CheckpointStart
from karmada_vc_agent.features.checkpoint.parts import METRICS, CheckpointParts, is_of_checkpoint
from karmada_vc_agent.features.checkpoint.reader import Checkpoint
from karmada_vc_agent.features.checkpoint.removal import forget_saved, purge, remove_disabled
from karmada_vc_agent.runner.feature import Feature
from karmada_vc_agent.runner.parts import Parts


def _connect(parts: Parts) -> None:
    config, host = parts.common.config, parts.common.clients.host
    parts.spared_rights.append(partial(is_of_checkpoint, config.agent_name))
    if not config.checkpoint.enabled:
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
    file = "roles" if config.checkpoint.enabled else "roles-off"
    return (f"features/checkpoint/{file}.yaml",)


FEATURE = Feature(
    "checkpoint",
    hub_start=CheckpointStart,
    connect=_connect,
    conditions=CONDITIONS,
    metrics=METRICS,
    host_roles=_host_roles,
    leave=forget_saved,
    purge=purge,
)
