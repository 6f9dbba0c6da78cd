"""Table: kind -> additional translation steps of that kind, and these steps.

The first line of a step's docstring is also the text about the kind in docs/kinds.md.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from karmada_vc_agent.model import virtual_cluster, vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    dig,
    gvk_of,
    labels_of,
    list_at,
    metadata_map,
    values_at,
)
from karmada_vc_agent.model.vocabulary import (
    BALANCER_POOL_LABEL,
    NAMESPACE_NAME_LABEL,
    NODE_GROUP_LABEL,
    SLICE_MANAGED_BY_LABEL,
)
from karmada_vc_agent.translation import placement, rbac
from karmada_vc_agent.translation.context import (
    Draft,
    Notice,
    NoticeCode,
    OwnSteps,
    TranslationContext,
)
from karmada_vc_agent.translation.kind_policy import Code, Refusal, RefusedError
from karmada_vc_agent.translation.namespace_defaults import POD_SECURITY_LABEL
from karmada_vc_agent.translation.placement import require_node_labels

_MANIFESTS = ("spec", "workloadTemplate", "manifests")
NOT_INSIDE = frozenset({vocabulary.EDGE_APPLICATION})
"""Kinds that are refused inside, in addition to cluster-scoped ones."""
_SCOPE_PATH = ("spec", "workloadScope")
_SCOPE = ".".join(_SCOPE_PATH)
_GROUPS, _LABELS = "targetNodeGroups", "targetNodeLabels"
_IMAGE = re.compile(r"/spec/template/spec/(initContainers|containers)/\d+/image")
"""What an image overrider may name: KubeEdge replaces the text at any other path, too."""
MANIFESTS_MAX = 200
"""Each is translated as a manifest of its own."""
_CONTROLLERS_DOMAIN = f"{vocabulary.EDGE_APPLICATION.group}/"


def drop_controllers_annotations(draft: Draft) -> None:
    """Drop annotations `apps.kubeedge.io/*`: the controller deletes what they list.

    They are no longer listed as managed, either, so that the host's own values stay.
    """
    _drop_annotations(draft.obj)


def _drop_annotations(obj: Object) -> None:
    annotations = dig(obj, "metadata", "annotations")
    if not isinstance(annotations, dict):
        return
    for key in [each for each in annotations if each.startswith(_CONTROLLERS_DOMAIN)]:
        del annotations[key]
    managed = annotations.get(vocabulary.MANAGED_ANNOTATIONS_ANNOTATION)
    if isinstance(managed, str) and _CONTROLLERS_DOMAIN in managed:
        kept = (key for key in managed.split(",") if not key.startswith(_CONTROLLERS_DOMAIN))
        annotations[vocabulary.MANAGED_ANNOTATIONS_ANNOTATION] = ",".join(kept)


def rewrite_inside(draft: Draft) -> None:
    """Rewrite each embedded manifest by all steps; node groups and labels must be its own."""
    manifests = dig(draft.obj, *_MANIFESTS)
    if isinstance(manifests, list):
        _rewrite_manifests(manifests, draft)
    _confine_scope(draft.obj, draft.context)


def _rewrite_manifests(manifests: list[Any], draft: Draft) -> None:
    where = ".".join(_MANIFESTS)
    if len(manifests) > MANIFESTS_MAX:
        detail = f"{where} has more than {MANIFESTS_MAX} entries; divide them among several"
        raise RefusedError(Code.MANIFEST_INVALID, where, detail)
    for index, manifest in enumerate(manifests):
        path = f"{where}[{index}]"
        _refuse_unfit(manifest, path, draft.context)
        result = draft.inside(_in_namespace(manifest, draft.virtual_namespace), draft)
        if isinstance(result, Refusal):
            inside = f"{path}.{result.path}" if result.path else path
            raise RefusedError(result.code, inside, f"{path}: {result.detail}", result.about)
        _drop_annotations(result)
        manifests[index] = result


def restore_inside(draft: Draft) -> None:
    """Restore each embedded manifest, and the node groups."""
    manifests = dig(draft.obj, *_MANIFESTS)
    if isinstance(manifests, list):
        manifests[:] = [
            draft.inside(each, draft) if isinstance(each, dict) else each for each in manifests
        ]
    _restore_scope(draft.obj, draft.context.vc.required_selector)


def _confine_scope(obj: Object, context: TranslationContext) -> None:
    """Keep, in place, the node labels of the scope within the virtual cluster.

    A group becomes the label of its nodes: for a group KubeEdge replaces the node selector of pods,
    which the host then denies; for labels it writes node affinity (kubeedge 4). One exception: a
    virtual cluster that is selected by this label. Refuses NodeScopeForbidden, ReferenceForbidden.
    """
    _refuse_other_overrides(obj)
    required = context.vc.required_selector
    selected = []
    for index, target in enumerate(list_at(obj, *_SCOPE_PATH, _GROUPS)):
        name = dig(target, "name")
        nodes = context.nodes_of_group(name) if isinstance(name, str) else None
        path = f"{_SCOPE}.targetNodeGroups[{index}]"
        if nodes is None or not all(map(context.owns_node, nodes)):
            reason = "has nodes outside the virtual cluster"
            if nodes is None:
                reason = "does not exist on the host"
            detail = f'targetNodeGroups "{name}" {reason}'
            raise RefusedError(Code.NODE_SCOPE_FORBIDDEN, path, detail, str(name))
        labels = {NODE_GROUP_LABEL: name}
        selected.append(_without(target, "name") | {"labelSelector": {"matchLabels": labels}})
    if any(each["labelSelector"]["matchLabels"] != required for each in selected):
        scope = obj["spec"]["workloadScope"]
        del scope[_GROUPS]
        scope[_LABELS] = [*selected, *list_at(obj, *_SCOPE_PATH, _LABELS)]
    for index, target in enumerate(list_at(obj, *_SCOPE_PATH, _LABELS)):
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
    groups, labelled = [], []
    for target in list_at(obj, *_SCOPE_PATH, _LABELS):
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
    scope[_GROUPS] = [*list_at(obj, *_SCOPE_PATH, _GROUPS), *groups]
    if labelled:
        scope[_LABELS] = labelled


def _without(target: Object, field: str) -> Object:
    return {key: value for key, value in target.items() if key != field}


def _in_namespace(manifest: Object, namespace: str) -> Object:
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
    if labels_of(manifest).get(SLICE_MANAGED_BY_LABEL) in vocabulary.MADE_BY_KARMADA:
        # Slices with it are not checked, since Karmada itself sends them (guards.py).
        where = f'{path}.metadata.labels["{SLICE_MANAGED_BY_LABEL}"]'
        detail = f"{where} is for Karmada's own slices; leave it out"
        raise RefusedError(Code.ADDRESS_FORBIDDEN, where, detail)


def immediate_binding(manifest: Object, _context: TranslationContext) -> Iterator[Notice]:
    """Report volumes that are provisioned before a pod is scheduled (`ImmediateBinding`)."""
    if manifest.get("volumeBindingMode") in (None, "", "Immediate"):
        yield Notice(
            NoticeCode.IMMEDIATE_BINDING,
            "volumes are provisioned before a pod is scheduled, possibly out of reach of the "
            "nodes of this virtual cluster: set volumeBindingMode WaitForFirstConsumer",
        )


_NO_ADDRESS = "None"
_EXTERNAL_NAME = "spec.externalName"


def rewrite_service(draft: Draft) -> None:
    """Drop what the host allocates, map the namespace in `externalName` (rewriting-rules 4.3)."""
    spec = draft.obj.get("spec")
    if not isinstance(spec, dict):
        return
    if spec.get("clusterIP") != _NO_ADDRESS:
        spec.pop("clusterIP", None)
    if spec.get("clusterIPs") != [_NO_ADDRESS]:
        spec.pop("clusterIPs", None)
    spec.pop("healthCheckNodePort", None)
    map_external_name(draft)


def keep_to_pool(draft: Draft) -> None:
    """Have K3s balance a Service on own nodes, if they are a pool (rewriting-rules 4.3)."""
    required = draft.context.vc.required_selector
    if dig(draft.obj, "spec", "type") == "LoadBalancer" and BALANCER_POOL_LABEL in required:
        metadata_map(draft.obj, "labels")[BALANCER_POOL_LABEL] = required[BALANCER_POOL_LABEL]


def own_service(name: str, cluster_domain: str) -> re.Match[str] | None:
    """Match `<x>.<namespace>.svc`, with or without the cluster domain and a final dot."""
    ending = rf"\.svc(?:\.{re.escape(cluster_domain)})?\.?"
    return re.fullmatch(rf"(?P<before>.+\.)(?P<namespace>[^.]+)(?P<after>{ending})", name)


def map_external_name(draft: Draft) -> None:
    """Restore the virtual name of the namespace in `externalName`."""
    name = dig(draft.obj, "spec", "externalName")
    if isinstance(name, str) and (
        match := own_service(name, draft.context.settings.cluster_domain)
    ):
        namespace = draft.direction.namespace(match["namespace"], _EXTERNAL_NAME)
        draft.obj["spec"]["externalName"] = match["before"] + namespace + match["after"]


_SHARED_PATTERNS = (
    *("app.kubernetes.io/*", "helm.sh/*", "meta.helm.sh/*"),
    *("kubectl.kubernetes.io/*", "kubernetes.io/description"),
    "pod-security.kubernetes.io/*",
)
_POD_SECURITY_DOMAIN = "pod-security.kubernetes.io/"
PLAIN_KEYS = "/"
"""Among patterns: keys without a domain; no key is so."""
DECISIVE_KEYS = frozenset({"control-plane", "istio-injection"})
"""Keys without a domain by which common controllers exclude or include a namespace."""
_POD_SECURITY = (POD_SECURITY_LABEL, f"{POD_SECURITY_LABEL}-version")
_AGGREGATE = "aggregate"


def confine_namespace(draft: Draft) -> None:
    """Drop labels and annotations that may configure the host (ADR 23).

    A level of Pod Security in the settings wins over a label for the same.
    """
    settings, pod_security = draft.context.settings, draft.context.vc.pod_security

    def stays(key: str) -> bool:
        if pod_security and key in _POD_SECURITY:
            return False
        return _is_own(key) or _passes(key, settings.tenancy, settings.namespace_keys)

    (draft.obj["metadata"].get("labels") or {}).pop(NAMESPACE_NAME_LABEL, None)
    dropped = [*_drop(draft.obj, "labels", stays), *_drop(draft.obj, "annotations", stays)]
    _report(draft, dropped, 'an administrator can allow them with "namespaceKeys"')


def restore_namespace(draft: Draft) -> None:
    """Restore the virtual name in label `kubernetes.io/metadata.name`."""
    metadata = draft.obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if NAMESPACE_NAME_LABEL in labels and metadata.get("name"):
        labels[NAMESPACE_NAME_LABEL] = metadata["name"]


def tenants_patterns(profile: str, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return patterns of what tenants may change of a Namespace through the gateway.

    Fewer than Works may contain. profile: setting `tenancy`. allowed: setting `namespaceKeys`.
    """
    shared = () if profile == virtual_cluster.STRICT else (PLAIN_KEYS, *_SHARED_PATTERNS)
    kept = (each for each in (*shared, *allowed) if not each.startswith(_POD_SECURITY_DOMAIN))
    return tuple(dict.fromkeys(kept))


