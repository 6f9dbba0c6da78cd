"""Labels and annotations by which a tenant would configure the host (ADR 23).

Those of a Namespace switch policy engines, meshes and admission plugins on and off; those of a
ClusterRole aggregate it into roles of the host. Only what is listed as harmless stays.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from karmada_vc_agent.model import domain, karmada, tenancy
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.well_known import NAMESPACE_NAME_LABEL
from karmada_vc_agent.translation.draft import Draft, Returning
from karmada_vc_agent.translation.namespace_defaults import POD_SECURITY_LABEL
from karmada_vc_agent.translation.notices import Notice, NoticeCode

_SHARED_PATTERNS = (
    *("app.kubernetes.io/*", "helm.sh/*", "meta.helm.sh/*"),
    *("kubectl.kubernetes.io/*", "kubernetes.io/description"),
    "pod-security.kubernetes.io/*",
)
_POD_SECURITY_DOMAIN = "pod-security.kubernetes.io/"
PLAIN = "/"
"""Among patterns: keys without a domain; no key is so."""
DECISIONS = frozenset({"control-plane", "istio-injection"})
"""Keys without a domain by which common controllers exclude or include a namespace."""
_POD_SECURITY = (POD_SECURITY_LABEL, f"{POD_SECURITY_LABEL}-version")
_AGGREGATE = "aggregate"


def confine_namespace(draft: Draft) -> None:
    """Drop labels and annotations that may configure the host (ADR 23).

    A level of Pod Security in the settings wins over a label for the same.
    """
    settings, pod_security = draft.context.settings, draft.context.vc.pod_security

    def stays(key: str) -> bool:
        if pod_security and key in _POD_SECURITY:
            return False
        return _is_own(key) or _passes(key, settings.tenancy, settings.namespace_keys)

    (draft.obj["metadata"].get("labels") or {}).pop(NAMESPACE_NAME_LABEL, None)
    dropped = [*_drop(draft.obj, "labels", stays), *_drop(draft.obj, "annotations", stays)]
    _report(draft, dropped, 'an administrator can allow them with "namespaceKeys"')


def restore_namespace(returning: Returning) -> None:
    """Restore the virtual name in label `kubernetes.io/metadata.name`."""
    metadata = returning.obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if NAMESPACE_NAME_LABEL in labels and metadata.get("name"):
        labels[NAMESPACE_NAME_LABEL] = metadata["name"]


def tenants_patterns(profile: str, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return patterns of what tenants may change of a Namespace through the gateway.

    Fewer than Works may contain: Pod Security decides what pods may do to nodes, and Karmada's
    own keys are Karmada's. profile: setting `tenancy`. allowed: setting `namespaceKeys`.
    """
    shared = () if profile == tenancy.STRICT else (PLAIN, *_SHARED_PATTERNS)
    kept = (each for each in (*shared, *allowed) if not each.startswith(_POD_SECURITY_DOMAIN))
    return tuple(dict.fromkeys(kept))


def is_tenants(key: str, patterns: Iterable[str]) -> bool:
    """Whether tenants may change a label or annotation of a Namespace through the gateway."""
    if _is_own(key) or karmada.is_karmada_key(key) or key.startswith(_POD_SECURITY_DOMAIN):
        return False
    if "/" not in key:
        return key not in DECISIONS and (
            PLAIN in patterns or any(fnmatchcase(key, each) for each in patterns)
        )
    return key != NAMESPACE_NAME_LABEL and any(fnmatchcase(key, each) for each in patterns)


def confine_cluster_role(draft: Draft) -> None:
    """Drop all labels but Karmada's and ours: others aggregate it into host roles (ADR 23)."""
    dropped = [key for key in _drop(draft.obj, "labels", _is_own) if _AGGREGATE in key]
    _report(draft, dropped, "they would aggregate the role into roles of the host")


def _report(draft: Draft, dropped: list[str], hint: str) -> None:
    if dropped:
        detail = f"dropped {', '.join(dropped)}; {hint}"
        draft.notices.append(Notice(NoticeCode.METADATA_DROPPED, detail))


def _passes(key: str, profile: str, allowed: Iterable[str]) -> bool:
    if any(fnmatchcase(key, pattern) for pattern in allowed):
        return True
    if profile == tenancy.STRICT:
        return False
    if "/" not in key:
        return key not in DECISIONS
    return any(fnmatchcase(key, pattern) for pattern in _SHARED_PATTERNS)


def _is_own(key: str) -> bool:
    """Whether a key is Karmada's, or ours, which we overwrite anyway."""
    is_ours = domain.is_ours(key) or key == domain.NODE_SELECTOR_ANNOTATION
    return is_ours or karmada.is_in_karmadas_domain(key)


def _drop(obj: Object, field: str, stays: Callable[[str], bool]) -> list[str]:
    pairs = dig(obj, "metadata", field)
    if not isinstance(pairs, dict):
        return []
    dropped = [key for key in pairs if not stays(key)]
    for key in dropped:
        del pairs[key]
    return dropped
