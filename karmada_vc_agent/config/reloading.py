"""Changed settings that a running agent takes: virtual clusters, and their sources."""

from dataclasses import dataclass

from msgspec.structs import replace

from karmada_vc_agent.config.naming import camel
from karmada_vc_agent.config.settings import SETTINGS, AgentConfig
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_TAKEN = (
    *("virtual_clusters", "node_groups", "discover", "bounds"),
    *("cluster_provider", "cluster_region", "cluster_zones", "cluster_host"),
)
"""They are virtual clusters, their sources or their defaults, and are taken at once."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """config: the settings in use from now on. at_restart: other settings that changed."""

    config: AgentConfig
    at_restart: tuple[str, ...] = ()

    @property
    def virtual_clusters(self) -> tuple[VirtualCluster, ...]:
        """Return those of the file."""
        return self.config.virtual_clusters


def reload(running: AgentConfig, read: AgentConfig) -> tuple[AgentConfig, tuple[str, ...]]:
    """Return the settings in use with what is taken at once of those just read.

    And the names of the other settings that differ, as the file has them. The result is to be
    checked as a whole: what a virtual cluster needs of the agent's settings, it needs of these.
    """
    at_restart = tuple(
        camel(setting.name)
        for setting in SETTINGS
        if setting.name not in _TAKEN
        and getattr(running, setting.name) != getattr(read, setting.name)
    )
    return replace(running, **{name: getattr(read, name) for name in _TAKEN}), at_restart
