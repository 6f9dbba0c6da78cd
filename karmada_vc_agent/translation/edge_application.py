"""KubeEdge's EdgeApplication: embedded manifests, and the nodes they go to.

Each embedded manifest is rewritten like one of its own, by the function passed in; the scope must
stay within the virtual cluster (rewriting-rules 3.2). For a NodeGroup KubeEdge replaces node
selectors afterwards, for labels of nodes it does not, so groups become labels (kubeedge 4).
"""

import re
from collections.abc import Mapping
from typing import Any

from karmada_vc_agent.model import karmada, kinds
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    dig,
    gvk_of,
    labels_of,
    values_at,
)
from karmada_vc_agent.model.well_known import NODE_GROUP_LABEL, SLICE_MANAGED_BY_LABEL
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.draft import Draft, Returning
from karmada_vc_agent.translation.placement import require_node_labels
from karmada_vc_agent.translation.refusal import Code, Refusal, RefusedError

_MANIFESTS = ("spec", "workloadTemplate", "manifests")
NOT_INSIDE = frozenset({kinds.EDGE_APPLICATION})
"""Kinds that are refused inside, in addition to cluster-scoped ones."""
_SCOPE = "spec.workloadScope"
_GROUPS, _LABELS = "targetNodeGroups", "targetNodeLabels"
_IMAGE = re.compile(r"/spec/template/spec/(initContainers|containers)/\d+/image")
"""What an image overrider may name: KubeEdge replaces the text at any other path, too."""
MANIFESTS_MAX = 200
"""Each is translated as a manifest of its own."""
_CONTROLLERS_DOMAIN = f"{kinds.EDGE_APPLICATION.group}/"


def drop_controllers_annotations(draft: Draft) -> None:
    """Drop annotations `apps.kubeedge.io/*`: the controller deletes what they list.

    In any namespace. They are also dropped from the list of fields that Karmada manages, so that
    the host's own values stay.
    """
    _drop_annotations(draft.obj)


def _drop_annotations(obj: Object) -> None:
    annotations = dig(obj, "metadata", "annotations")
    if not isinstance(annotations, dict):
        return
    for key in [each for each in annotations if each.startswith(_CONTROLLERS_DOMAIN)]:
        del annotations[key]
    managed = annotations.get(karmada.MANAGED_ANNOTATIONS_ANNOTATION)
    if isinstance(managed, str) and _CONTROLLERS_DOMAIN in managed:
        kept = (key for key in managed.split(",") if not key.startswith(_CONTROLLERS_DOMAIN))
        annotations[karmada.MANAGED_ANNOTATIONS_ANNOTATION] = ",".join(kept)


def rewrite_inside(draft: Draft) -> None:
    """Rewrite each embedded manifest by all steps; node groups and labels must be its own.

    Those without a namespace get the object's. Refuses what the steps refuse, with the path inside
    the EdgeApplication.
    """
    _rewrite_manifests(draft)
    _confine_scope(draft.obj, draft.context)


def _rewrite_manifests(draft: Draft) -> None:
    manifests = dig(draft.obj, *_MANIFESTS)
    if not isinstance(manifests, list):
        return
    where = ".".join(_MANIFESTS)
    if len(manifests) > MANIFESTS_MAX:
        detail = f"{where} has more than {MANIFESTS_MAX} entries; divide them among several"
        raise RefusedError(Code.MANIFEST_INVALID, where, detail)
    for index, manifest in enumerate(manifests):
        path = f"{where}[{index}]"
        _refuse_unfit(manifest, path, draft.context)
        result = draft.translate_inside(_in_namespace(manifest, draft.virtual_namespace), draft)
        if isinstance(result, Refusal):
            inside = f"{path}.{result.path}" if result.path else path
            raise RefusedError(result.code, inside, f"{path}: {result.detail}", result.about)
        _drop_annotations(result)
        manifests[index] = result


def restore_inside(returning: Returning) -> None:
    """Restore each embedded manifest, and the node groups."""
    manifests, restore = dig(returning.obj, *_MANIFESTS), returning.restore_inside
    if isinstance(manifests, list):
        manifests[:] = [restore(each) if isinstance(each, dict) else each for each in manifests]
    _restore_scope(returning.obj, returning.context.vc.required_selector)


