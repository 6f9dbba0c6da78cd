"""The list of declared conditions, and what evaluates them for a status."""

import logging
from collections.abc import Callable, Iterable

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

_log = logging.getLogger(__name__)

OF_CORE: tuple[ConditionSpec, ...] = (*nodes.CONDITIONS, *agent.CONDITIONS)
OF_CLUSTER_STATUS: tuple[ConditionType, ...] = (READY, NODES_REACHABLE, COMPLETE_API_ENABLEMENTS)
"""Types that the controller of Cluster status adds, since they are the state of that."""


def declared(features: Iterable[Feature]) -> tuple[ConditionSpec, ...]:
    """Return what core and features declare."""
    return (*OF_CORE, *(spec for feature in features for spec in feature.conditions))


class Conditions:
    """Evaluates what is declared, for the status of Clusters or of VirtualCluster objects.

    shown: returns when a type is in that status. Those of Clusters are logged, too.
    """

    def __init__(self, parts: Parts, shown: Callable[[ConditionType], Shown]) -> None:
        self._parts = parts
        self._shown = {
            spec: shown(spec.type)
            for spec in declared(parts.features)
            if shown(spec.type) is not Shown.NEVER
        }
        self._once = LogOnce(_log)

    def of(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the conditions of a virtual cluster. live: the status to compare with."""
        found = []
        for spec, shown in self._shown.items():
            condition = spec.evaluate(self._parts, vc)
            if condition is None:
                continue
            is_idle = shown is Shown.UNLESS_IDLE and condition["reason"] == spec.type.idle
            if not is_idle or spec.type.find(live.get("conditions")):
                found.append(condition)
            self._log_change(spec.type, vc.name, condition)
        return found

    def sources(self, after_s: float = 0.0) -> tuple[Enqueues[str], ...]:
        """Return what enqueues a virtual cluster whose conditions changed."""
        triggers = (trigger for spec in self._shown for trigger in spec.triggers(self._parts))
        return tuple(Enqueues(subscribe, keys, after_s) for subscribe, keys in triggers)

    def _log_change(self, kind: ConditionType, cluster: str, condition: Condition) -> None:
        if not kind.warning:
            return
        about = (kind.name, "" if kind.for_all else cluster)
        extra = {"virtual_cluster": cluster, "condition": kind.name, "text": condition["message"]}
        if condition["status"] != kind.normal:
            self._once.warning(kind.warning, about=about, reason=condition["reason"], **extra)
        elif self._once.ended(about):
            _log.info("Condition is normal again", extra=extra)


def evaluate(parts: Parts, name: str, vc: VirtualCluster) -> Condition | None:
    """Return the condition of this name as it is now, None where nothing declares it."""
    for spec in declared(parts.features):
        if spec.type.name == name:
            return spec.evaluate(parts, vc)
    return None


def of_clusters(parts: Parts) -> Conditions:
    """Return what evaluates the conditions of Clusters."""
    return Conditions(parts, lambda kind: kind.on_cluster)


def of_objects(parts: Parts) -> Conditions:
    """Return what evaluates the conditions of VirtualCluster objects."""
    return Conditions(parts, lambda kind: kind.on_object)
