"""What Retain made of a translated object, held to the rules again (rewriting-rules 2)."""

from karmada_vc_agent.model import domain
from karmada_vc_agent.model.objects import (
    NAMESPACE,
    GroupVersionKind,
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

    retained: what Retain made of translated.obj; not modified. live: the host's object, None
    if there is none. What a script dropped of the required selector is added again, our labels
    and annotations too. A Pod keeps the node it already runs on. Refuses what 3.3 refuses, and
    NamespaceForbidden where a script moved the object. Source: rewriting-rules 2, step 8.
    """
    if key_of(retained) != translated.host_key:
        detail = "the interpreter of this kind changed its kind, namespace or name"
        return Refusal(Code.NAMESPACE_FORBIDDEN, "metadata", detail)
    obj = copy_object(retained)
    node = _node_it_runs_on(obj, live)
    if node is not None:
        del obj["spec"]["nodeName"]
    try:
        templates = context.settings.pod_templates
        placement.place_pods(obj, translated.host_key.gvk, context.placement(), templates)
    except RefusedError as error:
        return error.refusal
    if node is not None:
        obj["spec"]["nodeName"] = node
    if live is not None:
        _keep_tolerations(obj, live, context)
    _keep_our_metadata(obj, translated.obj)
    if translated.host_key.gvk == NAMESPACE and live is not None:
        _keep_adoption(obj, live)
    return HostObject(obj, translated.virtual_key, translated.host_key)


def _node_it_runs_on(obj: Object, live: Object | None) -> str | None:
    """Return the nodeName that Retain copied from a running Pod; nothing else may bring one."""
    node = (
        dig(obj, "spec", "nodeName") if gvk_of(obj) == GroupVersionKind("", "v1", "Pod") else None
    )
    return node if node and node == dig(live, "spec", "nodeName") else None


def _keep_tolerations(obj: Object, live: Object, context: TranslationContext) -> None:
    gvk = gvk_of(obj)
    if not are_fixed(gvk):
        return
    for wanted, found in zip(pod_specs(obj, gvk), pod_specs(live, gvk), strict=False):
        placement.keep_tolerations(wanted.spec, found.spec, context.node_taints)


def _keep_our_metadata(obj: Object, translated: Object) -> None:
    """Set our labels and annotations to what was translated."""
    is_namespace = gvk_of(obj) == NAMESPACE
    for name in ("labels", "annotations"):
        wanted = {
            key: value
            for key, value in (dig(translated, "metadata", name) or {}).items()
            if domain.is_ours(key) or (is_namespace and key == domain.NODE_SELECTOR_ANNOTATION)
        }
        if wanted:
            metadata_map(obj, name).update(wanted)


def _keep_adoption(obj: Object, live: Object) -> None:
    """Say of an adopted namespace that it is, so that it is never deleted (rewriting-rules 1.2)."""
    adopted = annotations_of(live).get(domain.ADOPTED_ANNOTATION)
    if adopted is not None:
        annotations = metadata_map(obj, "annotations")
        annotations.pop(domain.CREATED_BY_AGENT_ANNOTATION, None)
        annotations[domain.ADOPTED_ANNOTATION] = adopted