def _confine_scope(obj: Object, context: TranslationContext) -> None:
    """Keep, in place, the node labels of the scope within the virtual cluster.

    A group becomes the label of its nodes: for a group KubeEdge replaces the node selector of pods,
    which the host then denies; for labels it writes node affinity (kubeedge 4). One exception: a
    virtual cluster that is selected by this label.

    Refuses NodeScopeForbidden: a group or labels that match other nodes. ReferenceForbidden: an
    override of anything but an image.
    """
    _refuse_other_overrides(obj)
    required = context.vc.required_selector
    selected = []
    for index, target in enumerate(_targets(obj, _GROUPS)):
        name = dig(target, "name")
        nodes = context.nodes_of_group(name) if isinstance(name, str) else None
        path = f"{_SCOPE}.targetNodeGroups[{index}]"
        if nodes is None:
            raise RefusedError(
                Code.NODE_SCOPE_FORBIDDEN,
                path,
                f'targetNodeGroups "{name}" does not exist on the host',
                str(name),
            )
        if not all(map(context.owns_node, nodes)):
            detail = f'targetNodeGroups "{name}" has nodes outside the virtual cluster'
            raise RefusedError(Code.NODE_SCOPE_FORBIDDEN, path, detail, str(name))
        labels = {NODE_GROUP_LABEL: name}
        selected.append(_without(target, "name") | {"labelSelector": {"matchLabels": labels}})
    if any(each["labelSelector"]["matchLabels"] != required for each in selected):
        scope = obj["spec"]["workloadScope"]
        del scope[_GROUPS]
        scope[_LABELS] = [*selected, *_targets(obj, _LABELS)]
    for index, target in enumerate(_targets(obj, _LABELS)):
        path = f"{_SCOPE}.targetNodeLabels[{index}].labelSelector.matchLabels"
        if isinstance(target, dict):
            require_node_labels(target, path, required)


def _refuse_other_overrides(obj: Object) -> None:
    """Refuse image overriders of other texts: they are written after the translation."""
    for field in (_GROUPS, _LABELS):
        place = f"{_SCOPE}.{field}[].overriders.imageOverriders[].predicate.path"
        for path, value in values_at(obj, place):
            if not (isinstance(value, str) and _IMAGE.fullmatch(value)):
                detail = f'{path} "{value}" is no image of a container; leave predicate out'
                raise RefusedError(Code.REFERENCE_FORBIDDEN, path, detail)


def _restore_scope(obj: Object, required: Mapping[str, str]) -> None:
    """Restore, in place, the groups of the scope: labels that select one and no more."""
    targets = _targets(obj, _LABELS)
    groups, labelled = [], []
    for target in targets:
        labels = dig(target, "labelSelector", "matchLabels")
        name = dig(labels, NODE_GROUP_LABEL)
        if name is not None and labels == {**required, NODE_GROUP_LABEL: name}:
            groups.append({"name": name, **_without(target, "labelSelector")})
        else:
            labelled.append(target)
    if not groups:
        return
    scope = obj["spec"]["workloadScope"]
    del scope[_LABELS]
    scope[_GROUPS] = [*_targets(obj, _GROUPS), *groups]
    if labelled:
        scope[_LABELS] = labelled


def _without(target: Object, field: str) -> Object:
    return {key: value for key, value in target.items() if key != field}


def _in_namespace(manifest: Object, namespace: str) -> Object:
    """Return a manifest with a namespace, by default the given one."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": namespace}}


def _refuse_unfit(manifest: Any, path: str, context: TranslationContext) -> None:
    """Refuse what is cluster-scoped or of unknown scope, and what passes for Karmada's own."""
    gvk = gvk_of(manifest) if isinstance(manifest, dict) else GroupVersionKind("", "", "")
    if not gvk.kind:
        raise RefusedError(Code.MANIFEST_INVALID, path, f"{path} is not an object")
    scope = context.is_namespaced(gvk)
    if scope is None:
        detail = f"the host does not serve kind {gvk.kind}, so its scope is unknown"
        raise RefusedError(Code.KIND_FORBIDDEN, f"{path}.kind", detail, "/".join(gvk))
    if gvk.group_kind in NOT_INSIDE or not scope:
        detail = f"kind {gvk.kind} is not allowed inside an EdgeApplication"
        raise RefusedError(Code.KIND_FORBIDDEN, f"{path}.kind", detail, "/".join(gvk))
    if labels_of(manifest).get(SLICE_MANAGED_BY_LABEL) in karmada.MADE_BY_KARMADA:
        # Slices with it are not checked, since Karmada itself sends them (guards.py).
        where = f'{path}.metadata.labels["{SLICE_MANAGED_BY_LABEL}"]'
        detail = f"{where} is for Karmada's own slices; leave it out"
        raise RefusedError(Code.ADDRESS_FORBIDDEN, where, detail)


def _targets(obj: Object, field: str) -> list[Any]:
    targets = dig(obj, "spec", "workloadScope", field)
    return targets if isinstance(targets, list) else []
