"""The result of translating a manifest, and the strategy that applies it."""

from dataclasses import dataclass
from enum import Enum

from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.notices import Notice
from karmada_vc_agent.translation.refusal import Refusal, RefusedError
from karmada_vc_agent.translation.retained import assert_placement
from karmada_vc_agent.translation.translate import HostObject, Skipped
from karmada_vc_agent.work.failure import Failure
from karmada_vc_agent.work.host_objects import Check


class Strategy(Enum):
    """How manifests of one sort are applied and removed (work/strategies.py)."""

    OBJECT = "Writes an object of a single Work"
    SERVICE = "Writes a Service; lets the host choose in place of fixed node ports that are taken"
    NAMESPACE = "Passes manifests to the only writer of namespaces, which claims them"
    SHARED = "Joins and leaves the one host object, which several virtual clusters own"
    BINDINGS = "Writes the RoleBindings that represent a ClusterRoleBinding"

    @property
    def waits_for_window(self) -> bool:
        """New generations wait for the window of their virtual cluster."""
        return self in (Strategy.OBJECT, Strategy.SERVICE)


@dataclass(frozen=True, slots=True)
class Target:
    """The result of translating a manifest, and everything that is needed to apply it.

    objects: the host objects; one, but any number for a converted manifest. resource: of their
    kind. depends_on_claims, notices: see HostObject.
    """

    strategy: Strategy
    vc: VirtualCluster
    manifest: Object
    context: TranslationContext
    resource: Resource
    objects: tuple[HostObject, ...]
    depends_on_claims: bool = False
    notices: tuple[Notice, ...] = ()

    @property
    def object(self) -> HostObject:
        """The object of a manifest that was not converted."""
        return self.objects[0]

    @property
    def work(self) -> str:
        """`<execution namespace>/<work>` of the manifest."""
        return self.context.work

    def as_user(self, translated: HostObject) -> str:
        """Return the user whose rights an object is written with; "" = the agent itself."""
        account = self.vc.apply_as
        if account is None or translated.is_system:
            return ""
        if account.is_default and not translated.host_key.namespace:
            return ""
        return account.user

    def check_of(self, translated: HostObject) -> Check:
        """Return the function that asserts the rules on an object again after Retain."""

        def check(retained: Object, live: Object | None) -> Object:
            asserted = assert_placement(retained, translated, live, self.context)
            if isinstance(asserted, Refusal):
                raise RefusedError(asserted.code, asserted.path, asserted.detail)
            return asserted.obj

        return check


@dataclass(slots=True)
class WorkManifest:
    """One manifest of a Work in one reconcile.

    work: `<execution namespace>/<work>`. ordinal: of the first manifest in it for the same object.
    is_known: whether the hub has that all of this generation of the Work was applied.
    translation: its result or the reason why there is none, None before the only translation
    (work/manifests.py).
    """

    vc: VirtualCluster
    manifest: Object
    work: str
    ordinal: int = 0
    is_known: bool = False
    translation: Target | Failure | Skipped | None = None
