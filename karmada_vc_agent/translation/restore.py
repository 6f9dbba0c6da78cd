"""The way back: host object or identifier -> virtual.

Injected fields (node selector, tolerations, node affinity) stay; dropped fields are lost.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from karmada_vc_agent.model import domain, karmada
from karmada_vc_agent.model.kinds import namespace_field
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    copy_object,
    gvk_of,
    labels_of,
)
from karmada_vc_agent.translation import dns_texts, names
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.draft import Returning
from karmada_vc_agent.translation.names import Names, ToVirtual, is_path
from karmada_vc_agent.translation.own_steps import own_steps
from karmada_vc_agent.translation.references import Rewriter

_TENANTS = frozenset({domain.REWRITE_DNS_ANNOTATION})
_NAME_IN_TEXT = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")


def restore(obj: Object, context: TranslationContext) -> Object:
    """Return a host object as its virtual cluster sees it.

    obj: from the host, with status; not modified. Names are mapped back by claim, by what
    translate() recorded on the object, or by computation; others are not changed.
    """
    obj = copy_object(obj)
    Restorer(context).restore(obj, gvk_of(obj))
    return obj


class Restorer:
    """Restores many objects under the same facts; changes them in place."""

    def __init__(self, context: TranslationContext) -> None:
        self._context = context
        self.names = context.names()
        self._direction = ToVirtual(self.names)
        self._rewriter = Rewriter(context, self._direction)

    def restore(self, obj: Object, gvk: GroupVersionKind, namespace: str = "") -> None:
        """Restore a host object, or a part of one that has metadata, in place.

        namespace: the virtual one, if the caller knows it.
        """
        context, templates = self._context, self._context.settings.pod_templates
        direction, rewriter = self._direction, self._rewriter
        annotations = annotations_of(obj)
        if names.NAMES_ANNOTATION in annotations:
            direction = ToVirtual(names_of(obj, context))
            rewriter = Rewriter(context, direction)
        _restore_namespace(obj, gvk, direction.names, namespace)
        _restore_name(obj)
        if step := own_steps(gvk).restore:
            step(Returning(obj, context, direction, lambda inside: restore(inside, context)))
        rewriter.rewrite(obj, gvk)
        if domain.REWRITE_DNS_ANNOTATION in annotations:
            virtual_names = ((host, virtual) for virtual, host in direction.names.claims.items())
            dns_texts.rewrite_texts(obj, gvk, virtual_names, templates)
        _restore_metadata(obj)


def names_of(obj: Object, context: TranslationContext) -> Names:
    """Return the mapping of names for a host object, including those recorded on it."""
    return context.names(_noted(obj))


def restore_text(text: str, names: Names) -> str:
    """Return a text of the host with virtual names.

    Replaces names of host namespaces and of cluster-scoped objects: claimed, recorded or computed.
    Only whole names are replaced, not parts of longer ones.
    """
    return _text_restorer(names)(text)


def restore_texts(value: Any, names: Names) -> Any:
    """Return a JSON value with restore_text() applied to all of its strings and keys."""
    restored = _text_restorer(names)

    def walk(part: Any) -> Any:
        if isinstance(part, str):
            return restored(part)
        if isinstance(part, dict):
            return {restored(key): walk(inner) for key, inner in part.items()}
        if isinstance(part, list):
            return [walk(inner) for inner in part]
        return part

    return walk(value)


def _text_restorer(names: Names) -> Callable[[str], str]:
    recorded = {host: virtual for host, virtual in names.noted.items() if not is_path(host)}
    recorded |= {host: virtual for virtual, host in names.claims.items()}

    def restored(match: re.Match[str]) -> str:
        word = match[0]
        if word in recorded:
            return recorded[word]
        return ".".join(map(name, word.split(".")))  # each label of a DNS name

    def name(word: str) -> str:
        return recorded.get(word) or names.computed_back(word) or word

    return lambda text: _NAME_IN_TEXT.sub(restored, text)


def _noted(obj: Object) -> dict[str, str]:
    """Return host name -> virtual name as recorded by translate(), without malformed entries."""
    try:
        noted = json.loads(annotations_of(obj).get(names.NAMES_ANNOTATION, "{}"))
    except ValueError:
        return {}
    items = noted.items() if isinstance(noted, dict) else ()
    return {host: virtual for host, virtual in items if isinstance(virtual, str)}


def _restore_namespace(obj: Object, gvk: GroupVersionKind, names: Names, namespace: str) -> None:
    """Restore metadata.namespace, or the name of a Namespace; a claim wins over the label."""
    metadata = obj.get("metadata") or {}
    own = namespace_field(gvk.group_kind)
    host = metadata.get(own)
    if not isinstance(host, str) or not host:
        return
    if namespace:
        metadata[own] = namespace
        return
    labelled = labels_of(obj).get(domain.NAMESPACE_LABEL)
    claimed = names.claimed_namespace(host)
    metadata[own] = claimed or labelled or names.virtual_namespace(host) or host


def _restore_name(obj: Object) -> None:
    """Restore the virtual name of a renamed cluster-scoped object from its annotation."""
    name = annotations_of(obj).get(domain.NAME_ANNOTATION)
    if name and not obj["metadata"].get("namespace"):
        obj["metadata"]["name"] = name


def _restore_metadata(obj: Object) -> None:
    """Remove our labels and annotations; restore those that name the Work."""
    metadata = obj.get("metadata") or {}
    work = annotations_of(obj).get(domain.WORK_ANNOTATION, "")
    for name in ("labels", "annotations"):
        if metadata.get(name) and any(map(domain.is_ours, metadata[name])):
            items = metadata[name].items()
            metadata[name] = {k: v for k, v in items if not domain.is_ours(k) or k in _TENANTS}
    namespace, _, work_name = work.partition("/")
    if work_name:
        annotations = metadata["annotations"]
        annotations[karmada.WORK_NAME_ANNOTATION] = work_name
        annotations[karmada.WORK_NAMESPACE_ANNOTATION] = namespace
    for name in ("labels", "annotations"):
        if name in metadata and not metadata[name]:
            del metadata[name]
