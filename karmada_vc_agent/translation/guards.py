"""What of a manifest reaches beyond its virtual cluster, and who may have it (ADR 23).

A check finds; whether a finding refuses is the profile's and the virtual cluster's: see
model/tenancy.py. What is not refused may still be worth a notice. The manifest is looked at as
it came, with virtual names.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    labels_of,
    values_at,
)
from karmada_vc_agent.model.tenancy import Guard
from karmada_vc_agent.model.well_known import GATEWAY_GROUP, SLICE_MANAGED_BY_LABEL
from karmada_vc_agent.translation.controller_kinds import has_rights_of_its_own
from karmada_vc_agent.translation.notices import Notice, NoticeCode
from karmada_vc_agent.translation.refusal import Code, RefusedError


class Finding(NamedTuple):
    """Something that reaches beyond, and where it stands.

    guard: what refuses it, and what `allow` names; None = it is refused always. notice: what
    it is told as where it is not refused; None = nothing is told.
    """

    code: Code
    path: str
    problem: str
    guard: Guard | None = None
    notice: NoticeCode | None = None


class Refuses(Protocol):
    """Whether the profile refuses what a guard holds, for objects of a kind (`group/Kind`)."""

    def __call__(self, guard: Guard, kind: str = "") -> bool: ...


class Facts(NamedTuple):
    """What a check must know of the world.

    is_of_host: whether an address is that of a node, a pod or a Service of others.
    """

    is_of_host: Callable[[str], bool]


_Check = Callable[[Object, Facts], Iterator[Finding]]


def pass_guards(
    obj: Object, gvk: GroupVersionKind, refuses: Refuses, facts: Facts
) -> Iterator[Notice]:
    """Refuse the first finding that a guard holds; yield one notice for each other guard."""
    kind, told = f"{gvk.group}/{gvk.kind}", set()
    for finding in _findings(obj, gvk, facts):
        if finding.guard is None:
            raise RefusedError(finding.code, finding.path, finding.problem)
        if refuses(finding.guard, kind):
            detail = f'{finding.problem}; an administrator allows it by "allow: [{finding.guard}]"'
            raise RefusedError(finding.code, finding.path, detail)
        if finding.notice is not None and finding.guard not in told:
            told.add(finding.guard)
            yield Notice(finding.notice, finding.problem)


def _findings(obj: Object, gvk: GroupVersionKind, facts: Facts) -> Iterator[Finding]:
    for check in (*_BY_KIND.get((gvk.group, gvk.kind), ()), *_OF_ALL):
        yield from check(obj, facts)
    if has_rights_of_its_own(gvk.group, gvk.kind):
        problem = f"a controller with rights of its own carries out kind {gvk.kind}"
        guard = Guard.CONTROLLER_KINDS
        yield Finding(Code.KIND_FORBIDDEN, "kind", problem, guard, NoticeCode.CONTROLLER_RIGHTS)


# --- volumes ----------------------------------------------------------------------------

_NOT_A_SOURCE = frozenset(
    (
        *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity"),
        *("persistentVolumeReclaimPolicy", "storageClassName", "volumeMode"),
        "volumeAttributesClassName",
    )
)
_ON_THE_NODE = ("hostPath", "local")


def _volume(obj: Object, _facts: Facts) -> Iterator[Finding]:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    forbidden = Code.VOLUME_FORBIDDEN
    path = "spec.persistentVolumeReclaimPolicy"
    reclaim = spec.get("persistentVolumeReclaimPolicy")
    if reclaim == "Recycle":
        problem = f'{path} "Recycle" empties the volume by a pod on any node; set Retain'
        yield Finding(forbidden, path, problem)
    if reclaim == "Delete" and spec.get("hostPath"):
        problem = f'{path} "Delete" of a hostPath deletes files of the control plane; set Retain'
        yield Finding(forbidden, path, problem)
    if not (dig(spec, "claimRef", "name") and dig(spec, "claimRef", "namespace")):
        problem = (
            "spec.claimRef names no claim, so that claims of other virtual clusters may bind the "
            "volume; set its name and namespace"
        )
        yield Finding(forbidden, "spec.claimRef", problem, Guard.UNCLAIMED_VOLUMES)
    for source in sorted(key for key in spec if key not in _NOT_A_SOURCE and spec[key]):
        if source in _ON_THE_NODE:
            problem = f"spec.{source} is a directory or disk of a node"
            yield Finding(forbidden, f"spec.{source}", problem, Guard.HOST_PATH)
        else:
            problem = f"spec.{source} names storage that may be another's"
            yield Finding(forbidden, f"spec.{source}", problem, Guard.NETWORK_VOLUMES)


def _snapshot_content(obj: Object, _facts: Facts) -> Iterator[Finding]:
    for handle in ("snapshotHandle", "volumeHandle"):
        if dig(obj, "spec", "source", handle):
            path = f"spec.source.{handle}"
            problem = f"{path} names storage that may be another's"
            yield Finding(Code.VOLUME_FORBIDDEN, path, problem, Guard.NETWORK_VOLUMES)


_DEFAULT_CLASS = re.compile(r"/is-default-(virt-)?class$")


def _default_class(obj: Object, _facts: Facts) -> Iterator[Finding]:
    for key, value in annotations_of(obj).items():
        if _DEFAULT_CLASS.search(key) and value == "true":
            path = f'metadata.annotations["{key}"]'
            problem = f"{path} would hold for all virtual clusters"
            yield Finding(Code.KIND_FORBIDDEN, path, problem, Guard.DEFAULT_CLASSES)


# --- addresses --------------------------------------------------------------------------

LOAD_BALANCER_KEYS = frozenset(
    {
        "io.cilium/lb-ipam-ips",
        "kube-vip.io/loadbalancerIPs",
        "lbipam.cilium.io/ips",
        "metallb.io/loadBalancerIPs",
        "metallb.universe.tf/loadBalancerIPs",
    }
)


def _service(obj: Object, _facts: Facts) -> Iterator[Finding]:
    for path, address in values_at(obj, "spec.externalIPs[]"):
        problem = f'{path} "{address}" takes that address from everybody on the host'
        yield Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.EXTERNAL_ADDRESSES, _SHARED)
    wanted = [("spec.loadBalancerIP", dig(obj, "spec", "loadBalancerIP"))]
    for key, value in annotations_of(obj).items():
        if key in LOAD_BALANCER_KEYS:
            wanted.append((f'metadata.annotations["{key}"]', value))
    for path, address in wanted:
        if address:
            problem = f"{path} {address} is the host's; other virtual clusters may claim it too"
            guard = Guard.LOAD_BALANCER_ADDRESSES
            yield Finding(Code.ADDRESS_FORBIDDEN, path, problem, guard, _SHARED)


_SHARED = NoticeCode.SHARED_ADDRESS


def _endpoints(obj: Object, facts: Facts) -> Iterator[Finding]:
    if _is_dispatched(obj):
        return
    for where in (
        "subsets[].addresses[].ip",
        "subsets[].notReadyAddresses[].ip",
        "endpoints[].addresses[]",
    ):
        for path, address in values_at(obj, where):
            code, guard = Code.ADDRESS_FORBIDDEN, Guard.FOREIGN_ENDPOINTS
            if facts.is_of_host(str(address)):
                problem = f'{path} "{address}" is of a node, pod or Service of others'
                yield Finding(code, path, problem, Guard.HOST_ENDPOINTS)
            problem = f'{path} "{address}" is not known to be of the virtual cluster'
            yield Finding(code, path, problem, guard)


def _is_dispatched(obj: Object) -> bool:
    """Whether Karmada itself brings a slice, for a MultiClusterService; no template does."""
    labels = labels_of(obj)
    return labels.get(SLICE_MANAGED_BY_LABEL) in karmada.MADE_BY_KARMADA and (
        not any(label in labels for label in karmada.BINDING_LABELS)
    )


# --- names in the DNS and in proxies ----------------------------------------------------

_EXTERNAL_DNS = "external-dns.alpha.kubernetes.io/"
DNS_NAMES = (f"{_EXTERNAL_DNS}hostname", f"{_EXTERNAL_DNS}internal-hostname")
_SNIPPET = re.compile(r"[/-]snippets?$")
PROXY_CONFIG = "haproxy-ingress.github.io/config-"
ALIAS_ENDS = ("/server-alias", "/server-alias-regex")
MANY_MARKS = "*~^("
"""What an alias has that stands for many hosts."""


def _external_dns(obj: Object, _facts: Facts) -> Iterator[Finding]:
    for key, value in annotations_of(obj).items():
        if key in DNS_NAMES and value:
            path = f'metadata.annotations["{key}"]'
            problem = f"{path} {value} is a name for all; other virtual clusters may claim it too"
            yield Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.EXTERNAL_DNS, _SHARED)


def _dns_endpoint(_obj: Object, _facts: Facts) -> Iterator[Finding]:
    problem = "kind DNSEndpoint writes names for all; other virtual clusters may claim them too"
    yield Finding(Code.KIND_FORBIDDEN, "kind", problem, Guard.EXTERNAL_DNS, _SHARED)


def _snippets(obj: Object, _facts: Facts) -> Iterator[Finding]:
    for key in annotations_of(obj):
        if _SNIPPET.search(key) or key.startswith(PROXY_CONFIG):
            path = f'metadata.annotations["{key}"]'
            problem = f"{path} writes the configuration of a proxy that all share"
            yield Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.PROXY_SNIPPETS)


def _hosts(path: str, *, is_needed: bool) -> _Check:
    """Find hosts at a path that stand for many; is_needed: none at all stands for all."""
    parent, _, last = path.rpartition(".")

    def check(obj: Object, _facts: Facts) -> Iterator[Finding]:
        holders = values_at(obj, parent) if parent else iter([("", obj)])
        for where, holder in holders:
            value = dig(holder, last.removesuffix("[]"))
            here = f"{where}.{last}" if where else last
            if is_needed and not value:
                yield _many(f"{here} is not set, which means every host", here)
            for host in value if isinstance(value, list) else [value]:
                if isinstance(host, str) and host.startswith("*"):
                    yield _many(f'{here} "{host}" means many hosts', here)

    return check


def _ingress(obj: Object, facts: Facts) -> Iterator[Finding]:
    if dig(obj, "spec", "defaultBackend") and not dig(obj, "spec", "rules"):
        path = "spec.defaultBackend"
        yield _many(f"{path} without rules means every host", path)
    yield from _hosts("spec.rules[].host", is_needed=True)(obj, facts)
    for key, value in annotations_of(obj).items():
        if key.endswith(ALIAS_ENDS) and any(mark in str(value) for mark in MANY_MARKS):
            path = f'metadata.annotations["{key}"]'
            yield _many(f"{path} {value} means many hosts", path)


def _many(problem: str, path: str) -> Finding:
    problem = f"{problem}, those of other virtual clusters too"
    return Finding(Code.HOST_FORBIDDEN, path, problem, Guard.WILDCARD_HOSTS, NoticeCode.HOST_SHARED)


_ROUTE = (_hosts("spec.hostnames[]", is_needed=False),)

_BY_KIND: Mapping[tuple[str, str], tuple[_Check, ...]] = {
    ("", "PersistentVolume"): (_volume,),
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent"): (_snapshot_content,),
    ("", "Service"): (_service,),
    ("", "Endpoints"): (_endpoints,),
    ("discovery.k8s.io", "EndpointSlice"): (_endpoints,),
    ("networking.k8s.io", "Ingress"): (_ingress,),
    ("externaldns.k8s.io", "DNSEndpoint"): (_dns_endpoint,),
    (GATEWAY_GROUP, "Gateway"): (_hosts("spec.listeners[].hostname", is_needed=True),),
    **{(GATEWAY_GROUP, kind): _ROUTE for kind in ("HTTPRoute", "GRPCRoute", "TLSRoute")},
}
_OF_ALL: tuple[_Check, ...] = (_default_class, _external_dns, _snippets)


def nothing_of_host(_address: Any) -> bool:
    """Know no addresses, as where nobody says what the host has."""
    return False
