"""The condition GroupTrusted: no node can join a group by itself (rewriting-rules 3.1)."""

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

GROUP_TRUSTED = ConditionType(
    "GroupTrusted", "No node can join the group by itself.", on_object=Shown.ALWAYS
)
RESTRICTED_PREFIX = "node-restriction.kubernetes.io/"
"""Admission plugin NodeRestriction forbids kubelets to set labels with this prefix."""
_ADVICE = "select nodes by nodeNames"
CLOUDHUB_SETTING = "cloudHub.authorization"
"""Without it CloudHub serves an edge by the name in a header (kubeedge 9)."""
_CLOUDHUB_ADVICE = f"enable {CLOUDHUB_SETTING} of CloudCore"


def group_trusted(
    vc: VirtualCluster,
    *,
    has_kubeedge: bool,
    node_restriction: bool | None,
    origin: str = "",
    by_label: bool = False,
) -> Condition:
    """Return the condition for the group of a virtual cluster.

    has_kubeedge: whether the host has KubeEdge nodes, whose labels CloudCore writes with an account
    of its own. node_restriction: whether the admission plugin is enabled; None = unknown. origin:
    what selects its nodes where the settings do not: `NodeGroup shop-a`. by_label: whether that is
    a label of nodes, each value of which is a virtual cluster.
    """
    whose = f", as {origin} says" if origin and not by_label else ""
    if _selects_nothing(vc):
        return GROUP_TRUSTED.true("NoNodes", f"the group has no nodes{whose}")
    keys = sorted({requirement.key for requirement in vc.node_selector.requirements()})
    if not keys:
        return _by_names(whose, has_kubeedge=has_kubeedge, is_restricted=node_restriction is True)
    labels = f"the group is selected by {_quoted(keys)}{whose}"
    made = "; each value that a node sets makes a virtual cluster" if by_label else ""
    if has_kubeedge:
        advice = f"{_ADVICE} and {_CLOUDHUB_ADVICE}"
        text = f"{labels}, and KubeEdge nodes can label themselves{made}; {advice}"
        return GROUP_TRUSTED.false("KubeEdge", text)
    if open_keys := [key for key in keys if not _is_restricted(key)]:
        text = f"{labels}, and nodes can set {_quoted(open_keys)} on themselves{made}; {_ADVICE}"
        return GROUP_TRUSTED.false("NodesLabelThemselves", f"{text} or {RESTRICTED_PREFIX} labels")
    return _by_restricted(labels, node_restriction=node_restriction)


def _by_restricted(labels: str, *, node_restriction: bool | None) -> Condition:
    """Return the condition for labels that are only as safe as the admission plugin is on."""
    if node_restriction is None:
        text = "the agent cannot determine whether admission plugin NodeRestriction is enabled"
        return GROUP_TRUSTED.unknown("NodeRestrictionNotKnown", f"{labels}; {text}")
    if not node_restriction:
        text = f"{labels}, and admission plugin NodeRestriction is disabled; enable it, or"
        return GROUP_TRUSTED.false("NodeRestrictionOff", f"{text} {_ADVICE}")
    return GROUP_TRUSTED.true("NodeRestriction", f"{labels}, which nodes cannot set on themselves")


def _selects_nothing(vc: VirtualCluster) -> bool:
    return not vc.node_names and any(
        requirement.operator == "In" and not requirement.values
        for requirement in vc.node_selector.requirements()
    )


def _by_names(whose: str, *, has_kubeedge: bool, is_restricted: bool) -> Condition:
    """Return the condition for names, which are as good as what binds a connection to its node."""
    text = f"the group is a list of node names{whose}"
    if has_kubeedge:
        problem = "by default KubeEdge accepts any edge under any node name"
        unknown = f"the agent cannot determine whether {CLOUDHUB_SETTING} of CloudCore is enabled"
        advice = f"{_CLOUDHUB_ADVICE} (enable: true, debug: false)"
        return GROUP_TRUSTED.unknown("KubeEdge", f"{text}, and {problem}; {unknown}; {advice}")
    if not is_restricted:
        label = f"pods are placed by label {MEMBERSHIP_LABEL}, which the agent restores if changed"
        text = f"{text}; {label}"
    return GROUP_TRUSTED.true("NodeNames", text)


def _is_restricted(key: str) -> bool:
    prefix, slash, _ = key.rpartition("/")
    return bool(slash) and f".{prefix}/".endswith(f".{RESTRICTED_PREFIX}")


def _quoted(keys: list[str]) -> str:
    return f"label{'s' if len(keys) > 1 else ''} {', '.join(keys)}"
