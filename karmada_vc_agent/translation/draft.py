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
    restore: Callable[["Returning"], None] | None = None


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