def is_tenants(key: str, patterns: Iterable[str]) -> bool:
    """Whether tenants may change a label or annotation of a Namespace through the gateway."""
    if _is_own(key) or vocabulary.is_karmada_key(key) or key.startswith(_POD_SECURITY_DOMAIN):
        return False
    if "/" not in key:
        return key not in DECISIVE_KEYS and (
            PLAIN_KEYS in patterns or any(fnmatchcase(key, each) for each in patterns)
        )
    return key != NAMESPACE_NAME_LABEL and any(fnmatchcase(key, each) for each in patterns)


def confine_cluster_role(draft: Draft) -> None:
    """Drop all labels but Karmada's and ours: others aggregate it into host roles (ADR 23)."""
    dropped = [key for key in _drop(draft.obj, "labels", _is_own) if _AGGREGATE in key]
    _report(draft, dropped, "they would aggregate the role into roles of the host")


def _report(draft: Draft, dropped: list[str], hint: str) -> None:
    if dropped:
        detail = f"dropped {', '.join(dropped)}; {hint}"
        draft.notices.append(Notice(NoticeCode.METADATA_DROPPED, detail))


def _passes(key: str, profile: str, allowed: Iterable[str]) -> bool:
    if any(fnmatchcase(key, pattern) for pattern in allowed):
        return True
    if profile == virtual_cluster.STRICT:
        return False
    if "/" not in key:
        return key not in DECISIVE_KEYS
    return any(fnmatchcase(key, pattern) for pattern in _SHARED_PATTERNS)


