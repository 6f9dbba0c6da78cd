"""The admission policies of an agent, compared with live ones, and their probes.

Each file of policies/ has a policy, and its binding after it: a policy without one has no effect.
Expressions run on kube-apiserver 1.34.4. How to add one: docs/adr/0071.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any

from karmada_vc_agent.access.policy_owner import (
    ANY_CLUSTER,
    GROUP,
    MUTATING,
    VERSIONS,
    PolicyOwner,
    allowances,
    entries_of,
    group_labels,
    held_by,
    networks_of_pods,
    renames_of,
)
from karmada_vc_agent.access.templates import cel_list, cel_text, document, fragments, objects
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.model.core import OF_POD
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL, DOMAIN, MEMBERSHIP_LABEL
from karmada_vc_agent.model.karmada import KARMADAS_DOMAIN
from karmada_vc_agent.model.kinds import (
    SELECTED_NODE_ANNOTATION,
    SELECTED_NODE_BEFORE,
    TENANT_ROLES,
)
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of
from karmada_vc_agent.model.virtual_cluster import Guard, VirtualCluster
from karmada_vc_agent.translation import guards, references, shared_names
from karmada_vc_agent.translation.kind_policy import IMPERSONATOR
from karmada_vc_agent.translation.names import ALWAYS_FORBIDDEN, NamespaceTemplate, host_name
from karmada_vc_agent.translation.namespace_defaults import BINDING_NAMES
from karmada_vc_agent.translation.own_steps import DECISIVE_KEYS, PLAIN_KEYS

_POLICIES = (
    "agent-confines",  # the first: it has the input of all as an annotation
    "account-tokens",
    "anchor-objects",
    "group-labels",
    "node-devices",
    "node-events",
    "node-pods",
    "own-objects",
    "pod-addresses",
    "pod-binding",
    "pod-limits",
    "shared-proxies",
    "shared-routes",
    "volume-node",
    "gateway-confines",
    "namespace-claims",
    "pod-placement",
)
_TABLES = {
    "aliases": guards.ALIASES,
    "binding_names": BINDING_NAMES,
    "decisions": tuple(sorted(DECISIVE_KEYS)),
    "dns_names": shared_names.DNS_NAMES,
    "ends_of_paths": guards.ENDS_OF_PATHS,
    "ends_of_values": guards.ENDS_OF_VALUES,
    "host_keys": shared_names.HOST_KEYS,
    "ingress_nginx": guards.INGRESS_NGINX,
    "is_forbidden": " || ".join(
        f"variables.virtual.startsWith({cel_text(each[:-1])})"
        if each.endswith("*")
        else f"variables.virtual == {cel_text(each)}"
        for each in ALWAYS_FORBIDDEN
    ),
    "is_network_volume": " || ".join(f"has(v.{each})" for each in shared_names.NETWORK_SOURCES),
    "is_proxy_config": " || ".join(
        f"k.startsWith({cel_text(each)})" for each in guards.PROXY_CONFIGS
    ),
    "karmadas_domain": KARMADAS_DOMAIN,
    "labels_of_pod": OF_POD,
    "load_balancer_keys": shared_names.LOAD_BALANCER_KEYS,
    "of_all_proxies": references.OF_ALL_PROXIES,
    "pattern_ends": guards.PATTERN_ENDS,
    "pod_addresses": shared_names.POD_ADDRESSES,
    "proxy_calls": shared_names.PROXY_CALLS,
    "proxy_domains": references.PROXY_DOMAINS,
    "proxy_references": references.PROXY_REFERENCES,
    "selected_node": (SELECTED_NODE_ANNOTATION, SELECTED_NODE_BEFORE),
    "tenant_roles": tuple(TENANT_ROLES.values()),
}
"""What policies and the rules for Works have in common."""
_NO_IPV4 = "!ip.lowerAscii().matches('^[0:]+ffff:')"


def policies(owner: PolicyOwner, mutating_version: str = "") -> list[Object]:
    """Return all policies and bindings of an agent, in the order to write them.

    mutating_version: of MutatingAdmissionPolicy on the host, "" = it serves none.
    """
    values = _values(owner)
    made = [
        obj
        for name in _POLICIES
        if name != "gateway-confines" or owner.gateway
        for obj in objects(f"access/policies/{name}.yaml", values)
    ]
    if mutating_version:
        version = {"apiVersion": f"{GROUP}/{mutating_version}"}
        made += [
            each | version for each in objects("access/policies/pod-node-selector.yaml", values)
        ]
    return made


def _values(owner: PolicyOwner) -> dict[str, Any]:
    template = NamespaceTemplate.parse(owner.template)
    values: dict[str, Any] = {
        **fragments("access/expressions.yaml"),
        **_TABLES,
        **_by_guard(owner),
        "agent": owner.agent,
        "clusters": owner.clusters,
        "domain_pattern": re.escape(owner.domain).replace("\\", "\\\\"),
        "elsewhere": owner.elsewhere,
        "gateway": owner.gateway or None,
        "group_labels": tuple(dict.fromkeys((*owner.group_labels, MEMBERSHIP_LABEL))),
        "impersonators": tuple(host_name(IMPERSONATOR, each) for each in owner.clusters),
        "matches_tenants_keys": _matches(owner.tenants_keys),
        "namespace": owner.namespace,
        "parameters": owner.parameters(),
        "piece_length": template.piece_length,
        "renames": owner.renames,
        "schedulers": owner.schedulers,
        **_pod_networks(owner),
        "separator": template.separator,
        "user": owner.user,
    }
    if ANY_CLUSTER in owner.clusters:
        values |= _preferred("any_", values)
    return values | (_preferred("first_", values) if template.cluster_first else {})


def _pod_networks(owner: PolicyOwner) -> dict[str, str]:
    """Return the networks of pods in CEL: first and last address of IPv4, what of IPv6 is one."""
    networks = [ip_network(each) for each in owner.pod_cidrs or ("0.0.0.0/0", "::/0")]
    ranges = [[int(each[0]), int(each[-1])] for each in networks if each.version == 4]
    has_ipv6 = len(ranges) < len(networks)
    in_ipv6 = _NO_IPV4 if owner.pod_cidrs else "true"
    return {"pod_ranges": str(ranges), "is_pod_ipv6": in_ipv6 if has_ipv6 else "false"}


def _preferred(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the fragments with this prefix, by the names of those that they replace."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def _by_guard(owner: PolicyOwner) -> dict[str, str | None]:
    """Return whether each guard applies to an object and its virtual cluster; None = to none.

    held_<guard>: Services and Ingresses; held_<guard>_pods, held_<guard>_routes.
    allowed_<guard>: "" = to all.
    """
    values: dict[str, str | None] = {}
    for guard in Guard:
        held = [_held(owner, guard, plural) for plural in ("services", "ingresses")]
        values[f"held_{guard}"] = " || ".join(filter(None, held)) or None
        values[f"held_{guard}_pods"] = _held(owner, guard, "pods") or None
        routes = sorted(_clusters(owner.held, f"{guard}/routes/"))
        values[f"held_{guard}_routes"] = (
            f"variables.cluster in {cel_list(routes)}" if routes else None
        )
        names = sorted(_clusters(owner.allowed, f"{guard}/"))
        values[f"allowed_{guard}"] = f"variables.cluster in {cel_list(names)} ||" if names else ""
    return values


def _held(owner: PolicyOwner, guard: Guard, plural: str) -> str:
    names = sorted(_clusters(owner.held, f"{guard}/{plural}/"))
    by_name = f"request.resource.resource == '{plural}' && variables.cluster in {cel_list(names)}"
    return by_name if names else ""


def _clusters(entries: tuple[str, ...], prefix: str) -> list[str]:
    return [each.rpartition("/")[2] for each in entries if each.startswith(prefix)]


def _matches(patterns: tuple[str, ...]) -> str:
    """Return whether k matches one of these patterns of a shell."""
    plain = ["!k.contains('/')"] if PLAIN_KEYS in patterns else []
    if texts := [_regular(each) for each in patterns if each != PLAIN_KEYS]:
        plain.append("k.matches('^({})$')".format("|".join(texts).replace("\\", "\\\\")))
    return " || ".join(plain) or "false"


def _regular(pattern: str) -> str:
    """Return a pattern of a shell as a regular expression."""
    wild = {"*": ".*", "?": "."}
    return "".join(wild.get(each) or re.escape(each) for each in pattern)


def served_versions(served: ServedApis) -> dict[str, str]:
    """Return the version to use of each kind of policy that the host serves."""
    served_by_kind = {}
    for kind, versions in VERSIONS.items():
        for version in versions:
            if GroupVersionKind(GROUP, version, kind) in served.by_kind:
                served_by_kind[kind] = version
                break
    return served_by_kind


def desired_policies(owner: PolicyOwner, versions: Mapping[str, str]) -> list[Object]:
    """Return all policies and bindings for a host, in the order in which to write them."""
    return policies(owner, versions.get(MUTATING, ""))


def gaps_of(
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
        held, desired = entries_of(owner.held, name), held_by(vc, tenancy)
        allowed, may = entries_of(owner.allowed, name), allowances(vc, tenancy)
        if desired - held or allowed - may:
            loose.append(name)
        if held - desired or may - allowed:
            tight.append(name)
    if loose:
        yield f"let tenants of {', '.join(loose)} write what their Works are refused"
    if tight:
        yield f"refuse tenants of {', '.join(tight)} what the settings allow"


def differing_networks(owner: PolicyOwner, tenancy: str, pod_cidrs: Iterable[str]) -> Iterator[str]:
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


UNPLACED_LABEL = f"{DOMAIN}/unplaced"
"""A label that no node has; pods select it if their namespace does not specify its nodes."""
PROBED_NAMESPACE = "kube-system"


def probe_pod(owner: PolicyOwner, policy: str) -> Object:
    """Return a pod for a dry run that shows whether a policy about pods is in effect.

    policy: its name. The validating policy denies the pod; the mutating one adds UNPLACED_LABEL.
    """
    return bare_pod(f"probe.{policy}", owner.namespace)


def probe_claim(owner: PolicyOwner) -> Object:
    """Return a merge patch of the agent's own namespace that the policy about claims denies."""
    return {"metadata": {"labels": {CLUSTER_LABEL: "probe", AGENT_LABEL: owner.agent}}}


def probe_foreign() -> Object:
    """Return a merge patch of PROBED_NAMESPACE that `agent-confines` denies to the agent."""
    return {"metadata": {"labels": {f"{DOMAIN}/probe": "true"}}}


def bare_pod(name: str, namespace: str, node_selector: dict[str, str] | None = None) -> Object:
    """Return a pod that even the strictest Pod Security level allows."""
    pod = document("access/install/bare-pod.yaml", {"name": name, "namespace": namespace})
    if node_selector:
        pod["spec"]["nodeSelector"] = node_selector
    return pod
