"""The order of steps for one manifest: they change a draft, or raise RefusedError."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    ObjectKey,
    copy_object,
    gvk_of,
    is_map_of_texts,
    key_of,
    metadata_map,
    size_of,
)
from karmada_vc_agent.model.virtual_cluster import STRICT, VirtualCluster, VirtualNamespace
from karmada_vc_agent.translation import kind_policy, namespace_defaults, placement, rbac
from karmada_vc_agent.translation.context import (
    ALL_NAMESPACES,
    NAMES_ANNOTATION,
    Direction,
    Draft,
    Notice,
    Step,
    TranslationContext,
    TranslationSettings,
    home_of,
)
from karmada_vc_agent.translation.guards import pass_guards
from karmada_vc_agent.translation.kind_policy import Code, Policy, Refusal, RefusedError
from karmada_vc_agent.translation.own_steps import own_steps
from karmada_vc_agent.translation.references import rewrite_references, unknown_references

_KEPT = (
    vocabulary.MANAGED_LABEL,
    vocabulary.MANAGED_LABELS_ANNOTATION,
    vocabulary.MANAGED_ANNOTATIONS_ANNOTATION,
    vocabulary.CONFLICT_RESOLUTION_ANNOTATION,
)


def mark_as_shared(obj: Object) -> None:
    """Label an object as shared, in place, and remove what refers to one Work or binding."""
    metadata = obj["metadata"]
    for name in ("labels", "annotations"):
        items = (metadata.get(name) or {}).items()
        metadata[name] = {k: v for k, v in items if k in _KEPT or not vocabulary.is_karmada_key(k)}
    metadata["labels"][vocabulary.SHARED_LABEL] = "true"


MAX_LEVELS = 200
"""Nesting of maps and lists; its Work, and what is made of it, can still be written."""
MAX_BYTES = 3 * 1024 * 1024
_SHOWN = 80
_PATH_BREAKERS = frozenset("/%?#")


def malformed(manifest: Any) -> str | None:
    """Return what is wrong with the frame of a manifest, or None; its content is not checked.

    Any API server must accept it, and the result must be small enough to send. A name must be one
    segment of a URL path: "../x" would reach other objects on the host.
    """
    if problem := malformed_frame(manifest):
        return problem
    size = size_of(manifest, MAX_LEVELS)
    if size is None:
        return f"it is nested deeper than {MAX_LEVELS} levels"
    if size > MAX_BYTES:
        return f"it has {size} bytes, more than the {MAX_BYTES} that an API server accepts"
    return None


def malformed_frame(manifest: Any) -> str | None:
    """Return what is wrong with the identity of a manifest, or None; its size is not checked."""
    if not isinstance(manifest, dict):
        return "it is not an object"
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            return f"{field} is not set"
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        missing = "metadata.name" if isinstance(metadata, dict) else "metadata"
        return f"{missing} is not set"
    for field in ("name", "namespace"):
        name = metadata.get(field) or "x"
        is_text = isinstance(name, str) and name.isprintable()
        if not is_text or name in (".", "..") or _PATH_BREAKERS.intersection(name):
            shown = repr(name)[:_SHOWN]  # whatever a tenant puts there
            return f"metadata.{field} {shown} is not a valid name"
    for field in ("labels", "annotations"):
        pairs = metadata.get(field)
        if pairs is not None and not is_map_of_texts(pairs):
            return f"metadata.{field} is not a map of strings"
    return None


_SERVER_FIELDS = ("uid", "resourceVersion", "generation", "managedFields", "ownerReferences")


@dataclass(frozen=True, slots=True)
class HostObject:
    """A manifest as desired on the host, and its key on both sides.

    is_shared: other virtual clusters may have the same object (rewriting-rules 5.1).
    is_system: Karmada created it for the Cluster itself, not for a tenant.
    depends_on_claims: translate it again when a namespace is claimed or released.
    notices: what a user should know.
    """

    obj: Object
    virtual_key: ObjectKey
    host_key: ObjectKey
    is_shared: bool = False
    is_system: bool = False
    depends_on_claims: bool = False
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Converted:
    """A ClusterRoleBinding: one RoleBinding in each claimed namespace (rewriting-rules 5.2)."""

    objects: tuple[HostObject, ...]
    virtual_key: ObjectKey

    @property
    def gvk(self) -> GroupVersionKind:
        """Group, version and kind of the objects."""
        return self.virtual_key.gvk._replace(kind=vocabulary.ROLE_BINDING.kind)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A manifest that counts as applied and has no object on the host (rewriting-rules 5.4)."""

    virtual_key: ObjectKey


