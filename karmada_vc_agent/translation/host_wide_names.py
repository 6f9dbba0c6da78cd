"""Names that all virtual clusters of a host share: hosts of traffic, REST paths of Rules.

A controller of the host answers for each of them once, whoever asks for it, so two virtual
clusters with the same one get in each other's way (rewriting-rules 4.1, 4.3).
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    annotations_of,
    gvk_of,
    values_at,
)
from karmada_vc_agent.model.tenancy import Guard
from karmada_vc_agent.model.well_known import GATEWAY_GROUP


class Space(StrEnum):
    """What a shared name is."""

    HOST = "host"
    REST_PATH = "REST path"


class SharedName(NamedTuple):
    """One name, as it is compared: hosts in small letters, paths without slashes around them."""

    space: Space
    name: str


_ROUTE = (Space.HOST, "spec.hostnames[]")

HOLDERS: Mapping[GroupKind, tuple[Space, str]] = {
    GroupKind("networking.k8s.io", "Ingress"): (Space.HOST, "spec.rules[].host"),
    GroupKind(GATEWAY_GROUP, "HTTPRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "GRPCRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "TLSRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "Gateway"): (Space.HOST, "spec.listeners[].hostname"),
    # Only the source of a Rule is served by the host; a target's path is the edge's own.
    GroupKind("rules.kubeedge.io", "Rule"): (Space.REST_PATH, "spec.sourceResource.path"),
}
"""Kind -> what its objects take, and where it stands."""
GUARDS: Mapping[Space, Guard] = {Space.HOST: Guard.SHARED_HOSTS}
"""What refuses a name that another virtual cluster has; one without a guard is only told."""


def holds_names(gvk: GroupVersionKind) -> bool:
    """Whether objects of a kind take shared names."""
    return gvk.group_kind in HOLDERS


def shared_names(obj: Object) -> dict[SharedName, str]:
    """Return the shared names that an object takes, each with the path where it stands first."""
    return dict(reversed(list(_found(obj))))


def index_keys(obj: Object) -> Iterator[str]:
    """Yield the shared names of an object as keys of an index."""
    return map(index_key, shared_names(obj))


def index_key(name: SharedName) -> str:
    """Return a shared name as the key of an index."""
    return f"{name.space} {name.name}"


def _aliases(obj: Object) -> Iterator[tuple[SharedName, str]]:
    """Yield the hosts that annotations of an Ingress add; patterns are for guards.py."""
    for key, value in annotations_of(obj).items():
        if key.endswith("/server-alias"):
            for host in re.split(r"[\s,]+", value.lower()):
                if host and not host.startswith(("~", "*")):
                    yield SharedName(Space.HOST, host), f'metadata.annotations["{key}"]'


def _found(obj: Object) -> Iterator[tuple[SharedName, str]]:
    row = HOLDERS.get(gvk_of(obj).group_kind)
    if row is None:
        return
    space, place = row
    yield from _aliases(obj)
    for path, value in values_at(obj, place):
        name = value.lower() if space is Space.HOST and isinstance(value, str) else value
        name = name.strip("/") if space is Space.REST_PATH and isinstance(name, str) else name
        if isinstance(name, str) and name:
            yield SharedName(space, name), path
