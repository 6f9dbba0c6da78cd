"""Names, addresses and annotations that all virtual clusters of a host share.

A controller of the host serves each name once, so two virtual clusters with the same one conflict
(rewriting-rules 4.1, 4.3). Guards of Works (guards.py), policies about tenants (access/policies/)
and docs/tenants.md read the tables of annotations, which shared_annotations.yaml has.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from karmada_vc_agent.model import kinds, yaml_text
from karmada_vc_agent.model.kinds import GATEWAY_GROUP
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    annotations_of,
    gvk_of,
    values_at,
)
from karmada_vc_agent.model.virtual_cluster import Guard


def _annotations() -> Iterator[tuple[str, ...]]:
    """Yield each table of shared_annotations.yaml; an item is a key, or a domain with names."""
    text = Path(__file__).with_name("shared_annotations.yaml").read_bytes()
    for rows in yaml_text.load(text).values():
        parts = ([row] if isinstance(row, str) else _under(row) for row in rows)
        yield tuple(chain.from_iterable(parts))


def _under(row: Mapping[str, Iterable[str]]) -> Iterator[str]:
    return (f"{domain}/{name}" for domain, names in row.items() for name in names)


DNS_NAMES, HOST_KEYS, LOAD_BALANCER_KEYS, POD_ADDRESSES, PROXY_CALLS, COPIES = _annotations()

OWN_SOURCES = frozenset(
    (
        "name",
        *("configMap", "downwardAPI", "emptyDir", "ephemeral", "gitRepo", "hostPath", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    )
)
"""Keys of volumes of pods: the name, and what is of the pod's node or namespace or a registry."""
NETWORK_SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc"),
    *("flexVolume", "flocker", "gcePersistentDisk", "glusterfs", "iscsi", "nfs"),
    *("photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos"),
    "vsphereVolume",
)
"""All others that the API server knows: a policy cannot ask for what it does not name."""


class Space(StrEnum):
    """The kind of a shared name."""

    HOST = "host"
    REST_PATH = "REST path"


class SharedName(NamedTuple):
    """One name, normalised for comparison: hosts in lower case, paths without outer slashes."""

    space: Space
    name: str


_TLS_HOSTS = "spec.tls[].hosts[]"
"""Of an Ingress: issuers make a certificate for them."""
_ROUTE = (Space.HOST, "spec.hostnames[]")
_LISTENERS = (Space.HOST, "spec.listeners[].hostname")

HOLDERS: Mapping[GroupKind, tuple[Space, str]] = {
    GroupKind("networking.k8s.io", "Ingress"): (Space.HOST, "spec.rules[].host"),
    GroupKind(GATEWAY_GROUP, "HTTPRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "GRPCRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "TLSRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "Gateway"): _LISTENERS,
    GroupKind(GATEWAY_GROUP, "ListenerSet"): _LISTENERS,
    kinds.LISTENER_SET_BEFORE: _LISTENERS,
    # Only the source of a Rule is served by the host; the path of a target is served by the edge.
    GroupKind("rules.kubeedge.io", "Rule"): (Space.REST_PATH, "spec.sourceResource.path"),
}
"""Kind -> what its objects use, and the path."""
GUARD_OF_SPACE: Mapping[Space, Guard] = {Space.HOST: Guard.SHARED_HOSTS}
"""What refuses a name that another virtual cluster uses; without a guard it is only reported."""


def holds_names(gvk: GroupVersionKind) -> bool:
    """Return whether objects of a kind use shared names."""
    return gvk.group_kind in HOLDERS


def shared_names(obj: Object) -> dict[SharedName, str]:
    """Return the shared names that an object uses, each with the path of its first occurrence."""
    return dict(reversed(list(_names_in(obj))))


def index_keys(obj: Object) -> Iterator[str]:
    """Yield the shared names of an object as index keys."""
    return map(index_key, shared_names(obj))


def index_key(name: SharedName) -> str:
    """Return a shared name as an index key."""
    return f"{name.space} {name.name}"


def _aliases(obj: Object) -> Iterator[tuple[SharedName, str]]:
    """Yield the hosts that annotations of an Ingress add; wildcards are left to guards.py."""
    for key, value in annotations_of(obj).items():
        if key.endswith(HOST_KEYS):
            for host in re.split(r"[\s,]+", value.lower()):
                if host and not host.startswith(("~", "*", ".")):
                    yield SharedName(Space.HOST, host), f'metadata.annotations["{key}"]'


def _names_in(obj: Object) -> Iterator[tuple[SharedName, str]]:
    row = HOLDERS.get(gvk_of(obj).group_kind)
    if row is None:
        return
    space, place = row
    yield from _aliases(obj)
    for path, value in chain(values_at(obj, place), values_at(obj, _TLS_HOSTS)):
        name = value.lower() if space is Space.HOST and isinstance(value, str) else value
        name = name.strip("/") if space is Space.REST_PATH and isinstance(name, str) else name
        if isinstance(name, str) and name:
            yield SharedName(space, name), path
