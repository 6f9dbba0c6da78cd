"""A virtual cluster that is not in the settings file, as if it were."""

from msgspec.structs import replace

from karmada_vc_agent.config.checks import check_alone
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.loading import described
from karmada_vc_agent.config.profile_defaults import with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


def completed(vc: VirtualCluster, config: AgentConfig) -> VirtualCluster:
    """Return it with what the agent's settings lay under it. Raises ConfigError.

    config: settings that were checked; they are not checked again for each virtual cluster.
    """
    alone = described(replace(config, virtual_clusters=(vc,)))
    check_alone(alone, vc.name)
    (made,) = with_profile_defaults(alone, config.agent_namespace).virtual_clusters
    return made


def field_of(error: ConfigError) -> str:
    """Return which field of the virtual cluster an error of `completed` is about, "" = none."""
    return error.path.removeprefix("virtualClusters[0]").removeprefix(".")
