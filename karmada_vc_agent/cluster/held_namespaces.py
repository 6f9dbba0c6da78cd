"""Host namespaces in which an administrator stopped the agent, by an annotation (ADR 43)."""

import re

from karmada_vc_agent.cluster.claims import Claims, claim_of
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.domain import HOLD_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of

_PLACE = re.compile(r"/namespaces/([^/]+)")
_OFF = frozenset(("", "false"))
REASON_AT_MOST = 200


def hold_of(namespace: Object | None) -> str | None:
    """Return why a host namespace is held, None if it is not."""
    text = annotations_of(namespace or {}).get(HOLD_ANNOTATION, "")
    if text in _OFF:
        return None
    return text[:REASON_AT_MOST]


class HeldNamespaces:
    """The claimed namespaces that are held.

    changed: a virtual cluster, its namespace, and the reason; None = held no more.
    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self.changed: Signal[[str, str, str | None]] = Signal()
        claims.store.add_handler(self._namespace_changed)

    def by_path(self, path: str) -> tuple[str, str] | None:
        """Return namespace and reason if what lies at a path of the host is held."""
        found = _PLACE.search(path)
        if found is None or self._claims.on(found[1]) is None:
            return None
        reason = hold_of(self._claims.store.get("", found[1]))
        return None if reason is None else (found[1], reason)

    def of(self, cluster: str) -> list[str]:
        """Return the held namespaces of a virtual cluster by their virtual names, and why."""
        return [
            f"{virtual} ({reason})"
            for virtual, host in sorted(self._claims.of(cluster).items())
            if (reason := hold_of(self._claims.store.get("", host))) is not None
        ]

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = hold_of(old), hold_of(new)
        claim = claim_of(new or old or {})
        if before != after and claim is not None:
            self.changed.emit(claim.cluster, claim.namespace, after)
