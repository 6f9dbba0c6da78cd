"""Host namespaces in which an administrator stopped the agent, by an annotation (ADR 43)."""

import re

from karmada_vc_agent.cluster.claims import Claims, claim_of
from karmada_vc_agent.kube.errors import ForbiddenError
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.domain import HOLD_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of

_PLACE = re.compile(r"/namespaces/([^/]+)")
_OFF = frozenset(("", "false"))
REASON_AT_MOST = 200


class HeldError(ForbiddenError):
    """An administrator stopped the agent in this namespace; nothing was sent.

    namespace: its name on the host. hold: why, as the administrator says.
    """

    is_intended = True

    def __init__(self, namespace: str, hold: str) -> None:
        super().__init__(403, "Held", f"an administrator holds the namespace: {hold}")
        self.namespace = namespace
        self.hold = hold


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

    def refusal(self, path: str) -> HeldError | None:
        """Return the error of a write to a path of the host in a held namespace, else None."""
        match = _PLACE.search(path)
        if match is None or self._claims.on(match[1]) is None:
            return None
        reason = hold_of(self._claims.store.get("", match[1]))
        return None if reason is None else HeldError(match[1], reason)

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
