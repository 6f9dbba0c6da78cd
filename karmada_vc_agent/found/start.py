"""The sources of what is found, and what they want before anything is watched."""

import logging
from collections.abc import Iterable

from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.found.finding import Found, Making
from karmada_vc_agent.found.node_groups import groups_of_host
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.lifecycle.agent_state import AgentState
from karmada_vc_agent.lifecycle.found_records import FoundRecords
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.views.virtual_cluster_sources import FoundSources, VirtualClusterSources

_log = logging.getLogger(__name__)

NODE_GROUPS, DISCOVER = "nodeGroups", "discover"


async def seed(
    sources: FoundSources, host: ApiClient, config: AgentConfig, state: AgentState
) -> None:
    """Have wanted what was served when the agent ended. Raises KubeError.

    So that nothing takes it for gone before it is watched.
    """
    if sources.node_groups is not None:
        found = await groups_of_host(host, config.node_groups)
        making = Making(config, config.node_groups)
        sources.node_groups.replace_all(_known(FoundRecords(state, NODE_GROUPS), found, making))
    if sources.labels is not None:
        making = Making(config, config.discover)
        sources.labels.replace_all(_known(FoundRecords(state, DISCOVER), (), making))


def add_found_sources(sources: VirtualClusterSources, config: AgentConfig) -> FoundSources:
    """Return the sources that the settings switch on; they come after all that is written down."""
    groups = sources.add("a NodeGroup") if config.node_groups.enabled else None
    labels = sources.add("a node label") if config.discover.node_label else None
    return FoundSources(groups, labels)


def _known(
    records: FoundRecords, found: Iterable[Found], making: Making
) -> Iterable[VirtualCluster]:
    by_name = {each.name: each for each in found}
    for name in records:
        record = records.of(name)
        if record is None:
            continue
        try:
            there = by_name.get(name)
            yield making.of(there) if there else making.of_gone(name, record.labels)
        except ValueError as error:
            _log.warning(
                "Not serving what was found", extra={"virtual_cluster": name, "reason": str(error)}
            )
