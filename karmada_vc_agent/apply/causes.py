"""Why Works fail: what many of one virtual cluster fail for together, and what heals it."""

import re
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from karmada_vc_agent.interpretation.errors import InterpretationError
from karmada_vc_agent.kube.errors import ForbiddenError
from karmada_vc_agent.model.objects import GroupVersionKind

KIND, HOOK, RIGHT, READY, OBJECTS = "kind", "hook", "right", "ready", "objects"


class Cause(NamedTuple):
    """What fails in a virtual cluster: what it is, and about which one.

    KIND: a kind that is not served. HOOK: a script or webhook that does not answer. RIGHT:
    (kind, namespace) that may not be written. READY: the Cluster. OBJECTS: a kind (group/Kind)
    whose definition stays as it is while others have objects of it.
    """

    cluster: str
    what: str
    about: Hashable


_RBAC_DENIAL = re.compile(r' cannot \w+ resource "')


def of_interpretation(cluster: str, error: InterpretationError) -> Cause | None:
    """Return the cause of what an interpreter level said; None where it is about the object."""
    return Cause(cluster, HOOK, error.hook) if error.hook is not None else None


def of_answer(
    cluster: str, kind: GroupVersionKind, namespace: str, error: Exception
) -> Cause | None:
    """Return the cause of what a server or a hook said; None where it is about the object."""
    if isinstance(error, InterpretationError):
        return of_interpretation(cluster, error)
    if isinstance(error, ForbiddenError):
        # Quotas and policies forbid, too, but one object and not another.
        is_right = _RBAC_DENIAL.search(str(error)) is not None
        return Cause(cluster, RIGHT, (kind, namespace)) if is_right else None
    return None


def served_now(by_kind: Mapping[GroupVersionKind, object]) -> Callable[[Hashable], bool]:
    """Return whether a cause is a kind that is served by now."""
    return lambda cause: isinstance(cause, Cause) and cause.what == KIND and cause.about in by_kind


def without_objects(kind: str) -> Callable[[Hashable], bool]:
    """Return whether a cause is the objects of a kind, of which there is one less by now."""
    return lambda c: isinstance(c, Cause) and c.what == OBJECTS and c.about == kind


def answering(cluster: str, hook: Hashable) -> Callable[[Hashable], bool]:
    """Return whether a cause is a hook that answers by now."""
    return lambda cause: cause == Cause(cluster, HOOK, hook)
