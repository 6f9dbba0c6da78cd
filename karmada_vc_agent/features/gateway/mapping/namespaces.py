"""Namespaces of one virtual cluster, both ways, with its anchor (G-30, G-33, G-42)."""

from collections.abc import Callable
from functools import cache

from karmada_vc_agent.features.gateway.mapping.exchange import Unknown, View
from karmada_vc_agent.translation.names import ANCHOR_NAMESPACE
from karmada_vc_agent.translation.refusal import RefusedError

KUBE_SYSTEM = "kube-system"
"""What a virtual cluster calls its anchor."""
NOWHERE = "-"
"""No name of a namespace: selects nothing."""


def claimed(view: View, namespace: str) -> str | None:
    """Return the host namespace of a virtual one that exists: claimed, or the anchor."""
    if namespace == KUBE_SYSTEM:
        return view.anchor
    return None if namespace == ANCHOR_NAMESPACE else view.host_namespace(namespace)


def host_name(view: View, namespace: str) -> str:
    """Return the host namespace of a virtual one, existing or not; NOWHERE: it can have none."""
    return host_names(view)(namespace)


def host_names(view: View) -> Callable[[str], str]:
    """Return what is host_name() for many: the facts about the cluster are put together once."""
    anchor, names = view.anchor, view.context().names()

    def host(namespace: str) -> str:
        existing = claimed(view, namespace)
        if existing is not None:
            return existing
        try:
            computed = names.host_namespace(namespace)
        except RefusedError:
            return NOWHERE
        return NOWHERE if computed == anchor else computed

    return cache(host)


def virtual_name(view: View, host: str) -> str | Unknown | None:
    """Return the virtual name of a host namespace, also of the anchor; None: of others."""
    return KUBE_SYSTEM if host == view.anchor else view.virtual_namespace(host)
