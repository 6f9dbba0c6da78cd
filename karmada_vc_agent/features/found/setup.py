"""Declares the controllers of NodeGroups, and of values of a node label."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from karmada_vc_agent.cluster.virtual_cluster_sources import VirtualClusterSource
from karmada_vc_agent.cluster.virtual_clusters import name_of_change
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.found.finding import (
    Discovery,
    Making,
    making_of_groups,
    making_of_labels,
)
from karmada_vc_agent.features.found.follower import DiscoveryController
from karmada_vc_agent.features.found.found_records import DiscoveredRecords
from karmada_vc_agent.features.found.node_groups import NodeGroupDiscovery
from karmada_vc_agent.features.found.node_labels import NodeLabelDiscovery
from karmada_vc_agent.features.found.start import DiscoveryStart
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.kube.events import WARNING, EventRecorder
from karmada_vc_agent.kube.keys import itself, same
from karmada_vc_agent.kube.sources import Enqueues
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.runner.permitted import check_permitted
from karmada_vc_agent.runner.queues import FEW_WORKERS
from karmada_vc_agent.runner.removal import removal_of

SETTLES_S = 0.2
"""A NodeGroup that is recreated, and a label that moves, are two changes."""


def setup_node_groups(parts: Parts) -> ControllerSpec[str] | None:
    """Declare the controller of NodeGroups."""
    started, live = parts.common.find(DiscoveryStart), parts.common.live
    if started is None:
        return None
    discovery = NodeGroupDiscovery(parts.common.clients.host, live.config.node_groups)
    live.changed.subscribe(lambda: discovery.use(live.config.node_groups))
    source, making = started.node_groups, making_of_groups
    return _setup("node-groups", parts, discovery, source, making, FEW_WORKERS, discovery.run)


def setup_node_labels(parts: Parts) -> ControllerSpec[str] | None:
    """Declare the controller of the values of a node label."""
    common, live = parts.common, parts.common.live
    started = common.find(DiscoveryStart)
    if started is None:
        return None
    settings = live.config.discover
    discovery = NodeLabelDiscovery(common.clients.host, common.stores.nodes, settings)
    live.changed.subscribe(lambda: discovery.use(live.config.discover))
    return _setup("node-label-values", parts, discovery, started.labels, making_of_labels)


def _setup(
    name: str,
    parts: Parts,
    discovery: Discovery,
    source: VirtualClusterSource,
    making: Callable[[AgentConfig], Making],
    workers: int = 1,
    run: Callable[[], Awaitable[None]] | None = None,
) -> ControllerSpec[str]:
    """Declare the controller of one source. run: the watch of the source, if it has its own."""
    common, live = parts.common, parts.common.live
    servers = (common.clients.hub, common.clients.host)
    recorder = EventRecorder(common.clients.host)
    records = DiscoveredRecords(common.state, discovery.source)

    def warn(about: Object, reason: str, text: str) -> None:
        recorder.record(common.config.agent_name, about, WARNING, reason, text)

    controller = DiscoveryController(
        discovery,
        source,
        records,
        lambda: making(live.config),
        removal=removal_of(parts),
        origins=common.origins,
        check=partial(check_permitted, common),
        stays_away=common.registrations.stays_away,
        is_in_doubt=lambda: any(server.history.is_in_doubt for server in servers),
        warn=warn,
    )
    runs = {f"events of {name}": recorder.run}
    return ControllerSpec(
        name,
        common.queues.by_name(),
        controller.reconcile,
        workers,
        initial_keys=lambda: (*discovery.names(), *records),
        sources=(
            Enqueues(discovery.changed.subscribe, itself, SETTLES_S),
            Enqueues(live.changed.subscribe, lambda: tuple(records), SETTLES_S),
            Enqueues(common.virtual_clusters.changed.subscribe, _names_of, SETTLES_S),
        ),
        resync_keys=same,
        runs=runs if run is None else {f"watch of {name}": run} | runs,
    )


def _names_of(old: VirtualCluster | None, new: VirtualCluster | None) -> Iterable[str]:
    return (name_of_change(old, new),)