def _is_own(key: str) -> bool:
    """Whether a key is Karmada's, or ours, which we overwrite anyway."""
    is_ours = vocabulary.is_ours(key) or key == vocabulary.NODE_SELECTOR_ANNOTATION
    return is_ours or vocabulary.is_in_karmadas_domain(key)


def _drop(obj: Object, field: str, stays: Callable[[str], bool]) -> list[str]:
    pairs = dig(obj, "metadata", field)
    if not isinstance(pairs, dict):
        return []
    dropped = [key for key in pairs if not stays(key)]
    for key in dropped:
        del pairs[key]
    return dropped


_ROLE = OwnSteps(rewrite=rbac.confine_rules, notices=rbac.rules_cut, restore=rbac.restore_rules)
_BINDING = OwnSteps(rewrite=rbac.confine_subjects, restore=rbac.map_subjects)
OWN_STEPS: Mapping[GroupKind, OwnSteps] = {
    vocabulary.NAMESPACE: OwnSteps(metadata=confine_namespace, restore=restore_namespace),
    vocabulary.CLUSTER_ROLE: replace(_ROLE, metadata=confine_cluster_role),
    vocabulary.ROLE: _ROLE,
    vocabulary.CLUSTER_ROLE_BINDING: _BINDING,
    vocabulary.ROLE_BINDING: _BINDING,
    vocabulary.SERVICE: OwnSteps(
        rewrite=rewrite_service,
        place=keep_to_pool,
        restore=map_external_name,
    ),
    vocabulary.PERSISTENT_VOLUME_CLAIM: OwnSteps(place=placement.drop_selected_node),
    vocabulary.PERSISTENT_VOLUME: OwnSteps(place=placement.tie_volume),
    vocabulary.STORAGE_CLASS: OwnSteps(notices=immediate_binding),
    vocabulary.IMAGE_PRE_PULL_JOB: OwnSteps(place=placement.confine_image_pull),
    vocabulary.EDGE_APPLICATION: OwnSteps(
        strip=drop_controllers_annotations,
        inside=rewrite_inside,
        restore=restore_inside,
    ),
}

_NONE = OwnSteps()


def own_steps(gvk: GroupVersionKind) -> OwnSteps:
    """Return the additional steps of a kind, whatever its version."""
    return OWN_STEPS.get(gvk.group_kind, _NONE)
