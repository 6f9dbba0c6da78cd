"""The claimed namespaces of one virtual cluster, with a way back that needs no search."""

from collections.abc import Iterator, Mapping, MutableMapping

from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace


class ClaimedNamespaces(MutableMapping[VirtualNamespace, HostNamespace]):
    """Virtual name -> host namespace; each change drops the way back."""

    def __init__(self, claims: Mapping[VirtualNamespace, HostNamespace] | None = None) -> None:
        self._hosts = dict(claims or {})
        self._by_host: dict[HostNamespace, VirtualNamespace] | None = None

    def __getitem__(self, virtual: VirtualNamespace) -> HostNamespace:
        """Return the host namespace of a virtual one."""
        return self._hosts[virtual]

    def __iter__(self) -> Iterator[VirtualNamespace]:
        """Iterate over the virtual names."""
        return iter(self._hosts)

    def __len__(self) -> int:
        """Return the number of claims."""
        return len(self._hosts)

    def __setitem__(self, virtual: VirtualNamespace, host: HostNamespace) -> None:
        """Enter a claim."""
        self._hosts[virtual] = host
        self._by_host = None

    def __delitem__(self, virtual: VirtualNamespace) -> None:
        """Remove a claim."""
        del self._hosts[virtual]
        self._by_host = None

    @property
    def by_host(self) -> Mapping[HostNamespace, VirtualNamespace]:
        """Return the first virtual name of each host namespace; built after a change."""
        if self._by_host is None:
            self._by_host = {host: virtual for virtual, host in reversed(self._hosts.items())}
        return self._by_host


def by_host(
    claims: Mapping[VirtualNamespace, HostNamespace],
) -> Mapping[HostNamespace, VirtualNamespace]:
    """Return host namespace -> virtual name."""
    indexed = claims if isinstance(claims, ClaimedNamespaces) else ClaimedNamespaces(claims)
    return indexed.by_host
