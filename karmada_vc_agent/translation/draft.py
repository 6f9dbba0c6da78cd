"""A manifest during translation: its steps, and notices for its user.

A notice refuses nothing; execution writes it as a Warning event on the Work (rewriting-rules 7).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from karmada_vc_agent.model.domain import REWRITE_DNS_ANNOTATION
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.translation import dns_names, kind_paths, rbac_rules
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.kind_paths import NamespaceReferences
from karmada_vc_agent.translation.kind_policy import Policy, Refusal
from karmada_vc_agent.translation.names import Direction
from karmada_vc_agent.translation.shared_names import SharedName, Space

REFERENCES_MAX = 5
"""Maximum number of notices about references in one manifest."""

_NAMESPACE_KEY = re.compile(r"([a-z0-9]N|n)amespaces?(Name|s)?")
_BUILT_IN_GROUPS = frozenset({"", "apps", "batch", "autoscaling", "policy", "extensions"})
_BUILT_IN_ENDING = ".k8s.io"


class NoticeCode(StrEnum):
    """Reasons of the events about applied manifests."""

    CONTROLLER_RIGHTS = "ControllerRights"
    HOST_SHARED = "HostShared"
    IMMEDIATE_BINDING = "ImmediateBinding"
    NODE_PORT_REASSIGNED = "NodePortReassigned"
    REFERENCE_NOT_REWRITTEN = "ReferenceNotRewritten"
    RULE_CUT = "RuleCut"
    RULE_PATH_SHARED = "RulePathShared"
    SHARED_ADDRESS = "SharedAddress"
    METADATA_DROPPED = "MetadataDropped"
    OWNED_ELSEWHERE = "OwnedElsewhere"


_SHARED = {
    Space.HOST: (
        NoticeCode.HOST_SHARED,
        "the host's gateway or ingress controller decides which of the two gets requests",
    ),
    Space.REST_PATH: (
        NoticeCode.RULE_PATH_SHARED,
        "KubeEdge distinguishes the two by the namespace in the URL, which is that of the host",
    ),
}


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice; detail contains virtual names only."""

    code: NoticeCode
    detail: str


def node_port_reassigned(desired: int, actual: int) -> Notice:
    """Report that a fixed node port is taken on the host (4.3)."""
    detail = f"node port {desired} is taken on the host; port {actual} is used instead"
    return Notice(NoticeCode.NODE_PORT_REASSIGNED, detail)


def shared_name(name: SharedName) -> Notice:
    """Report that another virtual cluster uses the same host or REST path (4.1, 4.3)."""
    code, consequence = _SHARED[name.space]
    who = f"{name.space} {name.name} is also used by another virtual cluster"
    return Notice(code, f"{who}; {consequence}")


def owned_elsewhere(owners: str) -> Notice:
    """Report that something else owns an adopted object still, such as `EdgeApplication web`."""
    detail = (
        f"its object on the host is owned by {owners}, which may change it and takes it along "
        "when it is deleted: delete the owner with --cascade=orphan"
    )
    return Notice(NoticeCode.OWNED_ELSEWHERE, detail)


def rules_cut(manifest: Object, context: TranslationContext) -> Iterator[Notice]:
    """Report the rules that were cut (`RuleCut`)."""
    rules = manifest.get("rules")
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        cut = list(rbac_rules.beyond(rule, context.allow_in_strict))
        if cut:
            detail = (
                f"rules[{index}] was cut to what a virtual cluster may grant; removed: "
                f"{'; '.join(cut)}"
            )
            yield Notice(NoticeCode.RULE_CUT, detail)


def immediate_binding(manifest: Object, _context: TranslationContext) -> Iterator[Notice]:
    """Report volumes that are provisioned before a pod is scheduled (`ImmediateBinding`)."""
    if manifest.get("volumeBindingMode") in (None, "", "Immediate"):
        yield Notice(
            NoticeCode.IMMEDIATE_BINDING,
            "volumes are provisioned before a pod is scheduled, possibly out of reach of the "
            "nodes of this virtual cluster: set volumeBindingMode WaitForFirstConsumer",
        )


def unknown_places(obj: Object) -> Iterator[Notice]:
    """Report invalid values of the annotation `D/rewrite-dns` (4.3)."""
    for place in dns_names.places_of(obj):
        if place not in dns_names.PLACES:
            valid = ", ".join(dns_names.PLACES)
            detail = f'annotation {REWRITE_DNS_ANNOTATION} contains "{place}"; valid are {valid}'
            yield Notice(NoticeCode.REFERENCE_NOT_REWRITTEN, detail)


def unknown_references(
    obj: Object,
    gvk: GroupVersionKind,
    namespaces: Collection[str],
    configured: tuple[NamespaceReferences, ...],
) -> Iterator[Notice]:
    """Report values that look like a namespace of this virtual cluster but are in no table (4.1).

    The tables are complete for Kubernetes' own kinds. namespaces: virtual names.
    """
    if gvk.group in _BUILT_IN_GROUPS or gvk.group.endswith(_BUILT_IN_ENDING):
        return
    rows = kind_paths.references_of(gvk.group_kind, configured)
    listed = {_without_indices(row.path) for row in rows}
    unlisted = (
        (path, value)
        for path, value in _named_namespaces(obj.get("spec"), "spec", "")
        if value in namespaces
        and not any(_without_indices(path).startswith(prefix) for prefix in listed)
    )
    for _, (path, value) in zip(range(REFERENCES_MAX), unlisted, strict=False):
        detail = (
            f'{path} is "{value}", the name of a namespace of this virtual cluster, and is not '
            "rewritten: if it refers to that namespace, add the path to namespaceReferences"
        )
        yield Notice(NoticeCode.REFERENCE_NOT_REWRITTEN, detail)


def _named_namespaces(value: Any, path: str, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _named_namespaces(inner, f"{path}.{name}", str(name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _named_namespaces(inner, f"{path}[{index}]", key)
    elif isinstance(value, str) and _NAMESPACE_KEY.search(key):
        yield path, value


def _without_indices(path: str) -> str:
    return re.sub(r"\[[^]]*\]|\{\}", "", path)


@dataclass(slots=True)
class Draft:
    """A manifest on its way to the host, or a host object on its way back, changed in place.

    inside: translates, or restores, an embedded manifest.
    """

    obj: Object
    gvk: GroupVersionKind
    context: TranslationContext
    direction: Direction
    inside: Callable[[Object], Object | Refusal]
    namespaced: bool = True
    policy: Policy = Policy.REFUSE
    virtual_namespace: VirtualNamespace = field(default=VirtualNamespace(""))
    depends_on_claims: bool = False
    notices: list[Notice] = field(default_factory=list)


Step = Callable[[Draft], None]


@dataclass(frozen=True, slots=True)
class OwnSteps:
    """The additional steps of one kind, in the order in which they run.

    strip: after fields that tenants may not write are dropped. metadata: after the name is mapped.
    inside: for embedded manifests, before references. rewrite: after references. place: after pods.
    notices: about the original manifest. restore: on the way back, before references.
    """

    strip: Step | None = None
    metadata: Step | None = None
    inside: Step | None = None
    rewrite: Step | None = None
    place: Step | None = None
    notices: Callable[[Object, TranslationContext], Iterable[Notice]] | None = None
    restore: Step | None = None
