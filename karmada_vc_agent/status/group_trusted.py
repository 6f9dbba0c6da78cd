"""The condition GroupTrusted: can a node write itself into a group (rewriting-rules 3.1)."""

from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.status.conditions import Condition

GROUP_TRUSTED = "GroupTrusted"
RESTRICTED_PREFIX = "node-restriction.kubernetes.io/"
"""Admission plugin NodeRestriction refuses kubelets labels under it, in the prefix and below."""


def group_trusted(
    vc: VirtualCluster, *, has_kubeedge: bool, node_restriction: bool | None
) -> Condition:
    """Return the condition for the group of a virtual cluster.

    has_kubeedge: whether the host has nodes of KubeEdge, for which CloudCore writes labels as an
    account of its own. node_restriction: whether the plugin is on, None where nobody knows.
    """
    keys = sorted({requirement.key for requirement in vc.node_selector.requirements()})
    if not keys:
        return _trusted("True", "NodeNames", _by_names(restricted=bool(node_restriction)))
    labels = f"the group rests on {_quoted(keys)}"
    advice = "choose nodes by nodeNames"
    if has_kubeedge:
        return _trusted("False", "KubeEdge", f"{labels}, and an edge may label itself; {advice}")
    open_keys = [key for key in keys if not _is_restricted(key)]
    if open_keys:
        text = f"{labels}, and a node may give itself {_quoted(open_keys)}; {advice}"
        return _trusted("False", "NodesLabelThemselves", f"{text} or {RESTRICTED_PREFIX} labels")
    if node_restriction is None:
        text = f"{labels}; the agent cannot see whether admission plugin NodeRestriction is on"
        return _trusted("Unknown", "NodeRestrictionNotKnown", text)
    if not node_restriction:
        text = f"{labels}, and admission plugin NodeRestriction is off; turn it on, or {advice}"
        return _trusted("False", "NodeRestrictionOff", text)
    return _trusted("True", "NodeRestriction", f"{labels}, which the host lets no node write")


def _by_names(*, restricted: bool) -> str:
    text = "the group is a list of names, which no node can change"
    if restricted:
        return text
    return f"{text}; pods go by label {MEMBERSHIP_LABEL}, which the agent puts right"


def _is_restricted(key: str) -> bool:
    prefix, slash, _ = key.rpartition("/")
    return bool(slash) and f".{prefix}/".endswith(f".{RESTRICTED_PREFIX}")


def _quoted(keys: list[str]) -> str:
    return f"label{'s' if len(keys) > 1 else ''} {', '.join(keys)}"


def _trusted(status: str, reason: str, message: str) -> Condition:
    return Condition(type=GROUP_TRUSTED, status=status, reason=reason, message=message)
