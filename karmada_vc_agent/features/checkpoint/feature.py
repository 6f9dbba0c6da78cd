"""What the hub said, kept on the host for a start without it."""

from functools import partial

from karmada_vc_agent.features.checkpoint.checkpoint_kept import CONDITIONS
from karmada_vc_agent.features.checkpoint.parts import checkpoint_parts, is_of_checkpoint
from karmada_vc_agent.runner.feature import Feature
from karmada_vc_agent.runner.parts import Parts


def _connect(parts: Parts) -> None:
    parts.spared_rights.append(partial(is_of_checkpoint, parts.common.config.agent_name))
    made = checkpoint_parts(parts.common, parts.works)
    if made is not None:
        parts.checkpoint = made
        parts.common.provide(made)
        parts.common.metrics.add_source(made.samples)
        parts.keeps["checkpoint"] = made.writer.run


FEATURE = Feature("checkpoint", connect=_connect, conditions=CONDITIONS)
