"""A manifest during translation, and the steps that only some kinds have."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.kind_policy import Policy
from karmada_vc_agent.translation.names import ToHost, ToVirtual
from karmada_vc_agent.translation.notices import Notice
from karmada_vc_agent.translation.refusal import Refusal

Step = Callable[["Draft"], None]
Tell = Callable[[Object, TranslationContext], Iterable[Notice]]
"""(original manifest, context) -> what a user should know of it."""
Restore = Callable[["Returning"], None]


def no_step(_draft: "Draft") -> None:
    """Do nothing beyond the common steps."""


def no_notice(_manifest: Object, _context: TranslationContext) -> Iterable[Notice]:
    """Report nothing beyond the common notices."""
    return ()


def no_way_back(_returning: "Returning") -> None:
    """Restore nothing beyond the common steps."""


@dataclass(frozen=True, slots=True)
class OwnSteps:
    """The additional steps of one kind, in the order in which they run.

    strip: after fields that tenants may not write are dropped. metadata: after the name is mapped.
    inside: for embedded manifests, before references. rewrite: after references. place: after pods.
    notices: about the original manifest. restore: on the way back, before references.
    """

    strip: Step = no_step
    metadata: Step = no_step
    inside: Step = no_step
    rewrite: Step = no_step
    place: Step = no_step
    notices: Tell = no_notice
    restore: Restore = no_way_back

    @property
    def holds_manifests(self) -> bool:
        """Whether objects of this kind embed whole manifests."""
        return self.inside is not no_step


@dataclass(slots=True)
class Draft:
    """A manifest on its way to the host; obj is changed in place.

    own: the steps of its kind. translate_inside: translates an embedded manifest.
    """

    obj: Object
    gvk: GroupVersionKind
    namespaced: bool
    context: TranslationContext
    direction: ToHost
    virtual_name: str
    own: OwnSteps
    translate_inside: Callable[[Object, "Draft"], Object | Refusal]
    policy: Policy = Policy.REFUSE
    virtual_namespace: VirtualNamespace = field(default=VirtualNamespace(""))
    depends_on_claims: bool = False
    notices: list[Notice] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Returning:
    """A host object on its way back; obj is changed in place.

    restore_inside: restores an embedded manifest.
    """

    obj: Object
    context: TranslationContext
    direction: ToVirtual
    restore_inside: Callable[[Object], Object]
