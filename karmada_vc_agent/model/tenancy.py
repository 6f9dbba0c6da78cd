"""The trust between virtual clusters, and what they may do therefore (ADR 23)."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final, Literal

Tenancy = Literal["Shared", "Strict"]
"""Branches of one organisation, or tenants that do not trust each other."""

SHARED: Final = "Shared"
STRICT: Final = "Strict"


class Guard(StrEnum):
    """Refused unless `allow` of a virtual cluster lists it; the values of `allow`."""

    HOST_PATH = "HostPath"
    NETWORK_VOLUMES = "NetworkVolumes"
    UNCLAIMED_VOLUMES = "UnclaimedVolumes"
    DEFAULT_CLASSES = "DefaultClasses"
    CONTROLLER_KINDS = "ControllerKinds"
    EXTERNAL_ADDRESSES = "ExternalAddresses"
    LOAD_BALANCER_ADDRESSES = "LoadBalancerAddresses"
    LOAD_BALANCER_CLASSES = "LoadBalancerClasses"
    NODE_PORTS = "NodePorts"
    POD_ADDRESSES = "PodAddresses"
    FOREIGN_ENDPOINTS = "ForeignEndpoints"
    HOST_ENDPOINTS = "HostEndpoints"
    EXTERNAL_NAMES = "ExternalNames"
    ACCOUNT_TOKENS = "AccountTokens"
    EXTERNAL_DNS = "ExternalDNS"
    WILDCARD_HOSTS = "WildcardHosts"
    SHARED_HOSTS = "SharedHosts"
    PROXY_SNIPPETS = "ProxySnippets"
    SHARED_KINDS = "SharedKinds"


IN_BOTH = frozenset(
    {
        Guard.UNCLAIMED_VOLUMES,
        Guard.DEFAULT_CLASSES,
        Guard.EXTERNAL_ADDRESSES,
        Guard.HOST_ENDPOINTS,
        Guard.PROXY_SNIPPETS,
    }
)
"""Guards that also refuse in Shared: what passes them affects other virtual clusters."""


def refuses(tenancy: str, allow: Collection[str], guard: Guard, kind: str = "") -> bool:
    """Return True if a guard refuses.

    kind: `group/Kind` or `group/Kind/name`; `allow` may list the kind instead of the guard. Its
    name alone gives the name (SharedKinds), and nothing of what the object may say.
    """
    group_kind, name = kind.rpartition("/")[::2] if kind.count("/") > 1 else (kind, "")
    is_given = name and guard is Guard.SHARED_KINDS and kind in allow
    if guard in allow or is_given or (group_kind and group_kind in allow):
        return False
    return tenancy == STRICT or guard in IN_BOTH


def allowance_problem(entry: str) -> str | None:
    """Return what is wrong with an entry of `allow`, or None."""
    group, slash, rest = entry.partition("/")
    kind, _, name = rest.partition("/")
    is_named = not rest.endswith("/") and "/" not in name
    if entry in tuple(Guard) or (group and slash and kind and is_named):
        return None
    return f'is "{entry}", must be one of {", ".join(Guard)}, a group/Kind, or a group/Kind/name'
