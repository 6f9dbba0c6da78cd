"""What policy shared-proxies denies to whom, matching guards.py: by profile and `allow`.

That is written into the policy, which cannot read settings. What both profiles refuse, it denies to
everybody without an exception in `allow`; what Strict refuses, to tenants in Strict.
"""

import re
from collections.abc import Iterable

from karmada_vc_agent.features.policies.objects import PolicyOwner, cel_list, cel_text, homes
from karmada_vc_agent.model import tenancy
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.tenancy import Guard
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.guards import ALIASES, PATTERN_ENDS
from karmada_vc_agent.translation.names import HASH_LENGTH, HASH_MARK, NamespaceTemplate
from karmada_vc_agent.translation.shared_keys import (
    DNS_NAMES,
    HOST_KEYS,
    LOAD_BALANCER_KEYS,
    NETWORK_SOURCES,
    POD_ADDRESSES,
    PROXY_CALLS,
)

_SERVICES, _INGRESSES, _PODS = "services", "ingresses", "pods"
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
)
"""Node ports are missing: of those that a Service has, the API server chose some itself."""
_ALLOWANCES = ((Guard.EXTERNAL_ADDRESSES, _SERVICES), (Guard.PROXY_SNIPPETS, _INGRESSES))
"""Denied to everybody without an exception in `allow`."""
CLUSTER = f"namespaceObject.metadata.labels['{CLUSTER_LABEL}']"
_OLD, _NEW = "variables.old_annotations", "variables.new_annotations"
_UNCHANGED = f"k in {_OLD} && {_OLD}[k] == {_NEW}[k]"


def holds(vc: VirtualCluster, profile: str) -> set[str]:
    """Return what tenants of a virtual cluster may not write, in the format of PolicyOwner.held."""
    return {
        f"{guard}/{plural}/{vc.name}"
        for guard, plural in _HOLDS
        if tenancy.refuses(profile, vc.allow, guard, _KINDS[plural])
    }


def allowances(vc: VirtualCluster, profile: str) -> set[str]:
    """Return what tenants of a virtual cluster may write, in the format of PolicyOwner.allowed."""
    return {
        f"{guard}/{plural}/{vc.name}"
        for guard, plural in _ALLOWANCES
        if not tenancy.refuses(profile, vc.allow, guard, _KINDS[plural])
    }


def about(entries: Iterable[str], cluster: str) -> set[str]:
    """Return the entries of PolicyOwner.held or .allowed for a virtual cluster."""
    return {each for each in entries if cluster_of(each) == cluster}


def cluster_of(entry: str) -> str:
    """Return the virtual cluster of an entry of PolicyOwner.held or .allowed."""
    return entry.rpartition("/")[2]


def variables_by_cluster(owner: PolicyOwner) -> list[Object]:
    """Return the variables of strict_validations and unless_allowed; () if not needed."""
    cluster = {"name": "cluster", "expression": CLUSTER}
    hosts = [
        {"name": "old_hosts", "expression": _hosts("oldObject")},
        {"name": "new_hosts", "expression": _hosts("object")},
    ]
    return [*([cluster] if owner.held or owner.allowed else []), *(hosts if owner.held else [])]


def unless_allowed(owner: PolicyOwner, guard: Guard, expression: str) -> str:
    """Return an expression that exempts those whom `allow` permits what a guard refuses."""
    names = sorted(cluster_of(each) for each in owner.allowed if each.startswith(f"{guard}/"))
    return f"variables.cluster in {cel_list(names)} || {expression}" if names else expression


def strict_validations(owner: PolicyOwner) -> list[Object]:
    """Return the validations of Services and Ingresses in Strict; existing values may stay."""
    no_address = _kept("loadBalancerIP")
    matches_many = f"!{_NEW}[k].matches({cel_text(ALIASES)})"
    no_alias = f"{_no_ends(PATTERN_ENDS)} && {_no_ends(HOST_KEYS, matches_many)}"
    few_hosts = (
        "variables.new_hosts.all(h, h != '' && !h.startsWith('*') || h in variables.old_hosts)"
        " && (!has(object.spec.tls) || object.spec.tls.all(t, !has(t.hosts)"
        " || t.hosts.all(h, !h.startsWith('*'))"
        " || oldObject != null && has(oldObject.spec.tls) && t in oldObject.spec.tls))"
    )
    rules = (
        (
            Guard.LOAD_BALANCER_ADDRESSES,
            f"({no_address}) && {_no_new(LOAD_BALANCER_KEYS)}",
            (
                "the address of a load balancer belongs to the host, and others may claim it "
                "too: remove it"
            ),
        ),
        (
            Guard.LOAD_BALANCER_CLASSES,
            _kept("loadBalancerClass"),
            "spec.loadBalancerClass is a name of the host: remove it",
        ),
        (
            Guard.FOREIGN_ENDPOINTS,
            _no_ends(PROXY_CALLS),
            (
                "the annotation names what a shared proxy calls, or takes, of any namespace: "
                "remove it"
            ),
        ),
        (
            Guard.EXTERNAL_NAMES,
            _own_name(owner),
            (
                "spec.externalName is not known to belong to the virtual cluster: write "
                "<service>.<namespace>.svc"
            ),
        ),
        (
            Guard.EXTERNAL_DNS,
            _no_new(DNS_NAMES),
            "the annotation creates a public name, which others may claim too: remove it",
        ),
        (
            Guard.WILDCARD_HOSTS,
            f"{few_hosts} && {no_alias}",
            (
                "no host, or a wildcard, also matches hosts of other virtual clusters: name each "
                "host"
            ),
        ),
    )
    return _validations(owner, (_SERVICES, _INGRESSES), rules)


