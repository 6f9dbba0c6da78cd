"""What refusals depend on: a Work is retried when that changes, and at no other time.

Otherwise a tenant who constantly changes namespaces or labels would have the refused Works of all
others checked each time.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from karmada_vc_agent.translation.refusal import Code


class Ground(StrEnum):
    """What a refusal may depend on besides its Work and the settings.

    OWN_*, WINDOW: of the virtual cluster itself. The others are identified by the refusal.
    """

    OWN_NAMESPACES = "own namespaces"
    OWN_NODES = "own nodes"
    HOST_NAMESPACE = "host namespace"
    NODE_GROUP = "node group"
    KIND = "kind"
    WINDOW = "window"


class Dependency(NamedTuple):
    """What a Work waits for. about: a virtual cluster, or the name of the ground's object."""

    ground: Ground
    about: str


_OWN = frozenset((Ground.OWN_NAMESPACES, Ground.OWN_NODES, Ground.WINDOW))

GROUNDS: Mapping[Code, tuple[Ground, ...]] = {
    Code.NODE_SELECTOR_CONFLICT: (),
    Code.NODE_AFFINITY_CONFLICT: (Ground.OWN_NODES,),
    Code.NODE_NAME_FORBIDDEN: (Ground.OWN_NODES,),
    Code.NODE_SCOPE_FORBIDDEN: (Ground.OWN_NODES, Ground.NODE_GROUP),
    Code.NODE_OVERLAP: (Ground.OWN_NODES,),
    Code.NAMESPACE_FORBIDDEN: (),
    Code.NAMESPACE_MISSING: (),
    Code.NAMESPACE_NOT_OWNED: (Ground.HOST_NAMESPACE,),
    Code.NAMESPACE_CLAIM_CONFLICT: (Ground.OWN_NAMESPACES, Ground.HOST_NAMESPACE),
    Code.NAMESPACE_HELD: (Ground.HOST_NAMESPACE,),
    Code.NAMESPACE_TERMINATING: (Ground.OWN_NAMESPACES,),
    Code.MANIFEST_INVALID: (),
    Code.KIND_FORBIDDEN: (Ground.KIND,),
    Code.SHARED_OBJECT_CONFLICT: (),  # reported by SharedObjects; what others have is a Cause
    Code.SHARED_HOST_CONFLICT: (),  # reported by SharedNames
    Code.SUBJECT_FORBIDDEN: (),
    Code.VOLUME_FORBIDDEN: (),
    Code.ADDRESS_FORBIDDEN: (),
    Code.HOST_FORBIDDEN: (),
    Code.RULE_FORBIDDEN: (Ground.KIND,),
    Code.NAME_RESERVED: (),
    Code.REFERENCE_FORBIDDEN: (),
    Code.IMMUTABLE: (),  # a change of the object itself enqueues its Work
    Code.BOUND_EXCEEDED: (),  # reported by WorkBounds
}
"""Code -> what ends it without a change of the Work."""


def depending_on(code: Code, cluster: str, about: str) -> Iterator[Dependency]:
    """Return what a refusal of a virtual cluster depends on; about: the object it refers to."""
    for ground in GROUNDS[code]:
        yield Dependency(ground, cluster if ground in _OWN else about)
