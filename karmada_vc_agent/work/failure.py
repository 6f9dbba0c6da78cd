"""Why a manifest could not be applied, in virtual names."""

from dataclasses import dataclass

from karmada_vc_agent.model.objects import Object, key_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.refusal import Code, Refusal
from karmada_vc_agent.work import causes
from karmada_vc_agent.work.causes import Cause
from karmada_vc_agent.work.grounds import Dependency, depending_on
from karmada_vc_agent.work.rules.ownership import conflict_text


@dataclass(frozen=True, slots=True)
class Failure:
    """A manifest that could not be applied; code: of a refusal, else None.

    is_recreation: its object existed and was deleted by somebody. cause: shared with other Works,
    None = specific to this manifest. depends_on: what ends a refusal.
    """

    text: str
    code: Code | None = None
    is_recreation: bool = False
    cause: Cause | None = None
    depends_on: tuple[Dependency, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether retrying after a delay is useless."""
        return self.code is not None and self.cause is None


def refused(vc: VirtualCluster, manifest: Object, refusal: Refusal) -> Failure:
    """Return the failure of a refused manifest, in virtual names."""
    key = key_of(manifest)
    code, cause = refusal.code, None
    if code is Code.SHARED_OBJECT_CONFLICT and refusal.about:
        cause = Cause(
            vc.name, causes.OBJECTS, refusal.about
        )  # malformed objects have no certain identity
    return Failure(
        refusal.text(vc.name, key.gvk.kind, key.namespace, key.name),
        code,
        cause=cause,
        depends_on=tuple(depending_on(code, vc.name, refusal.about)),
    )


def conflict(vc: VirtualCluster, manifest: Object) -> Failure:
    """Return the failure of a manifest whose object belongs to somebody else (contract 5.5)."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace") or ""
    return Failure(conflict_text(manifest["kind"], namespace, metadata["name"], vc.name))
