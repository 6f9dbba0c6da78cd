"""What one virtual cluster may make the agent keep and do; all others share the same process."""

from typing import Annotated

import msgspec

from karmada_vc_agent.model.quantity import Size
from karmada_vc_agent.model.setting import Help, Range, Unit

_RANGE = Range(zero="no bound")
_Bound = Annotated[int, _RANGE]


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Bounds of one virtual cluster; 0 = none."""

    works: Annotated[_Bound, Help("Works, whatever is in them.")] = 5000
    bytes: Annotated[
        Size, _RANGE, Unit("bytes"), Help("Size of the manifests of all Works together, as JSON.")
    ] = Size(64 * 2**20)
    manifests_per_work: Annotated[_Bound, Help("Manifests in one Work.")] = 500
    kinds: Annotated[
        _Bound, Help("Kinds that the Works contain; the host is watched for each of them.")
    ] = 100
    shared_objects: Annotated[
        _Bound, Help("Cluster-scoped objects owned together with others: definitions, classes.")
    ] = 200


WORKS, BYTES, MANIFESTS, KINDS, SHARED_OBJECTS = (
    "works",
    "bytes",
    "manifestsPerWork",
    "kinds",
    "sharedObjects",
)
"""Names of the bounds in settings, messages and metrics."""
