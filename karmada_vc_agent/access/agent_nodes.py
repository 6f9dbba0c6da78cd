"""Which nodes the agent's own Pods avoid: a node can mint the tokens of the Pods on it."""

from collections.abc import Iterable
from dataclasses import dataclass

from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.well_known import EDGE_LABEL, NAME_FIELD

_NEGATED = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
_COMMON_DOMAINS = ("kubernetes.io/", "k8s.io/")


@dataclass(frozen=True, slots=True)
class OffGroups:
    """Node selector requirements that no node of a virtual cluster meets."""

    expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    node_names: tuple[str, ...] = ()

    def affinity(self) -> Object:
        """Return the affinity of the agent's Pods: no edge nodes, no nodes of groups."""
        term: Object = {
            "matchExpressions": [
                {"key": EDGE_LABEL, "operator": "DoesNotExist"},
                {"key": MEMBERSHIP_LABEL, "operator": "DoesNotExist"},
                *(
                    {"key": key, "operator": operator} | ({"values": list(v)} if v else {})
                    for key, operator, v in self.expressions
                ),
            ]
        }
        if self.node_names:
            term["matchFields"] = [
                {"key": NAME_FIELD, "operator": "NotIn", "values": [name]}
                for name in self.node_names
            ]
        terms = {"nodeSelectorTerms": [term]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def off_groups(
    virtual_clusters: Iterable[VirtualCluster], found_by: Iterable[str] = ()
) -> OffGroups:
    """Return requirements that keep Pods off the nodes of these virtual clusters.

    found_by: keys of labels that nodes of other virtual clusters have.

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
    unlike = ((key, "NotIn", tuple(sorted(values))) for key, values in sorted(labels.items()))
    without = ((key, "DoesNotExist", ()) for key in found_by)
    return OffGroups((*unlike, *expressions, *without), tuple(names))


def _how_common(key: str) -> tuple[bool, str]:
    """Sort key of label keys: those that many nodes share come last."""
    domain = key.rpartition("/")[0] + "/"
    return domain.endswith(_COMMON_DOMAINS), key
