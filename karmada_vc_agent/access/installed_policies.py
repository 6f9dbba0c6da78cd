"""The admission policies of an agent: the desired ones, compared with the live ones."""

from collections.abc import Iterable, Iterator, Mapping

from karmada_vc_agent.access.admission import policies
from karmada_vc_agent.access.policy_owner import (
    ANY_CLUSTER,
    GROUP,
    MUTATING,
    VERSIONS,
    PolicyOwner,
    group_labels,
    networks_of_pods,
    renames_of,
)
from karmada_vc_agent.access.tenant_guards import about, allowances, holds
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


def served_versions(served: ServedApis) -> dict[str, str]:
    """Return the version to use of each kind of policy that the host serves."""
    served_by_kind = {}
    for kind, versions in VERSIONS.items():
        for version in versions:
            if GroupVersionKind(GROUP, version, kind) in served.by_kind:
                served_by_kind[kind] = version
                break
    return served_by_kind


def wanted_policies(owner: PolicyOwner, versions: Mapping[str, str]) -> list[Object]:
    """Return all policies and bindings for a host, in the order in which to write them."""
    return policies(owner, versions.get(MUTATING, ""))


def unknown_to(
    owner: PolicyOwner, user: str, clusters: Mapping[str, VirtualCluster], tenancy: str
) -> Iterator[str]:
    """Yield what policies lack of the identity of the agent, what it serves and allows."""
    if owner.user != user:
        yield f"hold {owner.user}, but the agent is {user} on the host"
    names = [name for name in clusters if name not in owner.clusters]
    if names and ANY_CLUSTER not in owner.clusters:
        yield f"do not know {', '.join(names)}"
    renames = {pair for vc in clusters.values() for pair in renames_of(vc)}
    if (unknown := sorted(renames.difference(owner.renames))) and ANY_CLUSTER not in owner.clusters:
        yield f"do not know the former names in {', '.join(unknown)}"
    keys = {key for vc in clusters.values() for key in group_labels(vc)}
    if unguarded := sorted(keys.difference(owner.group_labels)):
        yield f"leave Node label {', '.join(unguarded)} to the nodes"
    loose, tight = [], []
    for name, vc in clusters.items():
        held, desired = about(owner.held, name), holds(vc, tenancy)
        allowed, may = about(owner.allowed, name), allowances(vc, tenancy)
        if desired - held or allowed - may:
            loose.append(name)
        if held - desired or may - allowed:
            tight.append(name)
    if loose:
        yield f"let tenants of {', '.join(loose)} write what their Works are refused"
    if tight:
        yield f"refuse tenants of {', '.join(tight)} what the settings allow"


def other_networks(owner: PolicyOwner, tenancy: str, pod_cidrs: Iterable[str]) -> Iterator[str]:
    """Yield that policies compare addresses of pods with other networks than the settings."""
    if {*owner.pod_cidrs} != {*networks_of_pods(tenancy, pod_cidrs)}:
        yield "compare addresses of pods with other podCIDRs"


def resource_of(served: ServedApis, policy: Object) -> Resource:
    """Return where a policy or binding lives; a server that has the one has the other."""
    gvk = gvk_of(policy)
    plural = f"{gvk.kind.removesuffix('y').lower()}ies"
    if gvk.kind.endswith("Binding"):
        plural = f"{gvk.kind.lower()}s"
    return served.by_kind.get(gvk) or Resource(gvk, plural, namespaced=False)
