"""The admission policies of an agent, compared with live ones, and their probes.

Each file of policies/ has a policy, and its binding after it: a policy without one has no effect.
Expressions run on kube-apiserver 1.34.4. How to add one: docs/adr/0071.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_network
from typing import Any

from karmada_vc_agent.access.templates import cel_list, cel_text, document, fragments, objects
from karmada_vc_agent.kube.discovery import Resource, ServedApis
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.core import OF_POD
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    decode_as,
    dig,
    gvk_of,
    labels_of,
)
from karmada_vc_agent.model.virtual_cluster import STRICT, Guard, VirtualCluster, refuses
from karmada_vc_agent.translation import guards, references
from karmada_vc_agent.translation.context import (
    ALWAYS_FORBIDDEN,
    DEFAULT_NAMESPACE_TEMPLATE,
    NamespaceTemplate,
    host_name,
)
from karmada_vc_agent.translation.kind_policy import IMPERSONATOR
from karmada_vc_agent.translation.namespace_defaults import BINDING_NAMES
from karmada_vc_agent.translation.own_steps import DECISIVE_KEYS, PLAIN_KEYS

GROUP = "admissionregistration.k8s.io"
VALIDATING, MUTATING = "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"
PLACEMENT, SELECTOR = "pod-placement", "pod-node-selector"
CLAIMS, CONFINES = "namespace-claims", "agent-confines"
"""Policies that are probed: they deny Pods, mutate Pods, and protect Namespaces."""
VERSIONS = {VALIDATING: ("v1",), MUTATING: ("v1", "v1beta1", "v1alpha1")}
"""Preferred first. GA in 1.30 and 1.36; older versions of the second are disabled by default."""
PARAMETERS_ANNOTATION = f"{vocabulary.DOMAIN}/parameters"
"""On agent-confines: JSON of the input of all policies, to generate and compare them again."""
ANY_CLUSTER = "*"
SCHEDULER = "system:kube-scheduler"

_EXEMPT_USER = re.compile(r"request\.userInfo\.username != '((?:[^'\\]|\\.)*)'")
_EMPTY_SELECTORS = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


@dataclass(frozen=True, slots=True)
class PolicyOwner:
    """The input of an agent's policies.

    user: the agent's on the host. clusters: ANY_CLUSTER among them = whatever name one has.
    group_labels: keys of Node labels that select its groups. schedulers: users who may bind pods.
    elsewhere: single objects that it writes outside of claimed namespaces and its own, as
    `<namespace>/<plural>/<name>`. held, allowed: what tenants may not write though others may, and
    the reverse, as `<guard>/<plural>/<virtual cluster>` (`held_by`). renames: claims that may
    change hands, as `<former name>/<virtual cluster>`. gateway: its user, "" = none. template: of
    host namespaces. domain: of the host. tenants_keys: patterns of what tenants may change of a
    Namespace through the gateway. pod_cidrs: that nodes may report addresses of, () = any.
    """

    agent: str
    namespace: str
    user: str
    clusters: tuple[str, ...] = ()
    group_labels: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = (SCHEDULER,)
    elsewhere: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    renames: tuple[str, ...] = ()
    gateway: str = ""
    template: str = DEFAULT_NAMESPACE_TEMPLATE
    domain: str = vocabulary.DEFAULT_CLUSTER_DOMAIN
    tenants_keys: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()

    def name(self, policy: str) -> str:
        return f"{policy}.{self.agent}.{vocabulary.DOMAIN}"

    def parameters(self) -> str:
        """Return this input as text for PARAMETERS_ANNOTATION."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))


def owner_of(policy: Object) -> PolicyOwner | None:
    """Return the input that a live policy was generated from; None if unreadable."""
    return decode_as(PolicyOwner, annotations_of(policy).get(PARAMETERS_ANNOTATION, ""))


def is_as_wanted(desired: Object, live: Object) -> bool:
    """Return whether a live policy has our label and just the desired spec: additions weaken it."""
    if labels_of(live).get(vocabulary.AGENT_LABEL) != labels_of(desired)[vocabulary.AGENT_LABEL]:
        return False
    return _filled(desired["spec"]) == _filled(live.get("spec") or {})


