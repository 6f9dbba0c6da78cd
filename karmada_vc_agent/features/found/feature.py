"""Virtual clusters discovered on the host: NodeGroups, and values of a node label."""

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.found.conditions import CONDITIONS
from karmada_vc_agent.features.found.setup import setup_node_groups, setup_node_labels
from karmada_vc_agent.features.found.start import describe, start
from karmada_vc_agent.runner.feature import Feature


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    is_used = config.node_groups.enabled or config.discover.node_label
    return ("features/found/roles.yaml",) if is_used else ()


FEATURE = Feature(
    "found",
    controllers=(setup_node_groups, setup_node_labels),
    conditions=CONDITIONS,
    start=start,
    describe=describe,
    host_roles=_host_roles,
)
