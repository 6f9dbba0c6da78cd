"""What of changed settings a running agent takes: the virtual clusters; the rest at a restart."""

from dataclasses import dataclass

from msgspec.structs import replace

from karmada_vc_agent.config.settings import SETTINGS, AgentConfig, camel
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_IN_VIRTUAL_CLUSTERS = frozenset(
    (
        *("virtual_clusters", "bounds"),
        *("cluster_provider", "cluster_region", "cluster_zones", "cluster_host"),
    )
)
"""They are, or are laid under, those of the virtual clusters, which are taken at once."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """virtual_clusters: those to serve from now on. at_restart: other settings that changed."""

    virtual_clusters: tuple[VirtualCluster, ...]
    at_restart: tuple[str, ...] = ()


def reload(running: AgentConfig, read: AgentConfig) -> tuple[AgentConfig, tuple[str, ...]]:
    """Return the settings in use with the virtual clusters just read.

    And the names of the other settings that differ, as the file has them. The result is to be
    checked as a whole: what a virtual cluster needs of the agent's settings, it needs of these.
    """
    at_restart = tuple(
        camel(setting.name)
        for setting in SETTINGS
        if setting.name not in _IN_VIRTUAL_CLUSTERS
        and getattr(running, setting.name) != getattr(read, setting.name)
    )
    return replace(running, virtual_clusters=read.virtual_clusters), at_restart
