"""Which virtual clusters of the settings file may be served: those that `join` gave rights for.

One without rights would be registered half, and every request for it would fail. It waits, and is
served soon after `join`. One that was registered before is not asked about: the hub may be away.
"""

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
"""How often the hub is asked about those that wait; nobody tells of rights."""
TOLD_AGAIN_S = 3600.0

Ask = Callable[[str], Awaitable[bool]]


async def has_rights(hub: ApiClient, name: str) -> bool:
    """Whether the agent has its rights for a Cluster. Raises KubeError."""
    return await may(hub, Need("patch", "cluster.karmada.io", "clusters/status", name=name))


class JoinedClusters:
    """Passes on the virtual clusters of the file that may be served.

    use: takes them. clock: monotonic seconds.
    """

    def __init__(
        self,
        use: Callable[[Iterable[VirtualCluster]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._use = use
        self._clock = clock
        self._wanted: tuple[VirtualCluster, ...] = ()
        self._admitted: set[str] = set()
        self._told: dict[str, float] = {}
        self._ask: Ask | None = None
        self._is_known: Callable[[str], bool] = lambda _: False

    @property
    def waiting(self) -> list[str]:
        """Return the names that wait for `join`."""
        return list(self._told)

    def take(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Have these served; before start() all of them, for nothing is done with them yet."""
        self._wanted = tuple(virtual_clusters)
        names = {vc.name for vc in self._wanted}
        self._admitted &= names
        self._told = {name: at for name, at in self._told.items() if name in names}
        self._pass_on()

    async def start(self, ask: Ask, is_known: Callable[[str], bool]) -> None:
        """Ask about all there are.

        ask: whether there are rights for a name; raises KubeError. is_known: whether a virtual
        cluster was registered before.
        """
        self._ask, self._is_known = ask, is_known
        await self.look(self._wanted)
        self._pass_on()

    async def look(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Find out which of these may be served.

        While the hub does not answer they wait. Where it may not be asked they are served: what
        they lack is told where it is tried.
        """
        if self._ask is None:
            return
        names = [vc.name for vc in virtual_clusters if vc.name not in self._admitted]
        await asyncio.gather(*(self._look_at(name, self._ask) for name in names))

    async def _look_at(self, name: str, ask: Ask) -> None:
        try:
            if not self._is_known(name) and not await ask(name):
                self._tell(name)
                return
        except ForbiddenError as error:
            _log.debug("Serving without knowing the rights", extra={"reason": str(error)})
        except KubeError:
            return
        self._admitted.add(name)
        self._told.pop(name, None)

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look(self._wanted)
            self._pass_on()

    def _pass_on(self) -> None:
        if self._ask is None:
            self._use(self._wanted)
        else:
            self._use(vc for vc in self._wanted if vc.name in self._admitted)

    def _tell(self, name: str) -> None:
        """Log that one waits, and again after long."""
        at = self._told.get(name)
        if at is None or self._clock() - at >= TOLD_AGAIN_S:
            self._told[name] = self._clock()
            _log.warning(
                "Waiting for rights on the hub; run karmada-vc-agent join",
                extra={"virtual_cluster": name},
            )
