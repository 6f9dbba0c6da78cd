"""Conditions of Clusters: their types, when each holds, how one is set in a list."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NotRequired, TypedDict

from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import EDGE_LABEL


class Condition(TypedDict):
    """A metav1.Condition as Karmada writes it; `set_conditions` sets lastTransitionTime."""

    type: str
    status: str
    reason: str
    message: str
    observedGeneration: NotRequired[int]
    lastTransitionTime: NotRequired[str]


class Shown(Enum):
    """The time for which a condition is in the status of an object.

    UNLESS_IDLE: not while it has the reason of its type for "nothing to report", except where it
    was reported before.
    """

    NEVER = auto()
    UNLESS_IDLE = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class ConditionType:
    """A type of condition: what it says of a virtual cluster, and where it is shown.

    help: a sentence of docs/conditions.md. normal: its status while nothing is wrong. idle: the
    reason of UNLESS_IDLE. for_all: whether it is the same for all virtual clusters. warning: logged
    once for each reason while a Cluster's is not normal, "" = never. has_event: whether the Cluster
    gets an event for each reason, too, and once it is normal again.
    """

    name: str
    help: str
    normal: str = "True"
    idle: str = ""
    on_cluster: Shown = Shown.UNLESS_IDLE
    on_object: Shown = Shown.NEVER
    for_all: bool = False
    warning: str = ""
    has_event: bool = False

    def true(self, reason: str, message: str) -> Condition:
        return Condition(type=self.name, status="True", reason=reason, message=message)

    def false(self, reason: str, message: str) -> Condition:
        return Condition(type=self.name, status="False", reason=reason, message=message)

    def unknown(self, reason: str, message: str) -> Condition:
        return Condition(type=self.name, status="Unknown", reason=reason, message=message)

    def find(self, conditions: Iterable[Condition] | None) -> Condition | None:
        return find_condition(conditions, self.name)

    def is_normal(self, condition: Condition) -> bool:
        return condition["status"] == self.normal

    def is_news(self, before: Condition | None, condition: Condition) -> bool:
        """Return True if something is wrong that was not before, or is right again."""
        if self.is_normal(condition):
            return before is not None and not self.is_normal(before)
        return before is None or before["reason"] != condition["reason"]


def find_condition(conditions: Iterable[Condition] | None, type_: str) -> Condition | None:
    return next((c for c in conditions or () if c.get("type") == type_), None)


def set_conditions(
    conditions: Sequence[Condition] | None, changed: Iterable[Condition], now: str
) -> list[Condition]:
    """Return the list with each of these replaced, or appended if it is new; now: RFC 3339."""
    merged = list(conditions or ())
    places = {merged[place].get("type"): place for place in reversed(range(len(merged)))}
    for condition in changed:
        place = places.get(condition["type"])
        if place is None:
            places[condition["type"]] = len(merged)
            merged.append({**condition, "lastTransitionTime": now})
            continue
        before, since = merged[place], now
        if before.get("status") == condition["status"]:
            since = before.get("lastTransitionTime", now)
        merged[place] = {**condition, "lastTransitionTime": since}
    return merged


READY = ConditionType(
    "Ready",
    "The host can take what is scheduled to the virtual cluster.",
    on_cluster=Shown.ALWAYS,
    on_object=Shown.ALWAYS,
)

_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Seconds for which a new state must last before it is reported (contract 4.3)."""

    success_s: float = 30.0
    failure_s: float = 30.0


Observation = tuple[str, float]
"""A status as observed last, and when that changed last, on the clock of `now_s`."""


def observed_ready(http_status: int | None) -> Condition:
    """Return Ready for the status of a probe of the host, None = it failed (contract 4.2)."""
    if http_status is None or http_status // 100 != 2:
        return READY.false("ClusterNotReachable", "cluster is not reachable")
    if http_status != 200:
        message = "cluster is reachable but health endpoint responded without ok"
        return READY.false("ClusterNotReady", message)
    return READY.true("ClusterReady", "cluster is healthy and ready to accept workloads")


def damp(
    last: Observation | None,
    observed: Condition,
    current: Condition | None,
    now_s: float,
    thresholds: Thresholds,
) -> tuple[Condition, Observation]:
    """Return the condition to write, and the state for the next call.

    last: of the previous call, None after a start. current: the last judgement of this agent, not
    that on the hub, which may be about the hub. Damps changes between True and not (contract 4.3).
    """
    if last is None:
        return observed, (observed["status"], _NEVER)
    if current is None:
        return observed, last
    if last[0] != observed["status"]:
        last = (observed["status"], now_s)
    is_ready = observed["status"] == "True"
    flips = is_ready != (current.get("status") == "True")
    threshold_s = thresholds.success_s if is_ready else thresholds.failure_s
    if flips and now_s < last[1] + threshold_s:
        return current, last
    return observed, last


NODES_REACHABLE = ConditionType(
    "NodesReachable",
    "At least one node of the group is Ready.",
    on_cluster=Shown.ALWAYS,
    on_object=Shown.ALWAYS,
)
NO_NODES = "NoNodes"


def count_nodes(nodes: Iterable[Node]) -> tuple[int, int]:
    states = [node.is_ready for node in nodes]
    return len(states), sum(states)


