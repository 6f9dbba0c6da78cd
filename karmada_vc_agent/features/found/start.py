"""The virtual clusters that are discovered before the host is watched: at the start, by `join`."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.cluster.virtual_cluster_sources import (
    VirtualClusterSource,
    VirtualClusterSources,
)
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.found.finding import (
    Discovered,
    Making,
    making_of_groups,
    making_of_labels,
)
from karmada_vc_agent.features.found.found_records import DiscoveredRecords
from karmada_vc_agent.features.found.node_groups import groups_of_host
from karmada_vc_agent.features.found.node_labels import values_of_host
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.feature import Described

_log = logging.getLogger(__name__)

NODE_GROUPS, DISCOVER = "nodeGroups", "discover"


@dataclass(frozen=True, slots=True)
class DiscoveryStart:
    """The sources of what NodeGroups and a node label describe, filled before a watch."""

    node_groups: VirtualClusterSource
    labels: VirtualClusterSource
    reads: ClassVar = "list NodeGroups on the host"

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Fill the sources with what was served when the agent ended. Raises KubeError.

        So that nothing counts as deleted before it is watched.
        """
        groups = live.config.node_groups
        listed = await groups_of_host(host, groups) if groups.enabled else ()
        making = making_of_groups(live.config)
        self.node_groups.replace_all(
            _recorded(DiscoveredRecords(state, NODE_GROUPS), listed, making)
        )
        making = making_of_labels(live.config)
        self.labels.replace_all(_recorded(DiscoveredRecords(state, DISCOVER), (), making))


def start(sources: VirtualClusterSources, _: AgentConfig) -> DiscoveryStart:
    """Add the sources of what is discovered, after those of the settings file and of objects."""
    return DiscoveryStart(sources.add("a NodeGroup"), sources.add("a node label"))


async def describe(host: ApiClient, config: AgentConfig) -> Described:
    """Return what NodeGroups and nodes describe now. Raises KubeError."""
    groups = await groups_of_host(host, config.node_groups) if config.node_groups.enabled else []
    values = await values_of_host(host, config.discover) if config.discover.node_label else []
    made = (*_made(groups, making_of_groups(config)), *_made(values, making_of_labels(config)))
    return Described(frozenset(key for each in groups for key in each.labels or {}), made)


def _made(discovered: Iterable[Discovered], making: Making) -> Iterator[VirtualCluster]:
    """Yield those that can be served; the agent reports the problems of the others."""
    for each in discovered:
        with suppress(ValueError):
            yield making.of(each)


def _recorded(
    records: DiscoveredRecords, listed: Iterable[Discovered], making: Making
) -> Iterable[VirtualCluster]:
    by_name = {each.name: each for each in listed}
    for name in records:
        record = records.of(name)
        if record is None or not (making.is_on or record.is_draining):
            continue
        try:
            current = by_name.get(name)
            yield making.of(current) if current else making.of_record(name, record)
        except ValueError as error:
            extra = {"virtual_cluster": name, "reason": str(error)}
            _log.warning("Not serving a discovered virtual cluster", extra=extra)
