"""The sources of what is found, and what they want before anything is watched."""

import logging
from collections.abc import Iterable

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.cluster.virtual_cluster_sources import FoundSources, VirtualClusterSources
from karmada_vc_agent.features.found.finding import (
    Found,
    Making,
    making_of_groups,
    making_of_labels,
)
from karmada_vc_agent.features.found.found_records import FoundRecords
from karmada_vc_agent.features.found.node_groups import groups_of_host
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)

NODE_GROUPS, DISCOVER = "nodeGroups", "discover"


async def seed(
    sources: FoundSources, host: ApiClient, live: LiveSettings, state: AgentState
) -> None:
    """Have wanted what was served when the agent ended. Raises KubeError.

    So that nothing takes it for gone before it is watched.
    """
    groups = live.config.node_groups
    found = await groups_of_host(host, groups) if groups.enabled else ()
    making = making_of_groups(live.config)
    sources.node_groups.replace_all(_known(FoundRecords(state, NODE_GROUPS), found, making))
    making = making_of_labels(live.config)
    sources.labels.replace_all(_known(FoundRecords(state, DISCOVER), (), making))


def add_found_sources(sources: VirtualClusterSources) -> FoundSources:
    """Return the sources of what is found; they come after all that is written down."""
    return FoundSources(sources.add("a NodeGroup"), sources.add("a node label"))


def _known(
    records: FoundRecords, found: Iterable[Found], making: Making
) -> Iterable[VirtualCluster]:
    by_name = {each.name: each for each in found}
    for name in records:
        record = records.of(name)
        if record is None or not (making.is_on or record.is_draining):
            continue
        try:
            there = by_name.get(name)
            yield making.of(there) if there else making.of_gone(name, record)
        except ValueError as error:
            _log.warning(
                "Not serving a found virtual cluster",
                extra={"virtual_cluster": name, "reason": str(error)},
            )
