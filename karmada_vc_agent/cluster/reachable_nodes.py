"""Judges the nodes of each virtual cluster reachable or not, damped as Ready is."""

import logging
from collections.abc import Callable

from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.rules.nodes_reachable import (
    NO_NODES,
    NODES_REACHABLE,
    count_nodes,
    nodes_reachable,
)
from karmada_vc_agent.cluster.rules.readiness import Observation, Thresholds, damp
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.selectors import LabelSelector
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)


class ReachableNodes:
    """The condition NodesReachable of each virtual cluster, as judged by the agent.

    notify: called with a Cluster and the condition that it is to have, if that is news for it.
    changed: a virtual cluster whose nodes became reachable, or unreachable.
    """

    def __init__(
        self,
        membership: Membership,
        thresholds: Thresholds,
        notify: Callable[[Object, Condition], None],
        clock: Callable[[], float],
        scopes: Scopes,
    ) -> None:
        self._membership = membership
        self._thresholds = thresholds
        self._notify = notify
        self._clock = clock
        self._judged: dict[str, Condition] = scopes.keep()
        self._observed: dict[str, Observation] = scopes.keep()
        self.changed: Signal[[str]] = Signal()

    def of(self, name: str) -> Condition:
        """Return the condition: what holds is what was judged, the numbers are those of now."""
        now, judged = self._seen(name), self._judged.get(name)
        return now if judged is None or judged["status"] == now["status"] else judged

    def judge(self, vc: VirtualCluster, cluster: Object) -> Condition:
        """Judge the nodes again; return the condition that the Cluster is to have."""
        before = self._judged.get(vc.name)
        judged, self._observed[vc.name] = damp(
            self._observed.get(vc.name),
            self._seen(vc.name),
            before,
            self._clock(),
            self._thresholds,
        )
        self._judged[vc.name] = judged
        if NODES_REACHABLE.is_news(before, judged):
            _log_news(vc, judged)
        shown = NODES_REACHABLE.find(dig(cluster, "status", "conditions"))
        if NODES_REACHABLE.is_news(shown, judged):
            self._notify(cluster, judged)
        if before is None or before["status"] != judged["status"]:
            self.changed.emit(vc.name)
        return judged

    def _seen(self, name: str) -> Condition:
        return nodes_reachable(count_nodes(self._membership.nodes_of(name)))


def _log_news(vc: VirtualCluster, judged: Condition) -> None:
    extra = {"virtual_cluster": vc.name, "reason": judged["message"]}
    if judged["status"] == "True":
        _log.info("Nodes of the group are Ready again", extra=extra)
    elif judged["reason"] == NO_NODES:
        about = {"nodeSelector": _text(vc.node_selector), "nodeNames": listed(vc.node_names)}
        _log.warning("The settings select no node", extra=extra | about)
    else:
        _log.warning("No node of the group is Ready", extra=extra)


def _text(selector: LabelSelector) -> str:
    labels = [f"{key}={value}" for key, value in selector.match_labels.items()]
    expressions = [
        f"{each.key} {each.operator} {sorted(each.values)}" for each in selector.match_expressions
    ]
    return listed([*labels, *expressions])
