"""The way back: host objects in virtual names, and rules after Retain."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    annotations_of,
    copy_object,
    dig,
    gvk_of,
    key_of,
    labels_of,
    metadata_map,
    recorded_in,
)
from karmada_vc_agent.model.vocabulary import namespace_field
from karmada_vc_agent.translation import kind_policy, placement
from karmada_vc_agent.translation.context import (
    NAMES_ANNOTATION,
    Direction,
    Draft,
    Names,
    TranslationContext,
    TranslationSettings,
    is_path,
)
from karmada_vc_agent.translation.kind_policy import Code, Refusal, RefusedError
from karmada_vc_agent.translation.own_steps import own_steps
from karmada_vc_agent.translation.references import rewrite_references
from karmada_vc_agent.translation.translate import HostObject

_TENANTS = frozenset({vocabulary.REWRITE_DNS_ANNOTATION})
_NAME_IN_TEXT = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")


def restore(obj: Object, context: TranslationContext) -> Object:
    """Return a host object, which is not modified, as its virtual cluster sees it.

    Names are mapped back by claim, by what translate() recorded on the object, or by computation.
    Injected fields (node selector, tolerations, node affinity) stay; dropped fields are lost.
    """
    obj = copy_object(obj)
    Restorer(context).restore(obj, gvk_of(obj))
    return obj


class Restorer:
    """Restores many objects under the same facts; changes them in place."""

    def __init__(self, context: TranslationContext) -> None:
        self._context = context
        self.names = context.names()

    def restore(self, obj: Object, gvk: GroupVersionKind, namespace: str = "") -> None:
        """Restore, in place, an object or a part with metadata; namespace: virtual, or ""."""
        context, annotations = self._context, annotations_of(obj)
        own = names_of(obj, context) if NAMES_ANNOTATION in annotations else self.names
        _restore_identity(obj, gvk, own, namespace)
        direction = Direction(own, to_host=False)
        draft = Draft(obj, gvk, context, direction, lambda inside, _outer: restore(inside, context))
        if step := own_steps(gvk).restore:
            step(draft)
        rewrite_references(draft)
        if vocabulary.REWRITE_DNS_ANNOTATION in annotations:
            virtual_names = ((host, virtual) for virtual, host in own.claims.items())
            placement.rewrite_texts(obj, gvk, virtual_names, context.settings.pod_templates)
        _restore_metadata(obj)


def names_of(obj: Object, context: TranslationContext) -> Names:
    """Return the mapping of names for a host object, including those recorded on it."""
    return context.names(recorded_in(obj, NAMES_ANNOTATION, str))


def restore_text(text: str, names: Names) -> str:
    """Return a text of the host with virtual names: claimed, recorded or computed."""
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
        return recorded.get(match[0]) or ".".join(map(label, match[0].split(".")))

    def label(word: str) -> str:
        return recorded.get(word) or names.computed_back(word) or word

    return lambda text: _NAME_IN_TEXT.sub(restored, text)


def _restore_identity(obj: Object, gvk: GroupVersionKind, names: Names, namespace: str) -> None:
    """Restore the namespace, where a claim wins over the label, and the name by its annotation."""
    metadata = obj.get("metadata") or {}
    own = namespace_field(gvk.group_kind)
    host = metadata.get(own)
    if isinstance(host, str) and host:
        labelled = labels_of(obj).get(vocabulary.NAMESPACE_LABEL)
        restored = namespace or names.claimed_namespace(host) or labelled
        metadata[own] = restored or names.virtual_namespace(host) or host
    name = annotations_of(obj).get(vocabulary.NAME_ANNOTATION)
    if name and not metadata.get("namespace"):
        metadata["name"] = name


def _restore_metadata(obj: Object) -> None:
    metadata = obj.get("metadata") or {}
    work = annotations_of(obj).get(vocabulary.WORK_ANNOTATION, "")
    for name in ("labels", "annotations"):
        if metadata.get(name) and any(map(vocabulary.is_ours, metadata[name])):
            items = metadata[name].items()
            metadata[name] = {k: v for k, v in items if not vocabulary.is_ours(k) or k in _TENANTS}
    namespace, _, work_name = work.partition("/")
    if work_name:
        annotations = metadata["annotations"]
        annotations[vocabulary.WORK_NAME_ANNOTATION] = work_name
        annotations[vocabulary.WORK_NAMESPACE_ANNOTATION] = namespace
    for name in ("labels", "annotations"):
        if name in metadata and not metadata[name]:
            del metadata[name]


Parts = Mapping[str, Any]
"""Key -> the Reach below it, or ALL: what is there is looked at as a whole."""
WHOLE: Parts = {}
_METADATA = ("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations")
_MARKS = ("[]", "{}")


def restored_parts(
    gvk: GroupVersionKind, settings: TranslationSettings, more: tuple[str, ...] = ()
) -> Parts | None:
    """Return what is looked at in objects of a kind, with paths of the caller; None: all of it."""
    if own_steps(gvk).restore:
        return None
    below: dict[str, Any] = {}
    rows = kind_policy.references_of(gvk.group_kind, settings.namespace_references)
    paths = [row.path for row in rows]
    for where, is_selector_only in kind_policy.pod_spec_paths(gvk, settings.pod_templates):
        inside = kind_policy.AFFINITY if is_selector_only else kind_policy.IN_POD_SPECS
        paths += [f"{where}.{row.path}" for row in inside]
    for path in (*_METADATA, *more, *paths):
        _add(below, path.split("."))
    return below


def restores_texts(annotations: Any) -> bool:
    """Return whether annotations request that restore() looks at texts, wherever they are."""
    return isinstance(annotations, dict) and vocabulary.REWRITE_DNS_ANNOTATION in annotations


def _add(below: dict[str, Any], steps: list[str]) -> None:
    key = steps[0]
    plain = key.removesuffix("[]").removesuffix("{}")
    if len(steps) == 1 or key.endswith(_MARKS):
        below[plain] = WHOLE
    elif below.get(plain) is not WHOLE:
        _add(below.setdefault(plain, {}), steps[1:])


def assert_placement(
    retained: Object, translated: HostObject, live: Object | None, context: TranslationContext
) -> HostObject | Refusal:
    """Return the object to write after Retain: as translated in namespace, placement and our marks.

    retained: not modified. A Pod keeps the node it already runs on. Refuses what 3.3 refuses, and
    NamespaceForbidden if a script moved the object. Source: rewriting-rules 2, step 8.
    """
    if key_of(retained) != translated.host_key:
        detail = "the interpreter changed the kind, namespace or name of the object"
        return Refusal(Code.NAMESPACE_FORBIDDEN, "metadata", detail)
    obj = copy_object(retained)
    kind = translated.host_key.gvk.group_kind
    node = dig(obj, "spec", "nodeName") if kind in BOUND_TO_NODES else None
    if node and node == dig(live, "spec", "nodeName"):  # Retain copied it, nothing else may
        del obj["spec"]["nodeName"]
    else:
        node = None
    try:
        placement.place_pods(obj, translated.host_key.gvk, context)
    except RefusedError as error:
        return error.refusal
    if node is not None:
        obj["spec"]["nodeName"] = node
    if live is not None:
        _keep_tolerations(obj, live, context)
    for name in ("labels", "annotations"):
        desired = dig(translated.obj, "metadata", name) or {}
        if ours := {key: value for key, value in desired.items() if vocabulary.is_ours(key)}:
            metadata_map(obj, name).update(ours)
    if keep := KEPT.get(kind):
        keep(obj, translated.obj, live or {})
    return HostObject(obj, translated.virtual_key, translated.host_key)


def _keep_tolerations(obj: Object, live: Object, context: TranslationContext) -> None:
    gvk = gvk_of(obj)
    if not kind_policy.have_fixed_pods(gvk):
        return
    pairs = zip(kind_policy.pod_specs(obj, gvk), kind_policy.pod_specs(live, gvk), strict=False)
    for desired, current in pairs:
        placement.keep_tolerations(desired.spec, current.spec, context.node_taints)


def _keep_claim(obj: Object, translated: Object, live: Object) -> None:
    """Keep the mark of an adopted namespace, and the node selector as translated (1.2)."""
    annotations = metadata_map(obj, "annotations")
    selector = annotations_of(translated).get(vocabulary.NODE_SELECTOR_ANNOTATION)
    if selector is not None:
        annotations[vocabulary.NODE_SELECTOR_ANNOTATION] = selector
    adopted = annotations_of(live).get(vocabulary.ADOPTED_ANNOTATION)
    if adopted is not None:
        annotations.pop(vocabulary.CREATED_BY_AGENT_ANNOTATION, None)
        annotations[vocabulary.ADOPTED_ANNOTATION] = adopted


BOUND_TO_NODES = frozenset({vocabulary.POD})
"""Kinds whose objects keep the node that they run on."""
KEPT: Mapping[GroupKind, Callable[[Object, Object, Object], None]] = {
    vocabulary.NAMESPACE: _keep_claim
}
"""Kind -> (object to write, translated, live) -> what it keeps beyond Retain."""
