"""How far virtual clusters trust each other, and what they may do therefore (ADR 23)."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final, Literal, get_args

Tenancy = Literal["Shared", "Strict"]
"""Branches of one organisation, or tenants that do not trust each other."""

SHARED: Final = "Shared"
STRICT: Final = "Strict"
TENANCIES: tuple[Tenancy, ...] = get_args(Tenancy)


class Guard(StrEnum):
    """What is refused unless `allow` of a virtual cluster lists it; the values of `allow`."""

    HOST_PATH = "HostPath"
    NETWORK_VOLUMES = "NetworkVolumes"
    UNCLAIMED_VOLUMES = "UnclaimedVolumes"
    DEFAULT_CLASSES = "DefaultClasses"
    CONTROLLER_KINDS = "ControllerKinds"
    EXTERNAL_ADDRESSES = "ExternalAddresses"
    LOAD_BALANCER_ADDRESSES = "LoadBalancerAddresses"
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
    """Whether a guard refuses.

    kind: `group/Kind` or `group/Kind/name`; `allow` may list either instead of the guard.
    """
    if guard in allow or kind.rpartition("/")[0] in allow or (kind and kind in allow):
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
