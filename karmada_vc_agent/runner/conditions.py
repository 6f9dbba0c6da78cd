"""The conditions of virtual clusters: those of core, and their evaluation."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from karmada_vc_agent.cluster.agent_conditions import AgentCondition
from karmada_vc_agent.cluster.rules.cluster_objects import COMPLETE_API_ENABLEMENTS
from karmada_vc_agent.cluster.rules.conditions import (
    AGENT_APART,
    GROUP_TRUSTED,
    NODES_REACHABLE,
    READY,
    Condition,
    ConditionType,
    Shown,
    agent_apart,
    group_trusted,
)
from karmada_vc_agent.kube.controller import Enqueues, itself
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts
from karmada_vc_agent.telemetry.metrics import Sample

NODE_OVERLAP = ConditionType(
    "NodeOverlap",
    "Another virtual cluster selects nodes of the group, too; the older one has them "
    "([rewriting-rules 3.1](rewriting-rules.md)).",
    normal="False",
    idle="NodesDisjoint",
    on_object=Shown.ALWAYS,
    warning="Nodes are selected by several virtual clusters; the older one has them",
)
NODES_MISSING = ConditionType(
    "NodesMissing",
    "`nodeNames` has names that no node has.",
    normal="False",
    idle="NodeNamesFound",
    warning="No nodes have these names",
)


def node_overlap(overlaps: Sequence[tuple[str, str]]) -> Condition:
    """Return the condition. overlaps: (node, other virtual cluster)."""
    if not overlaps:
        return NODE_OVERLAP.false("NodesDisjoint", "no node is selected by another virtual cluster")
    node, other = overlaps[0]
    more = f" (and {len(overlaps) - 1} more)" if len(overlaps) > 1 else ""
    text = f'node "{node}"{more} is also selected by virtual cluster "{other}"'
    return NODE_OVERLAP.true("NodesShared", text)


def nodes_missing(parts: Parts, vc: VirtualCluster) -> Condition:
    """Return the condition; it has the names without a node in the order of nodeNames."""
    nodes = parts.common.stores.nodes
    names = [name for name in vc.node_names if nodes.get("", name) is None]
    if not names:
        return NODES_MISSING.false("NodeNamesFound", "all nodes of nodeNames exist")
    text = f"no node is named {listed(names)}; correct nodeNames, or add the node"
    return NODES_MISSING.true("NodeNamesNotFound", text)


def _agent_apart(parts: Parts, _: VirtualCluster) -> Condition | None:
    name, stores = parts.common.node, parts.common.stores
    node = stores.nodes.get("", name) if name else None
    if node is None:
        return None
    return agent_apart(name, node.metadata.labels, stores.membership.owner_of(name))


def _trusted(parts: Parts, vc: VirtualCluster) -> Condition:
    origin, trust = parts.common.origins.of(vc.name), parts.common.stores.trust
    return group_trusted(
        vc,
        has_kubeedge=trust.has_kubeedge,
        node_restriction=trust.node_restriction,
        origin=origin.text if origin is not None else "",
        by_label=origin is not None and origin.is_label,
    )


OF_NODES = (
    ConditionSpec(
        GROUP_TRUSTED, _trusted, lambda parts: ((parts.common.origins.changed.subscribe, itself),)
    ),
    ConditionSpec(
        NODE_OVERLAP,
        lambda parts, vc: node_overlap(parts.common.stores.membership.overlaps(vc.name)),
    ),
    ConditionSpec(NODES_MISSING, nodes_missing),
    ConditionSpec(AGENT_APART, _agent_apart),
)


_OF_HUB = "[autonomy](autonomy.md#credentialrenewed-leasenamespaceexists)"
RIGHTS_GRANTED = ConditionType(
    "RightsGranted",
    "Hub and host refused no right that the agent needs for this virtual cluster.",
    idle="NothingRefused",
    on_object=Shown.UNLESS_IDLE,
    warning="Lacking rights for a virtual cluster; run karmada-vc-agent join",
)
CREDENTIAL_RENEWED = ConditionType(
    "CredentialRenewed",
    f"The agent's credential is renewed in time ({_OF_HUB}).",
    idle="Succeeded",
    for_all=True,
    has_event=True,
)
LEASE_NAMESPACE_EXISTS = ConditionType(
    "LeaseNamespaceExists",
    f"The hub has the namespace of Leases ({_OF_HUB}).",
    idle="Succeeded",
    for_all=True,
    has_event=True,
)

OBJECTS_ORPHANED = ConditionType(
    "ObjectsOrphaned",
    "Host objects have no Work on the hub ([autonomy](autonomy.md#objectsorphaned)).",
    normal="False",
    idle="WorksExist",
    has_event=True,
    warning="Host objects have no Work on the hub; karmada-vc-agent leave --prune lists them",
)


def rights_granted(parts: Parts, vc: VirtualCluster) -> Condition:
    """Return the condition; its message has one of the rights that are missing."""
    texts = parts.missing_rights.by_cluster().get(vc.name)
    if not texts:
        return RIGHTS_GRANTED.true("NothingRefused", "no right was refused lately")
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return RIGHTS_GRANTED.false("RightsMissing", f"{texts[0]}{more}")


def succeeded(kind: ConditionType, state: AgentCondition) -> Condition:
    """Return the condition of what may fail for all virtual clusters."""
    return (
        kind.false(state.reason, state.problem)
        if state.problem
        else kind.true("Succeeded", "it succeeds again")
    )


def objects_orphaned(parts: Parts, vc: VirtualCluster) -> Condition:
    """Return the condition; its message names some of the objects."""
    count, first = parts.orphaned.of(vc.name)
    if not count:
        return OBJECTS_ORPHANED.false("WorksExist", "each host object has a Work on the hub")
    text = (
        f"the hub has no Work for {listed(first, len(first), count)}, as after an old checkpoint "
        "or a restored backup; the agent removes none of them: karmada-vc-agent leave --prune "
        "lists them, with --yes it removes them"
    )
    return OBJECTS_ORPHANED.true("WorksMissing", text)


OF_AGENT = (
    ConditionSpec(RIGHTS_GRANTED, rights_granted),
    ConditionSpec(
        CREDENTIAL_RENEWED,
        lambda parts, _: succeeded(CREDENTIAL_RENEWED, parts.credential),
        lambda parts: ((parts.credential.changed.subscribe, parts.names),),
    ),
    ConditionSpec(
        LEASE_NAMESPACE_EXISTS,
        lambda parts, _: succeeded(LEASE_NAMESPACE_EXISTS, parts.lease_namespace),
        lambda parts: ((parts.lease_namespace.changed.subscribe, parts.names),),
    ),
    ConditionSpec(
        OBJECTS_ORPHANED,
        objects_orphaned,
        lambda parts: ((parts.orphaned.changed.subscribe, itself),),
    ),
)


_log = logging.getLogger(__name__)

OF_CORE: tuple[ConditionSpec, ...] = (*OF_NODES, *OF_AGENT)
OF_CLUSTER_STATUS: tuple[ConditionType, ...] = (READY, NODES_REACHABLE, COMPLETE_API_ENABLEMENTS)
"""Types that the controller of Cluster status adds, since they are the state of that."""


def declared_conditions(features: Iterable[Feature]) -> tuple[ConditionSpec, ...]:
    """Return what core and features declare."""
    return (*OF_CORE, *(spec for feature in features for spec in feature.conditions))


class Conditions:
    """Evaluates what is declared, for one kind of status.

    shown: returns when a type is in that status.
    """

    def __init__(self, parts: Parts, shown: Callable[[ConditionType], Shown]) -> None:
        self._parts = parts
        self._shown = {
            spec: shown(spec.type)
            for spec in declared_conditions(parts.features)
            if shown(spec.type) is not Shown.NEVER
        }

    def of(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the conditions of a virtual cluster. live: the status to compare with."""
        conditions = []
        for spec, shown in self._shown.items():
            condition = spec.evaluate(self._parts, vc)
            if condition is None:
                continue
            before = spec.type.find(live.get("conditions"))
            is_idle = shown is Shown.UNLESS_IDLE and condition["reason"] == spec.type.idle
            if not is_idle or before is not None:
                conditions.append(condition)
            self._evaluated(spec.type, vc.name, before, condition)
        return conditions

    def sources(self, after_s: float = 0.0) -> tuple[Enqueues[str], ...]:
        """Return what enqueues a virtual cluster whose conditions changed."""
        triggers = (trigger for spec in self._shown for trigger in spec.triggers(self._parts))
        return tuple(Enqueues(subscribe, keys, after_s) for subscribe, keys in triggers)

    def _evaluated(
        self, kind: ConditionType, cluster: str, before: Condition | None, condition: Condition
    ) -> None:
        """Report a condition elsewhere than in the status."""