def nodes_reachable(total: int, ready: int) -> Condition:
    """Return the condition NodesReachable: False where pods could run on no node."""
    if not total:
        return NODES_REACHABLE.false(NO_NODES, "no node of the host is in the group")
    text = f"{ready} of {total} nodes are Ready"
    if not ready:
        return NODES_REACHABLE.false("NoNodeReady", text)
    return NODES_REACHABLE.true("NodesReady", text)


def ready_with(host: Condition, nodes: Condition | None, *, when_unreachable: bool) -> Condition:
    """Return Ready; when_unreachable: whatever the nodes are (contract 4.2, trap 12)."""
    if nodes is None or nodes["status"] == "True" or when_unreachable or host["status"] != "True":
        return host
    text = f"the API server of the host is healthy, but {nodes['message']}"
    return READY.false("NodesNotReachable", text)


GROUP_TRUSTED = ConditionType(
    "GroupTrusted", "No node can join the group by itself.", on_object=Shown.ALWAYS
)
RESTRICTED_PREFIX = "node-restriction.kubernetes.io/"
"""Admission plugin NodeRestriction forbids kubelets to set labels with this prefix."""
CLOUDHUB_SETTING = "cloudHub.authorization"
"""Without it CloudHub serves an edge by the name in a header (kubeedge 9)."""


def group_trusted(
    vc: VirtualCluster,
    *,
    has_kubeedge: bool,
    node_restriction: bool | None,
    origin: str = "",
    by_label: bool = False,
) -> Condition:
    """Return the condition for the group of a virtual cluster.

    has_kubeedge: the host has KubeEdge nodes, whose labels CloudCore writes with its own account.
    node_restriction: whether the admission plugin is enabled; None = unknown. origin: what selects
    its nodes where the settings do not: `NodeGroup shop-a`, or by_label, a label of nodes.
    """
    whose = f", as {origin} says" if origin and not by_label else ""
    requirements = vc.node_selector.requirements()
    is_empty = any(each.operator == "In" and not each.values for each in requirements)
    if is_empty and not vc.node_names:
        return GROUP_TRUSTED.true("NoNodes", f"the group has no nodes{whose}")
    keys = sorted({requirement.key for requirement in requirements})
    if not keys:
        text = f"the group is a list of node names{whose}"
        if not has_kubeedge:
            return GROUP_TRUSTED.true("NodeNames", text)
        text += (
            ", and by default KubeEdge accepts any edge under any node name; enable "
            f"{CLOUDHUB_SETTING} of CloudCore (enable: true, debug: false), which the agent cannot "
            "determine"
        )
        return GROUP_TRUSTED.unknown("KubeEdge", text)
    labels, advice = f"the group is selected by {_quoted(keys)}{whose}", "select nodes by nodeNames"
    made = "; each value that a node sets makes a virtual cluster" if by_label else ""
    open_keys = [key for key in keys if f".{RESTRICTED_PREFIX}" not in f".{key}"]
    if has_kubeedge:
        text = f"and KubeEdge nodes can label themselves{made}; {advice} and enable"
        text = f"{labels}, {text} {CLOUDHUB_SETTING} of CloudCore"
        return GROUP_TRUSTED.false("KubeEdge", text)
    if open_keys:
        text = f"{labels}, and nodes can set {_quoted(open_keys)} on themselves{made}"
        text = f"{text}; {advice} or {RESTRICTED_PREFIX} labels"
        return GROUP_TRUSTED.false("NodesLabelThemselves", text)
    return _by_restricted(labels, node_restriction=node_restriction)


def _by_restricted(labels: str, *, node_restriction: bool | None) -> Condition:
    """Return the condition for labels that are only as safe as the admission plugin is on."""
    if node_restriction is None:
        text = "the agent cannot determine whether admission plugin NodeRestriction is enabled"
        return GROUP_TRUSTED.unknown("NodeRestrictionNotKnown", f"{labels}; {text}")
    if not node_restriction:
        text = "admission plugin NodeRestriction is disabled; enable it, or select by nodeNames"
        return GROUP_TRUSTED.false("NodeRestrictionOff", f"{labels}, and {text}")
    return GROUP_TRUSTED.true("NodeRestriction", f"{labels}, which nodes cannot set on themselves")


def _quoted(keys: list[str]) -> str:
    return f"label{'s' if len(keys) > 1 else ''} {', '.join(keys)}"


AGENT_APART = ConditionType(
    "AgentApart",
    "The agent runs on a node that no tenant controls.",
    idle="NodeOfNobody",
    for_all=True,
    warning="Running on a node that tenants may control",
)


def agent_apart(node: str, labels: Mapping[str, str], owner: str | None) -> Condition:
    """Return the condition for the node of the agent; its control gives the tokens of its pods."""
    text = f"the agent runs on node {node}, which"
    advice = "use nodeAffinity to keep the agent off it"
    if owner is not None:
        text = f"{text} belongs to virtual cluster {owner}; {advice}"
        return AGENT_APART.false("NodeOfGroup", text)
    if EDGE_LABEL in labels:
        return AGENT_APART.false("EdgeNode", f"{text} is an edge node; {advice}")
    return AGENT_APART.true("NodeOfNobody", f"{text} belongs to no virtual cluster")
