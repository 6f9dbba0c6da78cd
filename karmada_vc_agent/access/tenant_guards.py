"""The guards of Works that policies apply to tenants: by profile and `allow`, as guards.py does.

That is written into the policies, which cannot read settings.
"""

from collections.abc import Iterable

from karmada_vc_agent.model import tenancy
from karmada_vc_agent.model.tenancy import Guard
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_SERVICES, _INGRESSES, _PODS, _ROUTES = "services", "ingresses", "pods", "routes"
"""The last: all kinds of Gateway API and external-dns; `allow` names guards for them, no kinds."""
_KINDS = {_SERVICES: "/Service", _INGRESSES: "networking.k8s.io/Ingress", _PODS: "/Pod"}
_HOLDS = (
    (Guard.LOAD_BALANCER_ADDRESSES, _SERVICES),
    (Guard.LOAD_BALANCER_ADDRESSES, _INGRESSES),
    (Guard.LOAD_BALANCER_CLASSES, _SERVICES),
    (Guard.EXTERNAL_NAMES, _SERVICES),
    (Guard.FOREIGN_ENDPOINTS, _SERVICES),
    (Guard.FOREIGN_ENDPOINTS, _INGRESSES),
    (Guard.EXTERNAL_DNS, _SERVICES),
    (Guard.EXTERNAL_DNS, _INGRESSES),
    (Guard.EXTERNAL_DNS, _PODS),
    (Guard.WILDCARD_HOSTS, _INGRESSES),
    (Guard.NETWORK_VOLUMES, _PODS),
    (Guard.POD_ADDRESSES, _PODS),
    (Guard.LOAD_BALANCER_ADDRESSES, _ROUTES),
    (Guard.EXTERNAL_DNS, _ROUTES),
    (Guard.WILDCARD_HOSTS, _ROUTES),
    (Guard.CONTROLLER_KINDS, _ROUTES),
)
"""Node ports are missing: of those that a Service has, the API server chose some itself."""
_ALLOWANCES = ((Guard.EXTERNAL_ADDRESSES, _SERVICES), (Guard.PROXY_SNIPPETS, _INGRESSES))
"""Denied to all tenants without an exception in `allow`."""


def holds(vc: VirtualCluster, profile: str) -> set[str]:
    """Return what tenants of a virtual cluster may not write, in the format of PolicyOwner.held."""
    return {
        f"{guard}/{plural}/{vc.name}"
        for guard, plural in _HOLDS
        if tenancy.refuses(profile, vc.allow, guard, _KINDS.get(plural, ""))
    }


def allowances(vc: VirtualCluster, profile: str) -> set[str]:
    """Return what tenants of a virtual cluster may write, in the format of PolicyOwner.allowed."""
    return {
        f"{guard}/{plural}/{vc.name}"
        for guard, plural in _ALLOWANCES
        if not tenancy.refuses(profile, vc.allow, guard, _KINDS.get(plural, ""))
    }


def about(entries: Iterable[str], cluster: str) -> set[str]:
    """Return the entries of PolicyOwner.held or .allowed for a virtual cluster."""
    return {each for each in entries if cluster_of(each) == cluster}


def cluster_of(entry: str) -> str:
    """Return the virtual cluster of an entry of PolicyOwner.held or .allowed."""
    return entry.rpartition("/")[2]
