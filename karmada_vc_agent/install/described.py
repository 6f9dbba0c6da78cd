"""What the host describes of virtual clusters that are not in the settings file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from karmada_vc_agent.access.policy_owner import group_labels
from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.found.finding import (
    Found,
    Making,
    making_of_groups,
    making_of_labels,
)
from karmada_vc_agent.features.found.node_groups import groups_of_host
from karmada_vc_agent.features.found.node_labels import values_of_host
from karmada_vc_agent.features.objects.object_names import PATH, is_for
from karmada_vc_agent.features.objects.reading import Reader
from karmada_vc_agent.kube.absence import items_unless_absent
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


@dataclass(frozen=True, slots=True)
class Described:
    """What was found on the host at `join`.

    group_labels: keys of labels of nodes that select groups. virtual_clusters: one of each name,
    the one that is served. objects: those that VirtualCluster objects describe.
    """

    group_labels: frozenset[str] = frozenset()
    virtual_clusters: Sequence[VirtualCluster] = ()
    objects: Sequence[VirtualCluster] = ()

    def allow(self, name: str) -> tuple[str, ...]:
        """Return the exceptions of a virtual cluster, () where nothing describes it."""
        return next((vc.allow for vc in self.virtual_clusters if vc.name == name), ())


async def described_on_host(host: ApiClient, config: AgentConfig) -> Described:
    """Return what objects, NodeGroups and nodes describe now. Raises KubeError."""
    objects = await _of_objects(host, config) if config.objects.enabled else []
    groups = await groups_of_host(host, config.node_groups) if config.node_groups.enabled else []
    values = await values_of_host(host, config.discover) if config.discover.node_label else []
    keys = {key for vc in objects for key in group_labels(vc)}
    keys |= {key for found in groups for key in found.labels or {}}
    made = (
        *objects,
        *_made(groups, making_of_groups(config)),
        *_made(values, making_of_labels(config)),
    )
    listed = {vc.name for vc in config.virtual_clusters}
    first = {vc.name: vc for vc in reversed(made) if vc.name not in listed}
    return Described(frozenset(keys), tuple(first.values()), tuple(objects))


def _made(found: Iterable[Found], making: Making) -> list[VirtualCluster]:
    """Return those that can be served; what is wrong with the others is told by the agent."""
    made = []
    for each in found:
        try:
            made.append(making.of(each))
        except ValueError:
            continue
    return made


async def _of_objects(host: ApiClient, config: AgentConfig) -> list[VirtualCluster]:
    items = await items_unless_absent(host, PATH) or ()
    ours = (item for item in items if is_for(config.agent_name, item["metadata"]))
    reader = Reader(LiveSettings(config))
    read = (reader.read(item).virtual_cluster for item in ours)
    return [vc for vc in read if vc is not None]
