"""Why a manifest could not be applied, in virtual names."""

from dataclasses import dataclass

from karmada_vc_agent.model.objects import GroupVersionKind, Object, key_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.refusal import Code, Refusal
from karmada_vc_agent.work.dependencies import OF_CONTENT, Dependency, Named, kind_of
from karmada_vc_agent.work.rules.ownership import conflict_text


@dataclass(frozen=True, slots=True)
class Failure:
    """A manifest that could not be applied; code: of a refusal, else None.

    is_recreation: its object existed and was deleted by another writer. waits_for: what ends it;
    empty = only something of this manifest. is_final: it is not retried after a delay. is_unserved:
    its kind is not served.
    """

    text: str
    code: Code | None = None
    is_recreation: bool = False
    waits_for: tuple[Dependency, ...] = ()
    is_final: bool = False
    is_unserved: bool = False


def refused(vc: VirtualCluster, manifest: Object, refusal: Refusal) -> Failure:
    """Return the failure of a refused manifest, in virtual names."""
    key, code = key_of(manifest), refusal.code
    text = refusal.text(vc.name, key.gvk.kind, key.namespace, key.name)
    named = (Named(refusal.about),) if refusal.about else ()
    if code is Code.SHARED_OBJECT_CONFLICT:
        # Not all objects of a kind are watched; malformed ones have no certain identity.
        return Failure(text, code, waits_for=named, is_final=not named)
    waits_for = () if code in OF_CONTENT else (vc.name, *named)
    return Failure(text, code, waits_for=waits_for, is_final=True)


def not_served(gvk: GroupVersionKind, text: str = "") -> Failure:
    """Return the failure of a kind that the host does not serve."""
    text = text or f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
    return Failure(text, waits_for=(kind_of(gvk),), is_unserved=True)


def conflict(vc: VirtualCluster, manifest: Object) -> Failure:
    """Return the failure of a manifest whose object belongs to another owner (contract 5.5)."""
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace") or ""
    return Failure(conflict_text(manifest["kind"], namespace, metadata["name"], vc.name))
