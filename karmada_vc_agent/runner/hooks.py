"""Hooks by which features take part in what core does; by default each does nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.host_objects import HostObjects, PlacementKeeper
from karmada_vc_agent.work.namespaces.default_objects import NamespaceShares
from karmada_vc_agent.work.noted_objects import NotedObjects
from karmada_vc_agent.work.window_gate import WindowGate

MayHold = Callable[[str], Awaitable[bool]]
"""Returns whether a host namespace may hold objects."""


async def _no_fields(_: VirtualCluster) -> Object:
    return {}


@dataclass(slots=True)
class Hooks:
    """The hooks of one process, set by features in `prepare`.

    window_gate: made of the writer of host objects and MayHold.
    placement_keeper: made of the record of kept workloads. shares: of quotas, by
    namespace. fields_of_new: metadata and spec that a
    new Cluster has besides its own. writes_ready: awaited before the first Work is written.
    """

    window_gate: Callable[[HostObjects, MayHold], WindowGate] = lambda *_: WindowGate()
    placement_keeper: Callable[[NotedObjects], PlacementKeeper | None] = lambda _: None
    shares: NamespaceShares = field(default_factory=NamespaceShares)
    fields_of_new: Callable[[VirtualCluster], Awaitable[Object]] = _no_fields
    writes_ready: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    async def wait_ready(self) -> None:
        """Wait for all that precedes the first Work."""
        for ready in self.writes_ready:
            await ready()
