"""The nodes that the agent's own Pods avoid: a node can mint the tokens of the Pods on it."""

from collections.abc import Iterable

from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.well_known import EDGE_LABEL, NAME_FIELD

_NEGATED = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
_COMMON_DOMAINS = ("kubernetes.io/", "k8s.io/")


def pod_affinity(
    virtual_clusters: Iterable[VirtualCluster] = (), group_labels: Iterable[str] = ()
) -> Object:
    """Return the affinity of the agent's Pods: no edge nodes, no nodes of virtual clusters.

    group_labels: keys of labels that nodes of further virtual clusters have.

    Nodes that match only part of a selector are avoided, too: all requirements of one term must
    hold, so "not both" cannot be expressed.
    """
    labels: dict[str, set[str]] = {}
    expressions: dict[tuple[str, str, tuple[str, ...]], None] = {}
    names: dict[str, None] = {}
    for vc in virtual_clusters:
        names |= dict.fromkeys(vc.node_names)
        selector = vc.node_selector
        if selector.match_labels:
            key = min(selector.match_labels, key=_how_common)
            labels.setdefault(key, set()).add(selector.match_labels[key])
        elif selector.match_expressions:
            first = min(selector.match_expressions, key=lambda each: _how_common(each.key))
            expressions[first.key, _NEGATED[first.operator], tuple(sorted(first.values))] = None
    requirements = (
        *((key, "DoesNotExist", ()) for key in (EDGE_LABEL, MEMBERSHIP_LABEL)),
        *((key, "NotIn", tuple(sorted(values))) for key, values in sorted(labels.items())),
        *expressions,
        *((key, "DoesNotExist", ()) for key in group_labels),
    )
    term: Object = {
        "matchExpressions": [
            {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
            for key, operator, values in requirements
        ]
    }
    if names:
        term["matchFields"] = [
            {"key": NAME_FIELD, "operator": "NotIn", "values": [name]} for name in names
        ]
    terms = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _how_common(key: str) -> tuple[bool, str]:
    """Sort key of label keys: those that many nodes share are last."""
    domain = key.rpartition("/")[0] + "/"
    return domain.endswith(_COMMON_DOMAINS), key