def _filled(spec: Object) -> Object:
    """Return a spec with the server's defaults (kube-apiserver 1.34.4)."""
    names = [name for name in ("matchConstraints", "matchResources") if name in spec]
    return spec | {name: _EMPTY_SELECTORS | spec[name] for name in names}


def group_labels(vc: VirtualCluster) -> set[str]:
    """Return the keys of Node labels that decide which nodes belong to a group."""
    expressions = {each.key for each in vc.node_selector.match_expressions}
    return {*vc.node_selector.match_labels, *expressions} - {vocabulary.MEMBERSHIP_LABEL}


def renames_of(vc: VirtualCluster) -> set[str]:
    """Return the claims that a virtual cluster may take over: `<former name>/<name>`."""
    return {f"{former}/{vc.name}" for former in vc.former_names if former != vc.name}


def networks_of_pods(tenancy: str, pod_cidrs: Iterable[str]) -> tuple[str, ...]:
    """Return the networks that nodes may report addresses of, () = any."""
    return tuple(pod_cidrs) if tenancy == STRICT else ()


def is_about_placement(policy: str) -> bool:
    """Return whether a policy or binding, by its name, enforces placement or claims."""
    return policy.removeprefix("probe.").startswith(
        ("pod-placement.", "pod-node-selector.", "namespace-claims.")
    )


def protected_user(policy: Object) -> str:
    """Return the user who may change claims according to a live policy, "" if unreadable."""
    for condition in dig(policy, "spec", "matchConditions") or ():
        if condition.get("name") == "not-the-agent":
            match = _EXEMPT_USER.match(condition.get("expression") or "")
            return re.sub(r"\\(.)", r"\1", match[1]) if match else ""
    return ""


_SERVICES, _INGRESSES, _PODS, _ROUTES = "services", "ingresses", "pods", "routes"
"""The last: all kinds of Gateway API and external-dns; `allow` names guards for them, no kinds."""
_KINDS = {_SERVICES: "/Service", _INGRESSES: "networking.k8s.io/Ingress", _PODS: "/Pod"}
_HOLDS: Mapping[Guard, tuple[str, ...]] = {
    Guard.LOAD_BALANCER_ADDRESSES: (_SERVICES, _INGRESSES, _ROUTES),
    Guard.LOAD_BALANCER_CLASSES: (_SERVICES,),
    Guard.EXTERNAL_NAMES: (_SERVICES,),
    Guard.FOREIGN_ENDPOINTS: (_SERVICES, _INGRESSES),
    Guard.EXTERNAL_DNS: (_SERVICES, _INGRESSES, _PODS, _ROUTES),
    Guard.WILDCARD_HOSTS: (_INGRESSES, _ROUTES),
    Guard.NETWORK_VOLUMES: (_PODS,),
    Guard.POD_ADDRESSES: (_PODS,),
    Guard.CONTROLLER_KINDS: (_ROUTES,),
}
"""Node ports are missing: of those that a Service has, the API server chose some itself."""
_ALLOWANCES = {Guard.EXTERNAL_ADDRESSES: (_SERVICES,), Guard.PROXY_SNIPPETS: (_INGRESSES,)}
"""Denied to all tenants without an exception in `allow`."""


def held_by(vc: VirtualCluster, profile: str) -> set[str]:
    """Return what tenants of a virtual cluster may not write, in the format of PolicyOwner.held."""
    return _entries(vc, profile, _HOLDS, is_refused=True)


def allowances(vc: VirtualCluster, profile: str) -> set[str]:
    """Return what tenants of a virtual cluster may write, in the format of PolicyOwner.allowed."""
    return _entries(vc, profile, _ALLOWANCES, is_refused=False)


def _entries(
    vc: VirtualCluster, profile: str, table: Mapping[Guard, tuple[str, ...]], *, is_refused: bool
) -> set[str]:
    return {
        f"{guard}/{plural}/{vc.name}"
        for guard, plurals in table.items()
        for plural in plurals
        if refuses(profile, vc.allow, guard, _KINDS.get(plural, "")) is is_refused
    }


def entries_of(entries: Iterable[str], cluster: str) -> set[str]:
    """Return the entries of PolicyOwner.held or .allowed for a virtual cluster."""
    return {each for each in entries if cluster_of(each) == cluster}


