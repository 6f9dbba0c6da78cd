"""Limits of what one virtual cluster may cost the agent, which all share."""

from typing import Annotated

import msgspec

from karmada_vc_agent.model.quantity import Size
from karmada_vc_agent.model.setting import Help, Range, Unit

_RANGE = Range(zero="no bound")
_Bound = Annotated[int, _RANGE]


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Bounds of one virtual cluster; 0 = none."""

    works: Annotated[_Bound, Help("Number of Works.")] = 5000
    bytes: Annotated[
        Size,
        _RANGE,
        Unit("bytes"),
        Help(
            "Memory for the manifests of all Works, and as much again for objects on the host and "
            "what Works report of them; a manifest takes several times its size as JSON."
        ),
    ] = Size(32 * 2**20)
    manifests_per_work: Annotated[_Bound, Help("Number of manifests in one Work.")] = 500
    kinds: Annotated[
        _Bound, Help("Number of kinds in the Works; the agent watches the host for each of them.")
    ] = 100
    shared_objects: Annotated[
        _Bound,
        Help(
            "Number of cluster-scoped objects shared with other virtual clusters, such as CRDs "
            "and classes."
        ),
    ] = 200


WORKS, BYTES, HOST_BYTES, MANIFESTS, KINDS, SHARED_OBJECTS = (
    "works",
    "bytes",
    "hostBytes",
    "manifestsPerWork",
    "kinds",
    "sharedObjects",
)
"""Names of the bounds in settings, messages and metrics; HOST_BYTES is `bytes` once more."""
