"""Enforces the rules again on the result of Retain (rewriting-rules 2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from karmada_vc_agent.model import domain, kinds
from karmada_vc_agent.model.objects import (
    GroupKind,
    Object,
    annotations_of,
    copy_object,
    dig,
    gvk_of,
    key_of,
    metadata_map,
)
from karmada_vc_agent.translation import placement
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.pod_templates import are_fixed, pod_specs
from karmada_vc_agent.translation.refusal import Code, Refusal, RefusedError
from karmada_vc_agent.translation.translate import HostObject


def assert_placement(
    retained: Object, translated: HostObject, live: Object | None, context: TranslationContext
) -> HostObject | Refusal:
    """Return the object to write after Retain, with namespace and placement as translated.

    retained: the result of Retain for translated.obj; not modified. live: the host's object, None =
    does not exist. What a script dropped of the required selector is added again, as are our labels
    and annotations. A Pod keeps the node it already runs on. Refuses what 3.3 refuses, and
    NamespaceForbidden if a script moved the object. Source: rewriting-rules 2, step 8.
    """
    if key_of(retained) != translated.host_key:
        detail = "the interpreter changed the kind, namespace or name of the object"
        return Refusal(Code.NAMESPACE_FORBIDDEN, "metadata", detail)
    obj = copy_object(retained)
    kept = KEPT.get(translated.host_key.gvk.group_kind, _NOTHING)
    bound_spec = dig(obj, *kept.bound_spec) if kept.bound_spec else {}
    node = _node_it_runs_on(bound_spec, live, kept.bound_spec)
    if node is not None:
        del bound_spec["nodeName"]
    try:
        placement.place_pods(obj, translated.host_key.gvk, context)
    except RefusedError as error:
        return error.refusal
    if node is not None:
        bound_spec["nodeName"] = node
    if live is not None:
        _keep_tolerations(obj, live, context)
    _keep_our_metadata(obj, translated.obj, kept.annotations)
    if live is not None and kept.keep is not None:
        kept.keep(obj, live)
    return HostObject(obj, translated.virtual_key, translated.host_key)


def _node_it_runs_on(spec: Any, live: Object | None, path: tuple[str, ...]) -> str | None:
    """Return the nodeName that Retain copied from a running Pod; nothing else may set one."""
    node = dig(spec, "nodeName")
    return node if node and node == dig(live, *path, "nodeName") else None


def _keep_tolerations(obj: Object, live: Object, context: TranslationContext) -> None:
    gvk = gvk_of(obj)
    if not are_fixed(gvk):
        return
    for desired, current in zip(pod_specs(obj, gvk), pod_specs(live, gvk), strict=False):
        placement.keep_tolerations(desired.spec, current.spec, context.node_taints)


def _keep_our_metadata(obj: Object, translated: Object, also: frozenset[str]) -> None:
    """Set our labels and annotations, and the keys in `also`, to the translated values."""
    for name in ("labels", "annotations"):
        kept = {
            key: value
            for key, value in (dig(translated, "metadata", name) or {}).items()
            if domain.is_ours(key) or key in also
        }
        if kept:
            metadata_map(obj, name).update(kept)


def _keep_adoption(obj: Object, live: Object) -> None:
    """Keep the mark of an adopted namespace, so that it is never deleted (rewriting-rules 1.2)."""
    adopted = annotations_of(live).get(domain.ADOPTED_ANNOTATION)
    if adopted is not None:
        annotations = metadata_map(obj, "annotations")
        annotations.pop(domain.CREATED_BY_AGENT_ANNOTATION, None)
        annotations[domain.ADOPTED_ANNOTATION] = adopted


@dataclass(frozen=True, slots=True)
class Kept:
    """What one kind keeps beyond Retain and the common rules.

    bound_spec: path of the pod spec that the host binds to a node; () = none.
    annotations: those that stay as translated although they are not in our domain.
    keep: copies fields of the live object.
    """

    bound_spec: tuple[str, ...] = ()
    annotations: frozenset[str] = frozenset()
    keep: Callable[[Object, Object], None] | None = None


KEPT: Mapping[GroupKind, Kept] = {
    kinds.POD: Kept(bound_spec=("spec",)),
    kinds.NAMESPACE: Kept(
        annotations=frozenset({domain.NODE_SELECTOR_ANNOTATION}), keep=_keep_adoption
    ),
}
_NOTHING = Kept()
