"""What one virtual cluster may make the agent keep and do; all others share the same process."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one virtual cluster; 0 = none.

    works: Works, whatever is in them. bytes: of the manifests of all Works together, as JSON.
    manifests_per_work: manifests in one Work. kinds: different kinds that its Works are of, for
    each of which the host is watched. shared_objects: cluster-scoped objects that it owns
    together with others: definitions, classes.
    """

    works: int = 5000
    bytes: int = 64 * 2**20
    manifests_per_work: int = 500
    kinds: int = 100
    shared_objects: int = 200


DEFAULT_BOUNDS = Bounds()

WORKS, BYTES, MANIFESTS, KINDS, SHARED_OBJECTS = (
    "works",
    "bytes",
    "manifestsPerWork",
    "kinds",
    "sharedObjects",
)
"""Names of the bounds in settings, messages and metrics."""
