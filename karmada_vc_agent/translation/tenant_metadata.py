"""Labels and annotations by which a tenant would configure the host (ADR 23).

Those of a Namespace switch policy engines, meshes and admission plugins on and off; those of a
ClusterRole aggregate it into roles of the host. What is not known to be harmless is dropped.
"""

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase

from karmada_vc_agent.model import domain, karmada, tenancy
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.well_known import NAMESPACE_NAME_LABEL
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
"""Keys without a domain by which well-known controllers exclude or include a namespace."""
_POD_SECURITY = (POD_SECURITY_LABEL, f"{POD_SECURITY_LABEL}-version")
_AGGREGATE = "aggregate"


def confine_namespace(
    obj: Object, profile: str, allowed: Iterable[str], pod_security: str
) -> Iterator[Notice]:
    """Drop from a Namespace, in place, what would configure the host; yield a notice for it.

    profile: the setting `tenancy`. allowed: patterns of the setting `namespaceKeys`. pod_security:
    of the virtual cluster; it wins over a label for the same.
    """

    def stays(key: str) -> bool:
        if pod_security and key in _POD_SECURITY:
            return False
        return _is_own(key) or _passes(key, profile, allowed)

    dropped = [*_drop(obj, "labels", stays), *_drop(obj, "annotations", stays)]
    return _dropped(dropped, 'an administrator can allow them with "namespaceKeys"')


def tenants_patterns(profile: str, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return patterns of what tenants may change of a Namespace through the gateway.

    Fewer than Works may contain: Pod Security decides what pods may do to nodes, and Karmada's
    own keys are Karmada's. profile, allowed: as above.
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


def confine_cluster_role(obj: Object) -> Iterator[Notice]:
    """Drop from a ClusterRole, in place, all foreign labels; yield a notice for aggregation."""
    dropped = [key for key in _drop(obj, "labels", _is_own) if _AGGREGATE in key]
    return _dropped(dropped, "they would aggregate the role into roles of the host")


def _dropped(dropped: list[str], hint: str) -> Iterator[Notice]:
    if dropped:
        detail = f"dropped {', '.join(dropped)}; {hint}"
        yield Notice(NoticeCode.METADATA_DROPPED, detail)


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
