"""Causes of failures that Works of one virtual cluster share, and what ends them."""

import re
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from karmada_vc_agent.interpretation.hook_errors import InterpretationError
from karmada_vc_agent.kube.errors import ForbiddenError, NotServedError
from karmada_vc_agent.model.objects import GroupVersionKind

KIND, HOOK, RIGHT, READY, OBJECTS = "kind", "hook", "right", "ready", "objects"


class Cause(NamedTuple):
    """A cause in a virtual cluster: its kind, and the subject.

    KIND: a kind that is not served.
    HOOK: a script or webhook that does not answer.
    RIGHT: (kind, namespace) that may not be written.
    READY: the Cluster.
    OBJECTS: a kind (group/Kind) whose definition cannot change while others have objects of it.
    """

    cluster: str
    what: str
    about: Hashable


_RBAC_DENIAL = re.compile(r' cannot \w+ resource "')


def of_interpretation(cluster: str, error: InterpretationError) -> Cause | None:
    """Return the cause of an interpreter's error; None if it is specific to the object."""
    return Cause(cluster, HOOK, error.hook) if error.hook is not None else None


def of_answer(
    cluster: str, kind: GroupVersionKind, namespace: str, error: Exception
) -> Cause | None:
    """Return the cause of a server's or hook's error; None if it is specific to the object."""
    if isinstance(error, InterpretationError):
        return of_interpretation(cluster, error)
    if isinstance(error, NotServedError):
        return Cause(cluster, KIND, kind)
    if isinstance(error, ForbiddenError):
        # Quotas and policies also answer 403, but for one object and not another.
        is_right = _RBAC_DENIAL.search(str(error)) is not None
        return Cause(cluster, RIGHT, (kind, namespace)) if is_right else None
    return None


def served_now(by_kind: Mapping[GroupVersionKind, object]) -> Callable[[Hashable], bool]:
    """Return a predicate: whether a cause is a kind that is now served."""
    return lambda cause: isinstance(cause, Cause) and cause.what == KIND and cause.about in by_kind


def without_objects(kind: str) -> Callable[[Hashable], bool]:
    """Return a predicate: whether a cause is the objects of a kind, of which one was deleted."""
    return lambda c: isinstance(c, Cause) and c.what == OBJECTS and c.about == kind


def answering(cluster: str, hook: Hashable) -> Callable[[Hashable], bool]:
    """Return a predicate: whether a cause is a hook that answers again."""
    return lambda cause: cause == Cause(cluster, HOOK, hook)