def cluster_of(entry: str) -> str:
    """Return the virtual cluster of an entry of PolicyOwner.held or .allowed."""
    return entry.rpartition("/")[2]


_POLICIES = (
    CONFINES,  # the first: it has the input of all as an annotation
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
    CLAIMS,
    PLACEMENT,
)
_TABLES = {
    **guards.ANNOTATIONS,
    "aliases": guards.ALIASES,
    "binding_names": BINDING_NAMES,
    "decisions": tuple(sorted(DECISIVE_KEYS)),
    "ends_of_paths": guards.ENDS_OF_PATHS,
    "ends_of_values": guards.ENDS_OF_VALUES,
    "ingress_nginx": guards.ANNOTATIONS["ingress_nginx"][0],
    "is_forbidden": " || ".join(
        f"variables.virtual.startsWith({cel_text(each[:-1])})"
        if each.endswith("*")
        else f"variables.virtual == {cel_text(each)}"
        for each in ALWAYS_FORBIDDEN
    ),
    "is_network_volume": " || ".join(f"has(v.{each})" for each in guards.NETWORK_SOURCES),
    "is_proxy_config": " || ".join(
        f"k.startsWith({cel_text(each)})" for each in guards.ANNOTATIONS["proxy_configs"]
    ),
    "karmadas_domain": vocabulary.KARMADAS_DOMAIN,
    "labels_of_pod": OF_POD,
    "of_all_proxies": references.OF_ALL_PROXIES,
    "proxy_domains": references.PROXY_DOMAINS,
    "proxy_references": references.PROXY_REFERENCES,
    "selected_node": (vocabulary.SELECTED_NODE_ANNOTATION, vocabulary.SELECTED_NODE_BEFORE),
    "tenant_roles": tuple(vocabulary.TENANT_ROLES.values()),
}
"""What policies and the rules for Works have in common; tables of rules by their names."""
_NO_IPV4 = "!ip.lowerAscii().matches('^[0:]+ffff:')"


def desired_policies(owner: PolicyOwner, versions: Mapping[str, str]) -> list[Object]:
    """Return all policies and bindings for a host that serves kinds at these versions, in order."""
    values = _values(owner)
    made = [
        obj
        for name in _POLICIES
        if name != "gateway-confines" or owner.gateway
        for obj in objects(f"access/policies/{name}.yaml", values)
    ]
    if MUTATING in versions:
        version = {"apiVersion": f"{GROUP}/{versions[MUTATING]}"}
        made += [each | version for each in objects(f"access/policies/{SELECTOR}.yaml", values)]
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
        "group_labels": tuple(dict.fromkeys((*owner.group_labels, vocabulary.MEMBERSHIP_LABEL))),
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
    replacing = {"any_": ANY_CLUSTER in owner.clusters, "first_": template.cluster_first}
    for prefix, is_used in replacing.items():  # fragments that replace others
        named = [name for name in values if is_used and name.startswith(prefix)]
        values |= {name.removeprefix(prefix): values[name] for name in named}
    return values


def _pod_networks(owner: PolicyOwner) -> dict[str, str]:
    """Return the networks of pods in CEL: first and last address of IPv4, what of IPv6 is one."""
    networks = [ip_network(each) for each in owner.pod_cidrs or ("0.0.0.0/0", "::/0")]
    ranges = [[int(each[0]), int(each[-1])] for each in networks if each.version == 4]
    has_ipv6 = len(ranges) < len(networks)
    in_ipv6 = _NO_IPV4 if owner.pod_cidrs else "true"
    return {"pod_ranges": str(ranges), "is_pod_ipv6": in_ipv6 if has_ipv6 else "false"}


