"""What a manifest of a Work became, and by which strategy it is kept on the host."""

from dataclasses import dataclass
from typing import Protocol

from karmada_vc_agent.apply.failure import Failure
from karmada_vc_agent.apply.host_objects import Applied, Check
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.planning.apply_plan import Foreign
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.notices import Notice
from karmada_vc_agent.translation.refusal import Refusal, RefusedError
from karmada_vc_agent.translation.retained import assert_placement
from karmada_vc_agent.translation.translate import HostObject, Skipped


class Strategy(Protocol):
    """How manifests of one sort are kept on the host."""

    async def apply(self, target: "Target") -> Applied | Foreign | None:
        """Make the host right; None where the manifest counts as applied without an object.

        Raises RefusedError, RetryError, RecreationError, InterpretationError, KubeError.
        """

    def cached(self, target: "Target") -> Object | None:
        """Return the live object if an informer has it and it is this Work's; no request."""

    async def remove(self, target: "Target", *, preserve: bool) -> None:
        """Delete what `apply` made, or leave it there without our marks.

        Raises RetryError, InterpretationError, KubeError.
        """


@dataclass(frozen=True, slots=True)
class Target:
    """What a manifest became, and all that a strategy needs to bring it there.

    objects: what stands for the manifest on the host; one, but of a converted manifest any
    number. resource: of their kind. depends_on_claims, notices: see HostObject.
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
        """`<execution namespace>/<work>` that brings the manifest."""
        return self.context.work

    def as_user(self, translated: HostObject) -> str:
        """Return the user with whose rights an object is written; empty = the agent itself."""
        account = self.vc.apply_as
        if account is None or translated.is_system:
            return ""
        if account.is_default and not translated.host_key.namespace:
            return ""
        return account.user

    def check_of(self, translated: HostObject) -> Check:
        """Return what asserts the rules of an object again, once it is retained."""

        def check(retained: Object, live: Object | None) -> Object:
            asserted = assert_placement(retained, translated, live, self.context)
            if isinstance(asserted, Refusal):
                raise RefusedError(asserted.code, asserted.path, asserted.detail)
            return asserted.obj

        return check


@dataclass(slots=True)
class WorkManifest:
    """One manifest of a Work in one reconcile.

    work: `<execution namespace>/<work>`. ordinal: of the first manifest in it that names this
    object. translation: what it became or why it became nothing,
    None before it was asked for: it is asked for once (apply/translator.py).
    """

    vc: VirtualCluster
    manifest: Object
    work: str
    ordinal: int = 0
    translation: Target | Failure | Skipped | None = None
