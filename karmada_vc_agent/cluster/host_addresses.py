"""Addresses of the host's machines: its nodes, and its API server."""

from collections.abc import Callable, Iterable, Iterator

from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.addresses import plain_address
from karmada_vc_agent.model.core import Node

ADDRESS_INDEX = "address"


def addresses_of(node: Node) -> Iterator[str]:
    """Return the addresses of a node; an index of their store."""
    for each in node.status.addresses:
        address = plain_address(each.address)
        if address is not None:
            yield str(address)


class HostAddresses:
    """Addresses of machines other than the virtual cluster's own.

    A node reports its addresses itself, whatever they are. So one that several report belongs to
    the first of them, as long as that one reports it; to none of those of the first list.

    nodes: with ADDRESS_INDEX. api_servers: names and addresses by which the agent reaches the API
    server of the host. owner_of: the virtual cluster of a node.
    """

    def __init__(
        self,
        nodes: Store[Node],
        api_servers: Iterable[str | None],
        owner_of: Callable[[str], str | None],
    ) -> None:
        self._nodes = nodes
        addresses = (plain_address(each) for each in api_servers if each)
        self._api_servers = frozenset(str(each) for each in addresses if each is not None)
        self._owner_of = owner_of
        self._first: dict[str, str] = {}
        """Address -> the node that was alone with it."""
        nodes.add_handler(self._note)

    def is_foreign(self, address: str, cluster: str) -> bool:
        """Return True for an address of the API server, or of a node of others."""
        plain = plain_address(address)
        if plain is None:
            return False
        if str(plain) in self._api_servers:
            return True
        if self._owner_of(self._first.get(str(plain), "")) == cluster:
            return False
        nodes = self._nodes.by_index(ADDRESS_INDEX, str(plain))
        return any(self._owner_of(node.metadata.name) != cluster for node in nodes)

    def _note(self, old: Node | None, new: Node | None) -> None:
        before, after = (set(addresses_of(each)) if each else set() for each in (old, new))
        for address in before - after:
            if old is not None and self._first.get(address) == old.metadata.name:
                del self._first[address]
        for address in after - before:
            if new is not None and len(self._nodes.by_index(ADDRESS_INDEX, address)) == 1:
                self._first[address] = new.metadata.name
            elif not self._nodes.is_synced:
                self._first.pop(address, None)
