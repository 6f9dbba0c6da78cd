"""The input of an agent's admission policies, and the guards in it."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

import msgspec

from karmada_vc_agent.model import virtual_cluster
from karmada_vc_agent.model.domain import AGENT_LABEL, DOMAIN, MEMBERSHIP_LABEL
from karmada_vc_agent.model.kinds import DEFAULT_CLUSTER_DOMAIN
from karmada_vc_agent.model.objects import Object, annotations_of, dig, labels_of
from karmada_vc_agent.model.virtual_cluster import STRICT, Guard, VirtualCluster
from karmada_vc_agent.translation.names import DEFAULT_NAMESPACE_TEMPLATE

GROUP = "admissionregistration.k8s.io"
VALIDATING, MUTATING = "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"
VERSIONS = {VALIDATING: ("v1",), MUTATING: ("v1", "v1beta1", "v1alpha1")}
"""Preferred first. GA in 1.30 and 1.36; older versions of the second are disabled by default."""
PARAMETERS_ANNOTATION = f"{DOMAIN}/parameters"
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
    domain: str = DEFAULT_CLUSTER_DOMAIN
    tenants_keys: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()

    def name(self, policy: str) -> str:
        """Return the name of a policy on the host."""
        return f"{policy}.{self.agent}.{DOMAIN}"

    @property
    def placement_policy(self) -> str:
        """Return the name of the policy that denies pods."""
        return self.name("pod-placement")

    @property
    def selector_policy(self) -> str:
        """Return the name of the policy that mutates pods."""
        return self.name("pod-node-selector")

    @property
    def claims_policy(self) -> str:
        """Return the name of the policy that protects claims."""
        return self.name("namespace-claims")

    @property
    def confines_policy(self) -> str:
        """Return the name of the policy that confines the agent."""
        return self.name("agent-confines")

    def parameters(self) -> str:
        """Return this input as text for PARAMETERS_ANNOTATION."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))


def owner_of(policy: Object) -> PolicyOwner | None:
    """Return the input that a live policy was generated from; None if unreadable."""
    try:
        text = annotations_of(policy).get(PARAMETERS_ANNOTATION, "")
        return msgspec.json.decode(text, type=PolicyOwner)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def is_as_wanted(desired: Object, live: Object) -> bool:
    """Return whether a live policy or binding has exactly the desired spec, and the agent's label.

    Additions count as changes: an added exception weakens it.
    """
    return labels_of(live).get(AGENT_LABEL) == labels_of(desired)[AGENT_LABEL] and _filled(
        desired["spec"]
    ) == _filled(live.get("spec") or {})


def _filled(spec: Object) -> Object:
    """Return a spec with the server's defaults (kube-apiserver 1.34.4)."""
    filled = dict(spec)
    for field in ("matchConstraints", "matchResources"):
        if field in spec:
            filled[field] = {**_EMPTY_SELECTORS, **spec[field]}
    return filled


def group_labels(vc: VirtualCluster) -> set[str]:
    """Return the keys of Node labels that decide which nodes belong to a group."""
    expressions = {each.key for each in vc.node_selector.match_expressions}
    return {*vc.node_selector.match_labels, *expressions} - {MEMBERSHIP_LABEL}


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


def held_by(vc: VirtualCluster, profile: str) -> set[str]:
    """Return what tenants of a virtual cluster may not write, in the format of PolicyOwner.held."""
    return {
        f"{guard}/{plural}/{vc.name}"
        for guard, plural in _HOLDS
        if virtual_cluster.refuses(profile, vc.allow, guard, _KINDS.get(plural, ""))
    }


def allowances(vc: VirtualCluster, profile: str) -> set[str]:
    """Return what tenants of a virtual cluster may write, in the format of PolicyOwner.allowed."""
    return {
        f"{guard}/{plural}/{vc.name}"
        for guard, plural in _ALLOWANCES
        if not virtual_cluster.refuses(profile, vc.allow, guard, _KINDS.get(plural, ""))
    }


def entries_of(entries: Iterable[str], cluster: str) -> set[str]:
    """Return the entries of PolicyOwner.held or .allowed for a virtual cluster."""
    return {each for each in entries if cluster_of(each) == cluster}


def cluster_of(entry: str) -> str:
    """Return the virtual cluster of an entry of PolicyOwner.held or .allowed."""
    return entry.rpartition("/")[2]
