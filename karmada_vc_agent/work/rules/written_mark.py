"""The mark on a host object that says to the next process what was written last (ADR 49).

It is a digest of what was desired and the generation that this made: the server counts each change
of such an object, so one with that generation is as the agent left it, whatever the server filled
in. Which generation a write makes is open before it. So the mark never promises more than is
sure: a PUT of nothing but what is there makes none, and any other one the next. Where that is
wrong, the mark fits no generation, or an object that lacks what is desired; either costs a PUT.
"""

from typing import Any

from karmada_vc_agent.model.domain import WRITTEN_ANNOTATION
from karmada_vc_agent.model.objects import (
    GroupKind,
    Object,
    annotations_of,
    dig,
    drop,
    gvk_of,
    put,
)
from karmada_vc_agent.model.quantity import read

_NOT_CONTENT = ("metadata", "status")

WITHOUT_GENERATION = frozenset(
    GroupKind(group, kind)
    for group, kind in (
        ("", "ConfigMap"),
        ("", "Endpoints"),
        ("", "LimitRange"),
        ("", "Namespace"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("", "ResourceQuota"),
        ("", "Secret"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("coordination.k8s.io", "Lease"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
    )
)
"""Kinds whose changes the server does not count: a mark would say nothing of them."""


def marked(desired: Object, live: Object | None, digest: str) -> Object:
    """Return what to write with its mark; without one where the server counts no changes."""
    desired = unmarked(desired)
    if gvk_of(desired).group_kind in WITHOUT_GENERATION:
        return desired
    generation = 1 if live is None else _next_generation(desired, live)
    if generation is None:
        return desired
    return put(desired, _text(digest, generation), "metadata", "annotations", WRITTEN_ANNOTATION)


def fits(live: Object, digest: str) -> bool:
    """Return whether a digest was written and nothing changed since, by the mark; not ""."""
    generation = dig(live, "metadata", "generation")
    mark = annotations_of(live).get(WRITTEN_ANNOTATION)
    return bool(digest and generation) and mark == _text(digest, generation)


def unmarked(obj: Object) -> Object:
    """Return an object without its mark."""
    return drop(obj, "metadata", "annotations", WRITTEN_ANNOTATION)


def has_content(live: Object, desired: Object) -> bool:
    """Return whether an object has all that another one names beside its metadata and status."""
    return all(
        has(live.get(field), value) for field, value in desired.items() if field not in _NOT_CONTENT
    )


def has(live: Any, desired: Any) -> bool:
    """Return whether a value has all that another one names; what is null or empty names nothing.

    Servers leave out what is zero: where they know zero from nothing, they keep it.
    """
    if live is None:
        return not desired
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(has(live.get(k), v) for k, v in desired.items())
    if isinstance(desired, list):
        return isinstance(live, list) and len(desired) == len(live) and all(map(has, live, desired))
    return desired is None or live == desired or _is_same_quantity(live, desired)


def _next_generation(desired: Object, live: Object) -> int | None:
    """Return a generation that the object has only if no one changes it after this write."""
    now = dig(live, "metadata", "generation")
    if not isinstance(now, int) or not now:
        return None
    return now if has_content(live, desired) else now + 1


def _is_same_quantity(live: Any, desired: Any) -> bool:
    """Return whether a server may have written a quantity in its own way, as `1` for `1000m`."""
    if not isinstance(live, str) or not isinstance(desired, str | int | float):
        return False
    ours, theirs = read(desired), read(live)
    return ours is not None and theirs is not None and ours.nano == theirs.nano


def _text(digest: str, generation: int) -> str:
    return f"{digest}/{generation}"
