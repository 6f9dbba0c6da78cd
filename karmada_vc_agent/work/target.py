"""The result of translating a manifest, and the strategy that applies it."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.notices import Notice
from karmada_vc_agent.translation.refusal import Refusal, RefusedError
from karmada_vc_agent.translation.retained import assert_placement
from karmada_vc_agent.translation.translate import HostObject, Skipped
from karmada_vc_agent.work.failure import Failure
from karmada_vc_agent.work.host_objects import Applied, Check
from karmada_vc_agent.work.rules.apply_plan import Foreign


class Strategy(Protocol):
    """How manifests of one sort are applied and removed.

    waits_for_window: whether new generations wait for the window of their virtual cluster.
    """

    waits_for_window: ClassVar[bool]

    async def apply(self, target: "Target") -> Applied | Foreign | None:
        """Align the host; None if the manifest counts as applied without an object.

        Raises RefusedError, RetryError, RecreationError, InterpretationError, KubeError.
        """

    def cached(self, target: "Target") -> Object | None:
        """Return the live object if an informer has it and it belongs to this Work; no request."""

    async def remove(self, target: "Target", *, preserve: bool) -> None:
        """Delete what `apply` created, or release it if `preserve`.

        Raises RetryError, InterpretationError, KubeError.
        """


@dataclass(frozen=True, slots=True)
class Target:
    """The result of translating a manifest, and everything that a strategy needs to apply it.

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
    (work/translator.py).
    """

    vc: VirtualCluster
    manifest: Object
    work: str
    ordinal: int = 0
    is_known: bool = False
    translation: Target | Failure | Skipped | None = None