def strict_pod_validations(owner: PolicyOwner) -> list[Object]:
    """Return the validations of Pods in Strict."""
    of_others = " || ".join(f"has(v.{source})" for source in NETWORK_SOURCES)
    own_volumes = f"object.spec.volumes.all(v, !({of_others}))"
    rules = (
        (
            Guard.NETWORK_VOLUMES,
            f"oldObject != null || !has(object.spec.volumes) || {own_volumes}",
            "a volume refers to storage that may belong to others: use a PersistentVolumeClaim",
        ),
        (
            Guard.POD_ADDRESSES,
            _no_new(POD_ADDRESSES),
            "the annotation chooses an address or a network that others may have: remove it",
        ),
        (
            Guard.EXTERNAL_DNS,
            _no_new(DNS_NAMES),
            "the annotation creates a public name, which others may claim too: remove it",
        ),
    )
    return _validations(owner, (_PODS,), rules)


def _validations(
    owner: PolicyOwner, plurals: tuple[str, ...], rules: Iterable[tuple[Guard, str, str]]
) -> list[Object]:
    return [
        {
            "expression": f"!({held}) || {expression}",
            "message": f'{message}; an administrator can allow it with "allow: [{guard}]"',
        }
        for guard, expression, message in rules
        if (held := _held(owner, guard, plurals))
    ]


def _own_name(owner: PolicyOwner) -> str:
    """Return whether externalName is unset, unchanged, or a Service in a namespace of its own.

    Its other namespaces are known by the template, if they have the whole name of the cluster.
    """
    template = NamespaceTemplate.parse(owner.template)
    host = f"'[a-z0-9-]*{template.separator}' + c + '({HASH_MARK}[0-9a-f]{{{HASH_LENGTH}}})?'"
    if template.cluster_first:
        host = f"c + '{template.separator}[a-z0-9-]*'"
    ending = f"[.]svc([.]{re.escape(owner.domain)})?[.]?$".replace("\\", "\\\\")
    names = f"([request.namespace] + ({homes(owner, 'variables.cluster')}).map(c, {host}))"
    new = "object.spec.externalName"
    return f"{_kept('externalName')} || {names}.exists(n, {new}.matches('[.]' + n + '{ending}'))"


def _kept(field: str) -> str:
    """Return whether a field of the spec is not set, or as it was."""
    old, new = (f"{obj}.spec.{field}" for obj in ("oldObject", "object"))
    return f"!has({new}) || {new} == '' || oldObject != null && has({old}) && {old} == {new}"


def _held(owner: PolicyOwner, guard: Guard, plurals: tuple[str, ...]) -> str:
    """Return whether a guard applies to the object and its virtual cluster; "" = to none."""
    asked = []
    for each, plural in _HOLDS:
        if plural not in plurals:
            continue
        prefix = f"{guard}/{plural}/"
        names = sorted(cluster_of(held) for held in owner.held if held.startswith(prefix))
        if each == guard and names:
            names_it = f"request.resource.resource == '{plural}'"
            asked.append(f"{names_it} && variables.cluster in {cel_list(names)}")
    return " || ".join(asked)


def _no_new(keys: tuple[str, ...]) -> str:
    """Return whether none of these annotations is added or changed."""
    return f"{cel_list(keys)}.all(k, !(k in {_NEW}) || {_NEW}[k] == '' || {_UNCHANGED})"


def _no_ends(ends: tuple[str, ...], only: str = "") -> str:
    """Return whether no annotation with one of these ends is added or changed; only: of these."""
    spared = f" || !{only}" if only else ""
    return f"{_NEW}.all(k, {_UNCHANGED} || !{cel_list(ends)}.exists(e, k.endsWith(e)){spared})"


def _hosts(obj: str) -> str:
    """Return the hosts of an Ingress, "" for every host, as a default backend implies."""
    rules = f"{obj}.spec.rules"
    return (
        f"{obj} == null ? [] : has({rules}) && {rules}.size() > 0"
        f" ? {rules}.map(r, has(r.host) ? r.host : '')"
        f" : has({obj}.spec.defaultBackend) ? [''] : []"
    )
