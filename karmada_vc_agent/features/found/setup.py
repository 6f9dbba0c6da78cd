"""Declares the controllers of what is found: NodeGroups, and values of a node label."""

from collections.abc import Iterable
from functools import partial

from karmada_vc_agent.cluster.virtual_clusters import name_of_change
from karmada_vc_agent.features.found.finding import Finder, making_of_groups, making_of_labels
from karmada_vc_agent.features.found.follower import Follower, FollowerContext
from karmada_vc_agent.features.found.found_records import FoundRecords
from karmada_vc_agent.features.found.node_groups import NodeGroupFinder
from karmada_vc_agent.features.found.node_labels import NodeLabelFinder
from karmada_vc_agent.features.found.start import DISCOVER, NODE_GROUPS, FoundStart
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
"""A NodeGroup that is made anew, and a label that moves, are two changes."""


def setup_node_groups(parts: Parts) -> ControllerSpec[str] | None:
    """Declare the controller of NodeGroups."""
    common, live = parts.common, parts.common.live
    started = common.find(FoundStart)
    if started is None:
        return None
    source = started.node_groups
    finder = NodeGroupFinder(common.clients.host, live.config.node_groups)
    live.changed.subscribe(lambda: finder.use(live.config.node_groups))
    recorder = EventRecorder(common.clients.host)
    records = FoundRecords(common.state, NODE_GROUPS)
    around = _surroundings(parts, recorder)
    follower = Follower(finder, source, records, lambda: making_of_groups(live.config), around)
    return ControllerSpec(
        "node-groups",
        common.queues.by_name(),
        follower.reconcile,
        FEW_WORKERS,
        initial_keys=lambda: (*finder.names(), *records),
        sources=_sources(parts, finder, records),
        resync_keys=same,
        runs={"node groups": finder.run, "events of node groups": recorder.run},
    )


def setup_node_labels(parts: Parts) -> ControllerSpec[str] | None:
    """Declare the controller of the values of a node label."""
    common, live = parts.common, parts.common.live
    started = common.find(FoundStart)
    if started is None:
        return None
    source = started.labels
    finder = NodeLabelFinder(common.clients.host, common.stores.nodes, live.config.discover)
    live.changed.subscribe(lambda: finder.use(live.config.discover))
    recorder = EventRecorder(common.clients.host)
    records = FoundRecords(common.state, DISCOVER)
    around = _surroundings(parts, recorder)
    follower = Follower(finder, source, records, lambda: making_of_labels(live.config), around)
    return ControllerSpec(
        "node-label-values",
        common.queues.by_name(),
        follower.reconcile,
        initial_keys=lambda: (*finder.names(), *records),
        sources=_sources(parts, finder, records),
        resync_keys=same,
        runs={"events of node labels": recorder.run},
    )


def _sources(parts: Parts, finder: Finder, records: FoundRecords) -> tuple[Enqueues[str], ...]:
    registry = parts.common.virtual_clusters
    return (
        Enqueues(finder.changed.subscribe, itself, SETTLES_S),
        Enqueues(parts.common.live.changed.subscribe, lambda: tuple(records), SETTLES_S),
        Enqueues(registry.changed.subscribe, _names_of, SETTLES_S),
    )


def _names_of(old: VirtualCluster | None, new: VirtualCluster | None) -> Iterable[str]:
    return (name_of_change(old, new),)


def _surroundings(parts: Parts, recorder: EventRecorder) -> FollowerContext:
    common = parts.common
    servers = (common.clients.hub, common.clients.host)

    def tell(about: Object, reason: str, text: str) -> None:
        recorder.record(common.config.agent_name, about, WARNING, reason, text)

    return FollowerContext(
        removal=removal_of(parts),
        origins=common.origins,
        check=partial(check_permitted, common),
        stays_away=common.registrations.stays_away,
        is_in_doubt=lambda: any(server.history.is_in_doubt for server in servers),
        tell=tell,
    )
