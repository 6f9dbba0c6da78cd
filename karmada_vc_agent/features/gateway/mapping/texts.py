"""Texts of the host for a client: Status, warnings (G-48)."""

import re

from karmada_vc_agent.features.gateway.mapping.exchange import View
from karmada_vc_agent.features.gateway.mapping.namespaces import KUBE_SYSTEM
from karmada_vc_agent.model.claimed_namespaces import ClaimedNamespaces
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.names import ANCHOR_NAMESPACE, Names
from karmada_vc_agent.translation.rbac import CONVERTED_PREFIX, everyone, identity_prefix
from karmada_vc_agent.translation.restore import restore_text

HIDDEN = "another-namespace"
"""Replaces the namespace of a neighbour."""
_NAMESPACE = re.compile(r"(?<![A-Za-z0-9-])[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?![A-Za-z0-9-])")
_IDENTITY = re.compile(r"\bvc:(?!apply-as\b)[a-z0-9-]+(?![A-Za-z0-9-])")
_ACCOUNT = re.compile(r"\bsystem:serviceaccount:([A-Za-z0-9.-]+):[A-Za-z0-9.-]+")
_NEIGHBOUR = "another-identity"


def claims_with_anchor(context: TranslationContext, anchor: str) -> ClaimedNamespaces:
    """Return the claims for the way back: the anchor is shown as `kube-system`."""
    claims = ClaimedNamespaces(context.claims)
    claims.pop(ANCHOR_NAMESPACE, None)
    claims[VirtualNamespace(KUBE_SYSTEM)] = HostNamespace(anchor)
    return claims


class Texts:
    """Maps texts of the host under the facts of one moment."""

    def __init__(self, view: View, names: Names) -> None:
        self._view = view
        self._names = names
        self._prefix = identity_prefix(view.name)

    def text(self, text: str) -> str:
        """Return a text in virtual names, without the prefix of users and the names of others."""
        text = restore_text(text, self._names)
        text = text.replace(self._prefix, "").replace(CONVERTED_PREFIX, "")
        text = _IDENTITY.sub(self._identity, text)
        text = _ACCOUNT.sub(self._account, text)
        return _NAMESPACE.sub(self._hide, text)

    def status(self, status: Object) -> Object:
        """Map a Status in place."""
        if isinstance(status.get("message"), str):
            status["message"] = self.text(status["message"])
        details = status.get("details")
        if isinstance(details, dict):
            if isinstance(details.get("name"), str):
                details["name"] = self.text(details["name"])
            for cause in details.get("causes") or ():
                if isinstance(cause, dict) and isinstance(cause.get("message"), str):
                    cause["message"] = self.text(cause["message"])
        return status

    def _identity(self, match: re.Match[str]) -> str:
        is_own = match[0] == everyone(self._view.name)
        return "system:authenticated" if is_own else _NEIGHBOUR

    def _account(self, match: re.Match[str]) -> str:
        """Hide the accounts of others, such as the gateway's own."""
        return match[0] if match[1] in self._names.claims else _NEIGHBOUR

    def _hide(self, match: re.Match[str]) -> str:
        return HIDDEN if self._view.is_others(match[0]) else match[0]