def _by_guard(owner: PolicyOwner) -> dict[str, str | None]:
    """Return in CEL to which objects each guard applies.

    held_<guard>: Services and Ingresses; None = to none. allowed_<guard>: "" = to all.
    """
    values: dict[str, str | None] = {}
    for guard in Guard:
        held = {
            plural: _is_listed(owner.held, f"{guard}/{plural}/")
            for plural in (_SERVICES, _INGRESSES, _PODS, _ROUTES)
        }
        of_kind = {
            plural: f"request.resource.resource == '{plural}' && {is_listed}"
            for plural, is_listed in held.items()
            if is_listed
        }
        both = [of_kind[plural] for plural in (_SERVICES, _INGRESSES) if plural in of_kind]
        values[f"held_{guard}"] = " || ".join(both) or None
        values[f"held_{guard}_pods"] = of_kind.get(_PODS)
        values[f"held_{guard}_routes"] = held[_ROUTES]
        allowed = _is_listed(owner.allowed, f"{guard}/")
        values[f"allowed_{guard}"] = f"{allowed} ||" if allowed else ""
    return values


def _is_listed(entries: tuple[str, ...], prefix: str) -> str | None:
    names = sorted(cluster_of(each) for each in entries if each.startswith(prefix))
    return f"variables.cluster in {cel_list(names)}" if names else None


def _matches(patterns: tuple[str, ...]) -> str:
    """Return in CEL whether k matches one of these patterns of a shell."""
    wild = {"*": ".*", "?": "."}
    texts = [
        "".join(wild.get(each) or re.escape(each) for each in pattern)
        for pattern in patterns
        if pattern != PLAIN_KEYS
    ]
    plain = ["!k.contains('/')"] if PLAIN_KEYS in patterns else []
    if texts:
        plain.append("k.matches('^({})$')".format("|".join(texts).replace("\\", "\\\\")))
    return " || ".join(plain) or "false"


def served_versions(served: ServedApis) -> dict[str, str]:
    """Return the version to use of each kind of policy that the host serves."""
    return {
        kind: version
        for kind, versions in VERSIONS.items()
        for version in reversed(versions)  # the preferred one replaces the others
        if GroupVersionKind(GROUP, version, kind) in served.by_kind
    }


def gaps_of(
    owner: PolicyOwner, user: str, clusters: Mapping[str, VirtualCluster], tenancy: str
) -> Iterator[str]:
    """Yield what policies lack of the identity of the agent, what it serves and allows."""
    if owner.user != user:
        yield f"hold {owner.user}, but the agent is {user} on the host"
    has_any = ANY_CLUSTER in owner.clusters
    names = [name for name in clusters if name not in owner.clusters]
    if names and not has_any:
        yield f"do not know {', '.join(names)}"
    renames = {pair for vc in clusters.values() for pair in renames_of(vc)}
    if (unknown := sorted(renames.difference(owner.renames))) and not has_any:
        yield f"do not know the former names in {', '.join(unknown)}"
    keys = {key for vc in clusters.values() for key in group_labels(vc)}
    if unguarded := sorted(keys.difference(owner.group_labels)):
        yield f"leave Node label {', '.join(unguarded)} to the nodes"
    loose, tight = [], []
    for name, vc in clusters.items():
        held, allowed = entries_of(owner.held, name), entries_of(owner.allowed, name)
        desired, may = held_by(vc, tenancy), allowances(vc, tenancy)
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


UNPLACED_LABEL = f"{vocabulary.DOMAIN}/unplaced"
"""A label that no node has; pods select it if their namespace does not specify its nodes."""
PROBED_NAMESPACE = "kube-system"


def probe_pod(owner: PolicyOwner, policy: str) -> Object:
    """Return a pod that the placement policy denies, and the mutating one marks UNPLACED_LABEL."""
    return bare_pod(f"probe.{policy}", owner.namespace)


def probe_claim(owner: PolicyOwner) -> Object:
    """Return a merge patch of the agent's own namespace that the policy about claims denies."""
    return {
        "metadata": {
            "labels": {vocabulary.CLUSTER_LABEL: "probe", vocabulary.AGENT_LABEL: owner.agent}
        }
    }


def probe_foreign() -> Object:
    """Return a merge patch of PROBED_NAMESPACE that `agent-confines` denies to the agent."""
    return {"metadata": {"labels": {f"{vocabulary.DOMAIN}/probe": "true"}}}


def bare_pod(name: str, namespace: str, node_selector: dict[str, str] | None = None) -> Object:
    """Return a pod that even the strictest Pod Security level allows."""
    pod = document("access/install/bare-pod.yaml", {"name": name, "namespace": namespace})
    if node_selector:
        pod["spec"]["nodeSelector"] = node_selector
    return pod
