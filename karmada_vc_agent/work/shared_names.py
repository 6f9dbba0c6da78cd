"""Names on the host that virtual clusters share: hosts."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, labels_of
from karmada_vc_agent.model.virtual_cluster import Guard
from karmada_vc_agent.translation.kind_policy import Code, RefusedError
from karmada_vc_agent.translation.shared_names import holds_names, shared_names
from karmada_vc_agent.work.targets import Dependency

NAME_INDEX = "shared name"
"""Index of the informers of host objects: shared_names()."""

LOOKS, LOOK_EVERY_S = 200, 0.05


@dataclass(eq=False)
class SharedNames:
    """Reports hosts that another virtual cluster uses, and refuses them if so configured.

    An index over our own labelled objects has the users of a name; writes in progress count too.
    The other user is never named (rewriting-rules 4.3, 7; ADR 16). informers: with NAME_INDEX.
    freed: called with the names that became free. refuses: whether a virtual cluster is refused.
    """

    informers: InformerSet
    discovery: Discovery
    freed: Callable[[set[Dependency]], None]
    refuses: Callable[[str], bool] = lambda _cluster: False
    former_names: Callable[[str], Iterable[str]] = lambda _cluster: ()

    def __post_init__(self) -> None:
        self._in_flight: Counter[tuple[str, str]] = Counter()

    async def wait_listed(self, obj: Object) -> None:
        """Wait until all users of the names for which an object may be refused are listed.

        obj: as translated. A restart must not give a name away. Raises RetryError.
        """
        if not self.refuses(labels_of(obj)[CLUSTER_LABEL]) or not shared_names(obj):
            return
        stores = self._stores_of_holders()
        for _ in range(LOOKS):
            if all(store.is_synced for store in stores):
                return
            await asyncio.sleep(LOOK_EVERY_S)
        raise RetryError("refuseSharedHosts waits for the host to list who uses which host name")

    def _stores_of_holders(self) -> list[Store[Object]]:
        """Return a store for each kind that has names; starts missing informers.

        A kind that is served in several versions needs one of them.
        """
        served = {
            gvk.group_kind: resource
            for gvk, resource in self.discovery.served.by_kind.items()
            if holds_names(gvk)
        }
        stores = map(self.informers.store, served.values())
        return [store for store in stores if store is not None]

    @contextmanager
    def taking(self, obj: Object, live: Object | None) -> Iterator[tuple[str, ...]]:
        """Reserve the names of an object while it is written; yields those that others use.

        obj: as translated. live: the informer's object. Raises RefusedError (SharedHostConflict).
        """
        cluster = labels_of(obj)[CLUSTER_LABEL]
        names, had = shared_names(obj), shared_names(live or {}).keys()
        taken = tuple(name for name in names if self._is_taken(name, cluster))
        # Names already in use stay, even if the setting is newer.
        if self.refuses(cluster):
            self._refuse_hosts([name for name in taken if name not in had], names)
        flights = [(name, cluster) for name in names]
        self._in_flight.update(flights)
        freed = names.keys() - had
        try:
            yield taken
            freed = had - names.keys()
        finally:
            self._in_flight.subtract(flights)
            self._in_flight += Counter()  # drops entries at zero
            self.freed({(name,) for name in freed})

    def _is_taken(self, name: str, cluster: str) -> bool:
        if any(each == name and owner != cluster for each, owner in self._in_flight):
            return True
        own = {cluster, *self.former_names(cluster)}
        return any(
            labels_of(holder).get(CLUSTER_LABEL) not in own
            for store in self.informers.stores().values()
            for holder in store.by_index(NAME_INDEX, name)
        )

    def _refuse_hosts(self, taken: Iterable[str], paths: dict[str, str]) -> None:
        host = next(iter(taken), None)
        if host is None:
            return
        detail = (
            f'{paths[host]} "{host}" is used by another virtual cluster; an administrator can '
            f'allow it with "allow: [{Guard.SHARED_HOSTS}]"'
        )
        raise RefusedError(Code.SHARED_HOST_CONFLICT, paths[host], detail, host)
