"""What VirtualCluster objects say before they are watched: at the start, and to `join`."""

from karmada_vc_agent.access.policy_owner import group_labels
from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.cluster.virtual_cluster_sources import (
    VirtualClusterSource,
    VirtualClusterSources,
)
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.objects.object_names import PATH, is_for
from karmada_vc_agent.features.objects.reading import Reader, read_at_start
from karmada_vc_agent.kube.absence import items_unless_absent
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.runner.feature import Described


class ObjectsStart:
    """The source of what objects describe, filled before they are watched.

    preserved: those whose removal an earlier process may have begun, and of which all that Works
    made stays.
    """

    reads = "list VirtualCluster objects on the host"

    def __init__(self, source: VirtualClusterSource) -> None:
        self.source = source
        self.preserved: frozenset[str] = frozenset()

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Fill the source. Raises KubeError."""
        at_start = await read_at_start(host, live, lambda name: state.cluster(name) is not None)
        self.source.replace_all(at_start.virtual_clusters)
        self.preserved = at_start.preserved


def start(sources: VirtualClusterSources, config: AgentConfig) -> ObjectsStart | None:
    """Add the source of what objects describe, None where they are off."""
    return ObjectsStart(sources.add("another object")) if config.objects.enabled else None


async def describe(host: ApiClient, config: AgentConfig) -> Described:
    """Return what objects describe now. Raises KubeError."""
    if not config.objects.enabled:
        return Described()
    items = await items_unless_absent(host, PATH) or ()
    ours = (item for item in items if is_for(config.agent_name, item["metadata"]))
    reader = Reader(LiveSettings(config))
    read = (reader.read(item).virtual_cluster for item in ours)
    found = tuple(vc for vc in read if vc is not None)
    return Described(frozenset(key for vc in found for key in group_labels(vc)), found, found)
