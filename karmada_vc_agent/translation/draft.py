"""A manifest during translation: its steps, and notices for its user."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.kind_policy import Policy, Refusal
from karmada_vc_agent.translation.names import Direction


class NoticeCode(StrEnum):
    """Reasons of the events about applied manifests."""

    CONTROLLER_RIGHTS = "ControllerRights"
    HOST_SHARED = "HostShared"
    IMMEDIATE_BINDING = "ImmediateBinding"
    NODE_PORT_REASSIGNED = "NodePortReassigned"
    REFERENCE_NOT_REWRITTEN = "ReferenceNotRewritten"
    RULE_CUT = "RuleCut"
    SHARED_ADDRESS = "SharedAddress"
    METADATA_DROPPED = "MetadataDropped"
    OWNED_ELSEWHERE = "OwnedElsewhere"


@dataclass(frozen=True, slots=True)
class Notice:
    """A Warning event on the Work, which refuses nothing; detail has virtual names only."""

    code: NoticeCode
    detail: str


def node_port_reassigned(desired: int, actual: int) -> Notice:
    """Report that a fixed node port is taken on the host (4.3)."""
    detail = f"node port {desired} is taken on the host; port {actual} is used instead"
    return Notice(NoticeCode.NODE_PORT_REASSIGNED, detail)


def shared_name(host: str) -> Notice:
    """Report that another virtual cluster uses the same host (4.1)."""
    detail = (
        f"host {host} is also used by another virtual cluster; the host's gateway or ingress "
        "controller decides which of the two gets requests"
    )
    return Notice(NoticeCode.HOST_SHARED, detail)


def owned_elsewhere(owners: str) -> Notice:
    """Report that something else owns an adopted object still, such as `EdgeApplication web`."""
    detail = (
        f"its object on the host is owned by {owners}, which may change it and takes it along "
        "when it is deleted: delete the owner with --cascade=orphan"
    )
    return Notice(NoticeCode.OWNED_ELSEWHERE, detail)


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
