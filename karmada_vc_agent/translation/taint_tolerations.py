"""Taints that dedicate nodes to a virtual cluster, and their tolerations (docs/adr/0014).

A taint on every node of the group dedicates the group, so the pods of the virtual cluster tolerate
it. One on some nodes only means that these must not be used now.
"""

from collections.abc import Iterable, Sequence

from karmada_vc_agent.model.core import Node, Taint
from karmada_vc_agent.model.objects import Object, dig

_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")
_OF_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints for the state of a node: cordoned, not ready, out of disk."""


def common_taints(nodes: Sequence[Node]) -> tuple[Taint, ...]:
    """Return the taints that all nodes carry and that repel pods, without those for a state."""
    if not nodes:
        return ()
    first, *others = nodes
    repelling = [
        taint
        for taint in first.spec.taints
        if taint.effect in _KEEPS_PODS_AWAY and not taint.key.startswith(_OF_KUBERNETES)
    ]
    common = [t for t in repelling if all(t in other.spec.taints for other in others)]
    return tuple(sorted(common, key=lambda taint: (taint.key, taint.value, taint.effect)))


def missing_tolerations(taints: Iterable[Taint], tolerations: Sequence[Object]) -> list[Object]:
    """Return tolerations for the taints that the given tolerations do not tolerate forever."""
    return [
        _toleration_of(taint)
        for taint in taints
        if not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]


def is_for(toleration: Object, taints: Iterable[Taint]) -> bool:
    """Return whether missing_tolerations() returns a toleration for one of the taints."""
    return any(toleration == _toleration_of(taint) for taint in taints)


def _toleration_of(taint: Taint) -> Object:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {
        "key": taint.key,
        "operator": "Equal",
        "value": taint.value,
        "effect": taint.effect,
    }


def _tolerates(toleration: Object, taint: Taint) -> bool:
    """Return whether a pod with this toleration may stay on a node with the taint forever."""
    key, effect = dig(toleration, "key") or "", dig(toleration, "effect") or ""
    is_for_all_values = (dig(toleration, "operator") or "Equal") == "Exists"
    return (
        dig(toleration, "tolerationSeconds") is None
        and effect in ("", taint.effect)
        and (key == taint.key or (not key and is_for_all_values))
        and (is_for_all_values or (dig(toleration, "value") or "") == taint.value)
    )
