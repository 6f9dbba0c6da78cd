"""Refusal and its codes."""

from dataclasses import dataclass
from enum import StrEnum

from karmada_vc_agent.model.objects import namespaced_name


class Code(StrEnum):
    """Why a manifest must not be applied (rewriting-rules 7); also the reason of the event."""

    NODE_SELECTOR_CONFLICT = "NodeSelectorConflict"
    NODE_AFFINITY_CONFLICT = "NodeAffinityConflict"
    NODE_NAME_FORBIDDEN = "NodeNameForbidden"
    NODE_SCOPE_FORBIDDEN = "NodeScopeForbidden"
    NODE_OVERLAP = "NodeOverlap"
    NAMESPACE_FORBIDDEN = "NamespaceForbidden"
    NAMESPACE_MISSING = "NamespaceMissing"
    NAMESPACE_NOT_OWNED = "NamespaceNotOwned"
    NAMESPACE_CLAIM_CONFLICT = "NamespaceClaimConflict"
    NAMESPACE_HELD = "NamespaceHeld"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    MANIFEST_INVALID = "ManifestInvalid"
    KIND_FORBIDDEN = "KindForbidden"
    SHARED_OBJECT_CONFLICT = "SharedObjectConflict"
    SHARED_HOST_CONFLICT = "SharedHostConflict"
    SUBJECT_FORBIDDEN = "SubjectForbidden"
    VOLUME_FORBIDDEN = "VolumeForbidden"
    ADDRESS_FORBIDDEN = "AddressForbidden"
    HOST_FORBIDDEN = "HostForbidden"
    RULE_FORBIDDEN = "RuleForbidden"
    NAME_RESERVED = "NameReserved"
    REFERENCE_FORBIDDEN = "ReferenceForbidden"
    IMMUTABLE = "Immutable"
    BOUND_EXCEEDED = "BoundExceeded"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a manifest must not be applied: code, place and reason.

    path: JSON path inside the manifest, "" for the whole object.
    detail: a sentence for users, with names of the virtual cluster only.
    about: the one thing on the host that it depends on, by name; never shown.
    """

    code: Code
    path: str
    detail: str
    about: str = ""

    def text(self, vc: str, kind: str, namespace: str, name: str) -> str:
        """Return the full sentence for conditions, events and the gateway's answers.

        namespace: the virtual one, "" for cluster-scoped objects. Source: rewriting-rules 7.
        """
        target = f"{kind} {namespaced_name(namespace, name)}"
        return f'virtual cluster "{vc}" refused {target}: {self.code}: {self.detail}'


class RefusedError(Exception):
    """Carries a Refusal from a step up to translate(), the only catcher."""

    def __init__(self, code: Code, path: str, detail: str, about: str = "") -> None:
        """Create the Refusal to carry."""
        self.refusal = Refusal(code, path, detail, about)
        super().__init__(f"{code}: {detail}")
