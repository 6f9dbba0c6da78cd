"""The claimed namespaces of one virtual cluster, with a way back that needs no search."""

from collections import UserDict
from collections.abc import Mapping

from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace


class ClaimedNamespaces(UserDict[VirtualNamespace, HostNamespace]):
    """Virtual name -> host namespace; each change drops the way back."""

    def __init__(self, claims: Mapping[VirtualNamespace, HostNamespace] | None = None) -> None:
        super().__init__()
        self.data = dict(claims or {})  # `update` would be five times as slow
        self._by_host: dict[HostNamespace, VirtualNamespace] | None = None

    def __setitem__(self, virtual: VirtualNamespace, host: HostNamespace) -> None:
        """Enter a claim."""
        super().__setitem__(virtual, host)
        self._by_host = None

    def __delitem__(self, virtual: VirtualNamespace) -> None:
        """Remove a claim."""
        super().__delitem__(virtual)
        self._by_host = None

    @property
    def by_host(self) -> Mapping[HostNamespace, VirtualNamespace]:
        """Return the first virtual name of each host namespace; built after a change."""
        if self._by_host is None:
            self._by_host = {host: virtual for virtual, host in reversed(self.data.items())}
        return self._by_host


def by_host(
    claims: Mapping[VirtualNamespace, HostNamespace],
) -> Mapping[HostNamespace, VirtualNamespace]:
    """Return host namespace -> virtual name."""
    indexed = claims if isinstance(claims, ClaimedNamespaces) else ClaimedNamespaces(claims)
    return indexed.by_host
