"""Names, addresses and annotations that all virtual clusters of a host share.

A controller of the host serves each name once, so two virtual clusters with the same one conflict
(rewriting-rules 4.1, 4.3). Guards of Works (guards.py), policies about tenants (access/policies/)
and docs/tenants.md read the tables of annotations.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from karmada_vc_agent.model import kinds
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

_EXTERNAL_DNS = "external-dns.alpha.kubernetes.io/"
DNS_NAMES = (
    f"{_EXTERNAL_DNS}hostname",
    f"{_EXTERNAL_DNS}internal-hostname",
    "coredns.io/hostname",
    *("dns.alpha.kubernetes.io/external", "dns.alpha.kubernetes.io/internal"),
    *("tailscale.com/hostname", "kube-vip.io/loadbalancerHostname", "dns.gardener.cloud/dnsnames"),
)
"""Give the object a name outside of the cluster."""
HOST_KEYS = ("/server-alias", "/redirect-from", "/host-aliases", "cert-manager.io/common-name")
"""Ends of annotations that give an Ingress further hosts."""


def _under(domain: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{domain}/{name}" for name in names)


_CLOUD = "service.beta.kubernetes.io"
LOAD_BALANCER_KEYS = (
    *_under("io.cilium", "lb-ipam-ips", "lb-ipam-sharing-key", "lb-ipam-sharing-cross-namespace"),
    *_under("lbipam.cilium.io", "ips", "sharing-key", "sharing-cross-namespace"),
    *_under("kube-vip.io", "loadbalancerIPs", "requestedIP"),
    *_under("metallb.io", "loadBalancerIPs", "allow-shared-ip", "address-pool"),
    *_under("metallb.universe.tf", "loadBalancerIPs", "allow-shared-ip", "address-pool"),
    *_under("projectcalico.org", "loadBalancerIPs", "ipv4pools", "ipv6pools"),
    *_under("purelb.io", "addresses", "allow-shared-ip", "service-group"),
    *_under("eip.openelb.kubesphere.io", "v1alpha1", "v1alpha2"),
    *_under(
        _CLOUD,
        *(
            f"aws-load-balancer-{name}"
            for name in (
                *("name", "eip-allocations", "private-ipv4-addresses", "ipv6-addresses"),
                *("subnets", "security-groups", "ssl-cert"),
            )
        ),
    ),
    *_under("alb.ingress.kubernetes.io", "group.name", "load-balancer-name", "certificate-arn"),
    *_under("alb.ingress.kubernetes.io", "security-groups", "subnets"),
    *_under(_CLOUD, "azure-load-balancer-ipv4", "azure-load-balancer-ipv6"),
    *_under(_CLOUD, "azure-load-balancer-resource-group", "azure-dns-label-name"),
    *_under(_CLOUD, "azure-pip-name", "azure-pip-name-ipv6", "azure-pip-prefix-id"),
    *_under("networking.gke.io", "load-balancer-ip-addresses"),
    *_under("kubernetes.io", "ingress.global-static-ip-name", "ingress.regional-static-ip-name"),
    *_under("ingress.gcp.kubernetes.io", "pre-shared-cert"),
    *_under("loadbalancer.openstack.org", "load-balancer-id", "load-balancer-address"),
    *_under("loadbalancer.openstack.org", "floating-network-id", "port-id"),
    *_under("kubernetes.digitalocean.com", "load-balancer-id"),
    *_under("load-balancer.hetzner.cloud", "id", "name"),
    *_under(_CLOUD, "alibaba-cloud-loadbalancer-id", "alicloud-loadbalancer-id"),
    *_under(_CLOUD, "scw-loadbalancer-id", "exoscale-loadbalancer-id"),
    *_under(_CLOUD, "linode-loadbalancer-nodebalancer-id"),
    *_under("service.kubernetes.io", "tke-existed-lbid"),
    *_under("kubernetes.io", "ingress.existLbId", "elb.id", "elb.ip"),
    *_under("k8s.cloudscale.ch", "loadbalancer-uuid"),
    *_under("service.antrea.io", "external-ip-pool", "allow-shared-load-balancer-ip"),
    *_under("ingress.cilium.io", "host-listener-port", "insecure-node-port", "secure-node-port"),
)
"""Choose an address, a port of all nodes, a load balancer, its network or its certificate, or share
those of others."""

POD_ADDRESSES = (
    *_under("cni.projectcalico.org", "ipAddrs", "ipAddrsNoIpam", "floatingIPs", "hwAddr"),
    *_under("cni.projectcalico.org", "ipv4pools", "ipv6pools", "allowedSourcePrefixes"),
    *_under("egress.projectcalico.org", "selector", "namespaceSelector"),
    *_under("ipam.cilium.io", "ip-pool", "ipv4-pool", "ipv6-pool"),
    *_under("k8s.v1.cni.cncf.io", "networks"),
    *_under("v1.multus-cni.io", "default-network"),
    # Of Kube-OVN: under `ovn`, or `<network>.<namespace>`.
    *_under("kubernetes.io", "ip_address", "ip_pool", "logical_switch", "mac_address", "routes"),
    *_under("ovn.kubernetes.io", "vip", "eip", "snat", "aaps"),
    *_under("k8s.ovn.org", "routing-namespaces", "routing-network"),
    *_under("ipam.antrea.io", "ippools", "pod-ips"),
    *_under("ipam.spidernet.io", "ippool", "ippools", "subnet", "subnets"),
)
"""Ends of keys: choose the address or the network of a pod, also of others; or what it routes."""

PROXY_CALLS = (
    *("/auth-url", "/auth-uri", "/mirror-target", "/mirror-host", "/external-auth-url"),
    *("/global-rate-limit-memcached-host", "/router.middlewares", "/router.tls.options"),
    *("/service.serverstransport", "/svc-namespace"),
)
"""Ends of keys: addresses that a shared proxy calls, or its objects, of any namespace."""

COPIES = (
    *("kubed.appscode.com/sync", "reflector.v1.k8s.emberstack.com/"),
    "replicator.v1.mittwald.de/",
)
"""Beginnings of keys: a controller copies the object into namespaces of the host, or from there."""

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
