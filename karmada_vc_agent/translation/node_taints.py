"""Taints that set the nodes of a virtual cluster apart, and what tolerates them (docs/adr/0014).

A taint that every node of the group carries says who may run there, and those are the pods of
the virtual cluster. One that only some carry says that these are not to be used now.
"""

from collections.abc import Iterable, Sequence

from karmada_vc_agent.model.core import Node, Taint
from karmada_vc_agent.model.objects import Object, dig

_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")
_OF_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that tell of a node's state: cordoned, not ready, out of disk."""


def common_taints(nodes: Sequence[Node]) -> tuple[Taint, ...]:
    """Return the taints that all nodes carry and that keep pods away, those of states left out."""
    if not nodes:
        return ()
    first, *others = nodes
    found = [
        taint
        for taint in first.spec.taints
        if taint.effect in _KEEPS_PODS_AWAY and not taint.key.startswith(_OF_KUBERNETES)
    ]
    common = [t for t in found if all(t in other.spec.taints for other in others)]
    return tuple(sorted(common, key=lambda taint: (taint.key, taint.value, taint.effect)))


def missing_tolerations(taints: Iterable[Taint], tolerations: Sequence[Object]) -> list[Object]:
    """Return tolerations for those taints that the given ones do not tolerate for good."""
    return [
        _toleration_of(taint)
        for taint in taints
        if not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]


def is_for(toleration: Object, taints: Iterable[Taint]) -> bool:
    """Whether a toleration is one that missing_tolerations() gave for one of the taints."""
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
    """Whether Kubernetes lets a pod with this toleration stay beside the taint without end."""
    key, effect = dig(toleration, "key") or "", dig(toleration, "effect") or ""
    is_for_all_values = (dig(toleration, "operator") or "Equal") == "Exists"
    return (
        dig(toleration, "tolerationSeconds") is None
        and effect in ("", taint.effect)
        and (key == taint.key or (not key and is_for_all_values))
        and (is_for_all_values or (dig(toleration, "value") or "") == taint.value)
    )
