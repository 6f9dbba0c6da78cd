"""The list of declared conditions, and what evaluates them for a status."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from karmada_vc_agent.cluster.rules.cluster_report import COMPLETE_API_ENABLEMENTS
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.cluster.rules.nodes_reachable import NODES_REACHABLE
from karmada_vc_agent.cluster.rules.readiness import READY
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.kube.sources import Enqueues
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner import conditions_of_agent as agent
from karmada_vc_agent.runner import conditions_of_nodes as nodes
from karmada_vc_agent.runner.condition_spec import ConditionSpec
from karmada_vc_agent.runner.feature import Feature
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.telemetry.metrics import Sample

_log = logging.getLogger(__name__)

OF_CORE: tuple[ConditionSpec, ...] = (*nodes.CONDITIONS, *agent.CONDITIONS)
OF_CLUSTER_STATUS: tuple[ConditionType, ...] = (READY, NODES_REACHABLE, COMPLETE_API_ENABLEMENTS)
"""Types that the controller of Cluster status adds, since they are the state of that."""


def declared(features: Iterable[Feature]) -> tuple[ConditionSpec, ...]:
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
            for spec in declared(parts.features)
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


def evaluate(parts: Parts, name: str, vc: VirtualCluster) -> Condition | None:
    """Return the condition of this name as it is now, None where nothing declares it."""
    for spec in declared(parts.features):
        if spec.type.name == name:
            return spec.evaluate(parts, vc)
    return None


def of_objects(parts: Parts) -> Conditions:
    """Return what evaluates the conditions of VirtualCluster objects."""
    return Conditions(parts, lambda kind: kind.on_object)