def translate(
    manifest: Object,
    namespaced: bool,  # noqa: FBT001 - a fact about the kind, not a switch
    context: TranslationContext,
) -> HostObject | Converted | Refusal | Skipped:
    """Return what a manifest of a Work becomes on the host.

    manifest: as Karmada sent it; not modified. namespaced: the scope of its kind.
    Translating the result of restore() gives the same again. Source: rewriting-rules 2.
    """
    problem = malformed(manifest)
    if problem:
        return Refusal(Code.MANIFEST_INVALID, "", problem)
    gvk = gvk_of(manifest)
    system = kind_policy.control_planes_own(manifest) if context.is_of_cluster else None
    if system is Policy.ABSORB:
        return Skipped(key_of(manifest))
    draft = Draft(
        obj=copy_object(manifest),
        gvk=gvk,
        context=context,
        direction=Direction(context.names(), to_host=True),
        inside=_translate_inside,
        namespaced=namespaced,
    )
    try:
        if system is None:
            _rewrite(draft)
        else:
            # It lets Karmada impersonate; only its content is read, no one is bound to it (5.4).
            _strip(draft)
            draft.policy = Policy.RENAME
            _map_name(draft)
            _stamp(draft, manifest["metadata"]["name"])
        if draft.policy is Policy.CONVERT:
            return _convert(draft, key_of(manifest))
    except RefusedError as error:
        return error.refusal
    return HostObject(
        draft.obj,
        key_of(manifest),
        key_of(draft.obj),
        is_shared=draft.policy is Policy.SHARE,
        is_system=system is not None,
        depends_on_claims=draft.depends_on_claims
        or ALL_NAMESPACES in draft.direction.noted.values(),
        notices=(*draft.notices, *_notices(manifest, draft)),
    )


def _rewrite(draft: Draft) -> None:
    obj, context, own = draft.obj, draft.context, own_steps(draft.gvk)
    virtual_name = obj["metadata"]["name"]
    _strip(draft)
    _refuse_unbound(draft)
    draft.policy = kind_policy.refuse_forbidden(
        obj,
        context.vc,
        namespaced=draft.namespaced,
        configured=context.settings.cluster_scoped_kinds,
        names_only=context.names_only,
    )
    if not context.names_only:
        is_shared = draft.policy is Policy.SHARE
        draft.notices += pass_guards(obj, draft.gvk, context, is_shared=is_shared)
    _map_name(draft)
    _run(draft, own.metadata, own.inside)
    rewrite_references(draft)
    templates = context.settings.pod_templates
    if placement.rewrite_texts(obj, draft.gvk, context.claims.items(), templates):
        draft.depends_on_claims = True
    _run(draft, own.rewrite)
    placement.place_pods(obj, draft.gvk, context)
    _run(draft, own.place)
    placement.name_services(obj, draft.gvk, context)
    _stamp(draft, virtual_name)


def _run(draft: Draft, *steps: Step | None) -> None:
    for step in steps:
        if step:
            step(draft)


def claimed_namespace(
    vc: VirtualCluster,
    namespace: VirtualNamespace,
    settings: TranslationSettings,
    work: str = "",
) -> Object:
    """Return the host Namespace to create for a namespace without a claim (1.2, 1.3, 3.5).

    Not labelled as managed by Karmada: only a Work with the Namespace sets that label.
    """
    name = home_of(settings.namespace_template, namespace, vc.name_on_host, vc.adopt_namespaces)
    obj: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    _claim(obj, vc, namespace, settings.agent_name, work)
    namespace_defaults.put_pod_security(obj, vc)
    return obj


def _strip(draft: Draft) -> None:
    """Drop what tenants may not write and what the server fills in (step 1)."""
    draft.obj.pop("status", None)
    metadata = draft.obj["metadata"] = dict(draft.obj.get("metadata") or {})
    for key in _SERVER_FIELDS:
        metadata.pop(key, None)
    for field_name in ("labels", "annotations"):
        keys = [key for key in metadata.get(field_name) or {} if vocabulary.is_ours(key)]
        for key in keys:
            if (field_name, key) != ("annotations", vocabulary.REWRITE_DNS_ANNOTATION):
                del metadata[field_name][key]
    _run(draft, own_steps(draft.gvk).strip)


def _refuse_unbound(draft: Draft) -> None:
    """Refuse what an OverridePolicy moved to another namespace, or out of all, in Strict."""
    bound_to, context = draft.context.bound_to, draft.context
    if bound_to is None or context.names_only or context.settings.tenancy != STRICT:
        return
    namespace = str(draft.obj["metadata"].get("namespace") or "") if draft.namespaced else ""
    if namespace != bound_to:
        place = f'namespace "{bound_to}"' if bound_to else "no namespace"
        problem = f"the binding of its Work is in {place}: an override must not move it elsewhere"
        raise RefusedError(Code.NAMESPACE_FORBIDDEN, "metadata.namespace", problem)


