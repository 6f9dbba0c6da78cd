"""Admits virtual clusters of the settings file once `join` gave rights for them."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable

from karmada_vc_agent.kube.access_review import may
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)

LOOK_S = 10.0
"""Interval of reviews for those that wait; rights cannot be watched."""
WARN_AGAIN_S = 3600.0

Ask = Callable[[str], Awaitable[bool]]


async def has_rights(hub: ApiClient, name: str) -> bool:
    """Return whether the agent has its rights for a Cluster. Raises KubeError."""
    return await may(hub, Need("patch", "cluster.karmada.io", "clusters/status", name=name))


class JoinedClusters:
    """Passes on the virtual clusters of the file that may be served.

    One without rights would be registered half, and every request for it would fail. It waits, and
    is served soon after `join`. One that was registered before is admitted: the hub may be away.

    use: takes them. clock: monotonic seconds.
    """

    def __init__(
        self,
        use: Callable[[Iterable[VirtualCluster]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._use = use
        self._clock = clock
        self._declared: tuple[VirtualCluster, ...] = ()
        self._admitted: set[str] = set()
        self._warned_at: dict[str, float] = {}
        self._ask: Ask | None = None
        self._is_registered: Callable[[str], bool] = lambda _: False

    @property
    def waiting(self) -> list[str]:
        """Return the names that wait for `join`."""
        return list(self._warned_at)

    def take(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Have these served; before start() all of them, for nothing is done with them yet."""
        self._declared = tuple(virtual_clusters)
        names = {vc.name for vc in self._declared}
        self._admitted &= names
        self._warned_at = {name: at for name, at in self._warned_at.items() if name in names}
        self._pass_on()

    async def start(self, ask: Ask, is_registered: Callable[[str], bool]) -> None:
        """Review all there are.

        ask: whether there are rights for a name; raises KubeError. is_registered: whether a virtual
        cluster was registered before.
        """
        self._ask, self._is_registered = ask, is_registered
        await self.look(self._declared)
        self._pass_on()

    async def look(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Determine which of these may be served.

        While the hub does not answer they wait. Where it refuses the review they are served: what
        they lack is reported where it is tried.
        """
        if self._ask is None:
            return
        names = [vc.name for vc in virtual_clusters if vc.name not in self._admitted]
        await asyncio.gather(*(self._look_at(name, self._ask) for name in names))

    async def _look_at(self, name: str, ask: Ask) -> None:
        try:
            if not self._is_registered(name) and not await ask(name):
                self._warn(name)
                return
        except ForbiddenError as error:
            _log.debug("Serving without a review of the rights", extra={"reason": str(error)})
        except KubeError:
            return
        self._admitted.add(name)
        self._warned_at.pop(name, None)

    async def run(self) -> None:
        """Review at intervals, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look(self._declared)
            self._pass_on()

    def _pass_on(self) -> None:
        if self._ask is None:
            self._use(self._declared)
        else:
            self._use(vc for vc in self._declared if vc.name in self._admitted)

    def _warn(self, name: str) -> None:
        """Log that one waits, and again after long."""
        at = self._warned_at.get(name)
        if at is None or self._clock() - at >= WARN_AGAIN_S:
            self._warned_at[name] = self._clock()
            _log.warning(
                "Waiting for rights on the hub; run karmada-vc-agent join",
                extra={"virtual_cluster": name},
            )
