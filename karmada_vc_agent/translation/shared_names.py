"""Hosts and annotations that all virtual clusters of a host share (4.1, 4.3)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

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


_TLS_HOSTS = "spec.tls[].hosts[]"
"""Of an Ingress: issuers make a certificate for them."""
_ROUTE, _LISTENERS = "spec.hostnames[]", "spec.listeners[].hostname"

HOLDERS: Mapping[GroupKind, str] = {
    GroupKind("networking.k8s.io", "Ingress"): "spec.rules[].host",
    GroupKind(GATEWAY_GROUP, "HTTPRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "GRPCRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "TLSRoute"): _ROUTE,
    GroupKind(GATEWAY_GROUP, "Gateway"): _LISTENERS,
    GroupKind(GATEWAY_GROUP, "ListenerSet"): _LISTENERS,
    kinds.LISTENER_SET_BEFORE: _LISTENERS,
}
"""Kind -> the path of the hosts that its objects use."""


def holds_names(gvk: GroupVersionKind) -> bool:
    """Return whether objects of a kind use shared names."""
    return gvk.group_kind in HOLDERS


def shared_names(obj: Object) -> dict[str, str]:
    """Return the hosts that an object uses, in lower case, each with its first path."""
    return dict(reversed(list(_names_in(obj))))


def _names_in(obj: Object) -> Iterator[tuple[str, str]]:
    place = HOLDERS.get(gvk_of(obj).group_kind)
    if place is None:
        return
    for key, value in annotations_of(obj).items():
        if key.endswith(HOST_KEYS):
            for host in re.split(r"[\s,]+", value.lower()):
                if host and not host.startswith(("~", "*", ".")):  # guards.py has wildcards
                    yield host, f'metadata.annotations["{key}"]'
    for path, value in chain(values_at(obj, place), values_at(obj, _TLS_HOSTS)):
        if value and isinstance(value, str):
            yield value.lower(), path