def _map_name(draft: Draft) -> None:
    metadata = draft.obj["metadata"]
    if draft.policy not in (Policy.APPLY, Policy.MAP):
        metadata.pop("namespace", None)
        metadata.pop("finalizers", None)  # only a tenant would remove them
        if draft.policy is Policy.RENAME:
            metadata["name"] = draft.direction.names.host_name(metadata["name"])
        return
    own, path = (
        ("namespace", "metadata.namespace") if draft.namespaced else ("name", "metadata.name")
    )
    namespace = metadata.get(own)
    if not isinstance(namespace, str) or not namespace:
        raise RefusedError(Code.NAMESPACE_MISSING, path, f"{path} is not set")
    if draft.direction.names.forbids(namespace):
        detail = f'namespace "{namespace}" is not available in a virtual cluster'
        raise RefusedError(Code.NAMESPACE_FORBIDDEN, path, detail)
    draft.virtual_namespace = VirtualNamespace(namespace)
    metadata[own] = draft.direction.names.host_namespace(namespace)
    if not draft.namespaced:
        metadata.pop("namespace", None)


def _translate_inside(manifest: Object, outer: Draft) -> Object | Refusal:
    result = translate(manifest, True, replace(outer.context, work=""))
    assert not isinstance(result, Converted | Skipped)  # noqa: S101 - cluster-scoped ones
    if isinstance(result, Refusal):
        return result
    outer.notices += result.notices
    return result.obj


def _stamp(draft: Draft, virtual_name: str) -> None:
    """Set our labels and annotations on the object itself, never on pod templates (step 7)."""
    obj, context = draft.obj, draft.context
    if draft.policy is Policy.MAP:
        agent = context.settings.agent_name
        _claim(obj, context.vc, draft.virtual_namespace, agent, context.work)
        namespace_defaults.put_pod_security(obj, context.vc)
    elif draft.policy is Policy.SHARE:
        mark_as_shared(obj)
    else:
        labels = metadata_map(obj, "labels")
        labels[vocabulary.CLUSTER_LABEL] = context.vc.name
        if draft.namespaced:
            labels[vocabulary.NAMESPACE_LABEL] = draft.virtual_namespace
        if context.work:
            metadata_map(obj, "annotations")[vocabulary.WORK_ANNOTATION] = context.work
    annotations = metadata_map(obj, "annotations")
    if draft.policy is Policy.RENAME:
        annotations[vocabulary.NAME_ANNOTATION] = virtual_name
    for key in (vocabulary.WORK_NAME_ANNOTATION, vocabulary.WORK_NAMESPACE_ANNOTATION):
        annotations.pop(key, None)
    if draft.direction.noted:
        annotations[NAMES_ANNOTATION] = json.dumps(draft.direction.noted, sort_keys=True)
    if not annotations:
        del obj["metadata"]["annotations"]


def _convert(draft: Draft, virtual_key: ObjectKey) -> Converted:
    objects = []
    for virtual, host in sorted(draft.context.claims.items()):
        obj = rbac.role_binding_in(draft.obj, host)
        obj["metadata"]["labels"][vocabulary.NAMESPACE_LABEL] = virtual
        objects.append(HostObject(obj, virtual_key, key_of(obj), depends_on_claims=True))
    return Converted(tuple(objects), virtual_key)


def _notices(manifest: Object, draft: Draft) -> Iterator[Notice]:
    context = draft.context
    own = own_steps(draft.gvk)
    if own.notices:
        yield from own.notices(manifest, context)
    yield from placement.unknown_places(manifest)
    if not own.inside:  # embedded manifests reported theirs
        yield from unknown_references(
            manifest, draft.gvk, context.claims, context.settings.namespace_references
        )


def _claim(
    obj: Object, vc: VirtualCluster, namespace: VirtualNamespace, agent_name: str, work: str
) -> None:
    labels, annotations = metadata_map(obj, "labels"), metadata_map(obj, "annotations")
    labels[vocabulary.CLUSTER_LABEL] = vc.name
    labels[vocabulary.NAMESPACE_LABEL] = namespace
    labels[vocabulary.AGENT_LABEL] = agent_name
    selector = placement.node_selector_annotation(vc.required_selector)
    annotations[vocabulary.CREATED_BY_AGENT_ANNOTATION] = "true"
    annotations[vocabulary.WORK_ANNOTATION] = work
    annotations[vocabulary.NODE_SELECTOR_ANNOTATION] = selector
