"""What a manifest that could not be applied waits for.

What fails for anything but its own content is retried when its virtual cluster changes, or a kind,
host namespace or NodeGroup that it names.
"""

import re
from collections.abc import Hashable
from typing import NamedTuple

from karmada_vc_agent.interpretation.hook_errors import InterpretationError
from karmada_vc_agent.kube.errors import ForbiddenError, NotServedError
from karmada_vc_agent.model.objects import GroupVersionKind
from karmada_vc_agent.translation.refusal import Code

OF_CONTENT = frozenset(
    {
        *(Code.NODE_SELECTOR_CONFLICT, Code.NAMESPACE_FORBIDDEN, Code.NAMESPACE_MISSING),
        *(Code.MANIFEST_INVALID, Code.SUBJECT_FORBIDDEN, Code.VOLUME_FORBIDDEN),
        *(Code.ADDRESS_FORBIDDEN, Code.HOST_FORBIDDEN, Code.NAME_RESERVED),
        Code.REFERENCE_FORBIDDEN,
        Code.SHARED_OBJECT_CONFLICT,  # SharedObjects enqueue; some name a kind, see `failure.py`
        Code.SHARED_HOST_CONFLICT,  # SharedNames enqueue
        Code.IMMUTABLE,  # a change of the object itself enqueues its Work
        Code.BOUND_EXCEEDED,  # WorkBounds enqueue
    }
)
"""Refusals that end only with another Work or other settings; all others wait."""


class Named(NamedTuple):
    """A host namespace, NodeGroup or kind: group/version/Kind, or group/Kind for its objects."""

    name: str


class HookDependency(NamedTuple):
    """A script or webhook that does not answer a virtual cluster; no change reports it."""

    cluster: str
    hook: Hashable


class Right(NamedTuple):
    """A kind that may not be written in a virtual namespace; no change reports a grant."""

    kind: GroupVersionKind
    namespace: str


Dependency = str | Named | HookDependency | Right
"""What may change; str: a virtual cluster."""


def kind_of(gvk: GroupVersionKind) -> Named:
    """Return the dependency on a kind that is served."""
    return Named("/".join(gvk))


def of_interpretation(cluster: str, error: InterpretationError) -> HookDependency | None:
    """Return what an interpreter's error depends on; None if it is specific to the object."""
    return HookDependency(cluster, error.hook) if error.hook is not None else None


_RBAC_DENIAL = re.compile(r' cannot \w+ resource "')


def of_answer(
    cluster: str, kind: GroupVersionKind, namespace: str, error: Exception
) -> Dependency | None:
    """Return what an error depends on; None if it is specific to the object."""
    if isinstance(error, InterpretationError):
        return of_interpretation(cluster, error)
    if isinstance(error, NotServedError):
        return kind_of(kind)
    # Quotas and policies also answer 403, but for one object and not another.
    if isinstance(error, ForbiddenError) and _RBAC_DENIAL.search(str(error)):
        return Right(kind, namespace)
    return None
