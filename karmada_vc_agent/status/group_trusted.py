"""The condition GroupTrusted: whether a node can join a group by itself (rewriting-rules 3.1)."""

from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.status.conditions import Condition

GROUP_TRUSTED = "GroupTrusted"
RESTRICTED_PREFIX = "node-restriction.kubernetes.io/"
"""Admission plugin NodeRestriction forbids kubelets to set labels with this prefix."""


def group_trusted(
    vc: VirtualCluster, *, has_kubeedge: bool, node_restriction: bool | None
) -> Condition:
    """Return the condition for the group of a virtual cluster.

    has_kubeedge: whether the host has KubeEdge nodes, whose labels CloudCore writes with an account
    of its own. node_restriction: whether the admission plugin is enabled; None = unknown.
    """
    keys = sorted({requirement.key for requirement in vc.node_selector.requirements()})
    if not keys:
        return _trusted("True", "NodeNames", _by_names(restricted=bool(node_restriction)))
    labels = f"the group is selected by {_quoted(keys)}"
    advice = "select nodes by nodeNames"
    if has_kubeedge:
        return _trusted(
            "False", "KubeEdge", f"{labels}, and KubeEdge nodes can label themselves; {advice}"
        )
    open_keys = [key for key in keys if not _is_restricted(key)]
    if open_keys:
        text = f"{labels}, and nodes can set {_quoted(open_keys)} on themselves; {advice}"
        return _trusted("False", "NodesLabelThemselves", f"{text} or {RESTRICTED_PREFIX} labels")
    if node_restriction is None:
        text = (
            f"{labels}; the agent cannot determine whether admission plugin NodeRestriction is "
            "enabled"
        )
        return _trusted("Unknown", "NodeRestrictionNotKnown", text)
    if not node_restriction:
        text = f"{labels}, and admission plugin NodeRestriction is disabled; enable it, or {advice}"
        return _trusted("False", "NodeRestrictionOff", text)
    return _trusted("True", "NodeRestriction", f"{labels}, which nodes cannot set on themselves")


def _by_names(*, restricted: bool) -> str:
    text = "the group is a list of node names"
    if restricted:
        return text
    return (
        f"{text}; pods are placed by label {MEMBERSHIP_LABEL}, which the agent restores if changed"
    )


def _is_restricted(key: str) -> bool:
    prefix, slash, _ = key.rpartition("/")
    return bool(slash) and f".{prefix}/".endswith(f".{RESTRICTED_PREFIX}")


def _quoted(keys: list[str]) -> str:
    return f"label{'s' if len(keys) > 1 else ''} {', '.join(keys)}"


def _trusted(status: str, reason: str, message: str) -> Condition:
    return Condition(type=GROUP_TRUSTED, status=status, reason=reason, message=message)