class ClusterConditions(Conditions):
    """The conditions of Clusters, which log, events and metrics have, too."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts, lambda kind: kind.on_cluster)
        self._once = LogOnce(_log)
        self._abnormal: defaultdict[str, set[str]] = parts.common.scopes.keep_each(set)
        self._report = parts.works.on_cluster(parts.works.events.condition_changed)
        parts.common.metrics.add_source(self._samples)

    def _evaluated(
        self, kind: ConditionType, cluster: str, before: Condition | None, condition: Condition
    ) -> None:
        is_normal = kind.is_normal(condition)
        (self._abnormal[cluster].discard if is_normal else self._abnormal[cluster].add)(kind.name)
        about = (kind.name, "" if kind.for_all else cluster)
        extra = {"virtual_cluster": cluster, "condition": kind.name, "text": condition["message"]}
        if is_normal:
            if self._once.ended(about):
                _log.info("Condition is normal again", extra=extra)
        elif kind.warning:
            self._once.warning(kind.warning, about=about, reason=condition["reason"], **extra)
        if kind.has_event and kind.is_news(before, condition):
            self._report(cluster, kind, condition)

    def _samples(self) -> Iterator[Sample]:
        for cluster, names in self._abnormal.items():
            for name in sorted(names):
                yield Sample("virtual_cluster_condition_abnormal", (cluster, name), 1)


def conditions_of_objects(parts: Parts) -> Conditions:
    """Return what evaluates the conditions of VirtualCluster objects."""
    return Conditions(parts, lambda kind: kind.on_object)
