"""Karmada's policies and overrides, as far as files decide what they do.

Source: karmada v1.18.2 pkg/detector/compare.go, pkg/util/selector.go, pkg/util/overridemanager.
What is not evaluated is ignored, and `unread` names it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import msgspec

from karmada_vc_agent.config.decoding import part_of, settings_of, struct_of
from karmada_vc_agent.model.core import Taint
from karmada_vc_agent.model.objects import (
    Object,
    apply_json_patch,
    copy_object,
    dig,
    gvk_of,
    labels_of,
    maps_at,
    metadata_map,
)
from karmada_vc_agent.model.user_text import did_you_mean
from karmada_vc_agent.model.virtual_cluster import LabelSelector, VirtualCluster
from karmada_vc_agent.model.vocabulary import CONFLICT_RESOLUTION_ANNOTATION, MANAGED_LABEL
from karmada_vc_agent.translation.placement import missing_tolerations

_MISMATCH, _ALL, _LABELS, _NAME = range(4)
"""How closely a selector names a template."""


class _PolicyFields(msgspec.Struct, frozen=True, rename="camel"):
    """Fields that are evaluated; all others are ignored."""


class Selector(_PolicyFields, frozen=True):
    """A selector of templates; of an empty field all match, and a name is enough without labels."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None


class _Affinity(_PolicyFields, frozen=True):
    cluster_names: tuple[str, ...] = ()
    exclude_clusters: tuple[str, ...] = ()
    label_selector: LabelSelector | None = None


class _Placement(_PolicyFields, frozen=True):
    cluster_affinity: _Affinity | None = None
    cluster_affinities: tuple[_Affinity, ...] = ()
    cluster_tolerations: tuple[dict[str, Any], ...] = ()


class _Change(_PolicyFields, frozen=True):
    operator: Literal["add", "remove", "replace"]
    value: Any = None
    component: Literal["", "Registry", "Repository", "Tag"] = ""
    predicate: dict[str, str] | None = None
    container_name: str = ""
    path: str = ""


class _Overriders(_PolicyFields, frozen=True):
    image_overrider: tuple[_Change, ...] = ()
    command_overrider: tuple[_Change, ...] = ()
    args_overrider: tuple[_Change, ...] = ()
    plaintext: tuple[_Change, ...] = ()


class _Rule(_PolicyFields, frozen=True):
    target_cluster: _Affinity | None = None
    overriders: _Overriders = _Overriders()


class PolicySpec(_PolicyFields, frozen=True):
    """The spec of a policy or of an override, whose own target and overriders are an older form."""

    resource_selectors: tuple[Selector, ...] = ()
    placement: _Placement = _Placement()
    priority: int = 0
    conflict_resolution: Literal["Abort", "Overwrite"] = "Abort"
    override_rules: tuple[_Rule, ...] = ()
    target_cluster: _Affinity | None = None
    overriders: _Overriders = _Overriders()

    @property
    def rules(self) -> tuple[_Rule, ...]:
        """Return the rules of an override."""
        return self.override_rules or (_Rule(self.target_cluster, self.overriders),)


PROPAGATION = ("PropagationPolicy", "ClusterPropagationPolicy")
OVERRIDES = ("OverridePolicy", "ClusterOverridePolicy")


@dataclass(frozen=True, slots=True, eq=False)
class FilePolicy:
    """A policy of the files; namespace "" = one of all namespaces."""

    kind: str
    namespace: str
    name: str
    spec: PolicySpec

    def __str__(self) -> str:
        """Return kind, namespace and name, for people."""
        return f"{self.kind} {'/'.join(filter(None, (self.namespace, self.name)))}"

    def match(self, template: Object) -> int:
        """Return how closely it names a template, 0 = not at all; an override may name none."""
        if self.namespace and self.namespace != template["metadata"].get("namespace"):
            return _MISMATCH
        selectors = self.spec.resource_selectors
        if self.kind in OVERRIDES and not selectors:
            return _ALL
        return max((_closeness(each, template) for each in selectors), default=_MISMATCH)

    def strangers(self, clusters: Sequence[str]) -> Iterator[str]:
        """Yield a sentence for each name that is of none of `clusters`."""
        placement, rules = self.spec.placement, self.spec.rules
        affinities = (placement.cluster_affinity, *placement.cluster_affinities)
        for each in (*affinities, *(rule.target_cluster for rule in rules)):
            for name in each.cluster_names if each is not None else ():
                if name not in clusters:
                    meant = did_you_mean(name, clusters)
                    yield f'"{name}" is none of these virtual clusters{meant}'


def unread(raw: Any, kind: Any = PolicySpec, path: str = "") -> Iterator[str]:
    """Yield the paths of what a spec sets that is not evaluated."""
    if isinstance(raw, list):
        for each in raw:
            yield from unread(each, part_of(kind), path)
    elif isinstance(raw, dict) and (struct := struct_of(kind)) is not None:
        kinds = {setting.key: setting.kind for setting in settings_of(struct)}
        for key, value in raw.items():
            below = f"{path}.{key}".removeprefix(".")
            if key in kinds:
                yield from unread(value, kinds[key], below)
            else:
                yield below


def difference(selector: Selector, template: Object) -> tuple[int, str]:
    """Return how many fields of a selector match, and which does not: "" = it selects."""
    own = template["metadata"]
    fields = (
        ("kind", selector.kind, template["kind"]),
        ("apiVersion", selector.api_version, template["apiVersion"]),
        ("namespace", selector.namespace, own.get("namespace") or ""),
        ("name", selector.name, own["name"]),
    )
    for score, (key, given, value) in enumerate(fields):
        if given and given != value:
            return score, f'selects {key} "{given}"{did_you_mean(given, [value])}'
    labels = None if selector.name else selector.label_selector
    for each in labels.requirements() if labels else ():
        if not each.matches(labels_of(template)):
            values = ", ".join(sorted(each.values))
            return len(fields), f"selects label {each.key} {each.operator} {values}".rstrip()
    return len(fields) + 1, ""


def _closeness(selector: Selector, template: Object) -> int:
    if difference(selector, template)[1]:
        return _MISMATCH
    return _NAME if selector.name else _LABELS if selector.label_selector is not None else _ALL


def policy_of(policies: Iterable[FilePolicy], template: Object) -> FilePolicy | None:
    """Return the policy that claims a template: of its namespace, else of all; None if none."""
    ranked = [
        (not policy.namespace, -policy.spec.priority, -match, policy.name, policy)
        for policy in policies
        if policy.kind in PROPAGATION and (match := policy.match(template))
    ]
    return min(ranked, key=lambda each: each[:-1])[-1] if ranked else None


def clusters_of(policy: FilePolicy, vcs: Iterable[VirtualCluster]) -> list[VirtualCluster]:
    """Return the virtual clusters that a policy selects; of several affinities the first fits."""
    placement = policy.spec.placement
    fit = [vc for vc in vcs if _is_tolerated(vc, placement.cluster_tolerations)]
    affinities = placement.cluster_affinities or (placement.cluster_affinity,)
    selected = ([vc for vc in fit if _is_meant(each, vc)] for each in affinities)
    return next(filter(None, selected), [])


def _is_tolerated(vc: VirtualCluster, tolerations: Sequence[Object]) -> bool:
    taints = (Taint(t["key"], t["effect"], t.get("value") or "") for t in vc.taints)
    endless = [{k: v for k, v in t.items() if k != "tolerationSeconds"} for t in tolerations]
    return not missing_tolerations(taints, endless)


def _is_meant(affinity: _Affinity | None, vc: VirtualCluster) -> bool:
    if affinity is None:
        return True
    labels = affinity.label_selector
    if vc.name in affinity.exclude_clusters or (labels and not labels.matches(vc.cluster_labels)):
        return False
    return not affinity.cluster_names or vc.name in affinity.cluster_names


def manifest_for(
    template: Object, vc: VirtualCluster, policy: FilePolicy | None, policies: Iterable[FilePolicy]
) -> tuple[Object, list[FilePolicy]]:
    """Return the manifest that Karmada puts into the Work, and the overrides that changed it.

    Raises ValueError: an override cannot be applied, so Karmada makes no Work.
    """
    obj, applied = copy_object(template), []
    overrides = [
        (bool(each.namespace), match, each.name, each)
        for each in policies
        if each.kind in OVERRIDES and (match := each.match(template))
    ]
    for *_, override in sorted(overrides, key=lambda each: each[:-1]):
        for rule in override.spec.rules:
            if _is_meant(rule.target_cluster, vc):
                try:
                    obj = _overridden(obj, rule.overriders)
                except (ValueError, LookupError, TypeError, AttributeError) as error:
                    raise ValueError(f"{override} cannot be applied: {error}") from error
                applied.append(override)
    metadata_map(obj, "labels")[MANAGED_LABEL] = "true"
    resolution = policy.spec.conflict_resolution if policy is not None else "Abort"
    annotations = metadata_map(obj, "annotations")
    annotations.setdefault(CONFLICT_RESOLUTION_ANNOTATION, resolution.lower())
    return obj, list(dict.fromkeys(applied))


_OF_PODS: Mapping[str, tuple[str, ...]] = {"Pod": ("spec",)} | dict.fromkeys(
    ("ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "Job"), ("spec", "template", "spec")
)
"""Kinds whose containers overriders change -> where the pod is."""


def _overridden(obj: Object, rules: _Overriders) -> Object:
    for change in rules.image_overrider:
        if change.predicate is None:
            for container in _containers(obj):
                container["image"] = _image(container["image"], change)
            continue
        path = change.predicate["path"]
        steps = (int(step) if step.isdigit() else step for step in path.strip("/").split("/"))
        image = _image(dig(obj, *steps), change)
        obj = apply_json_patch(obj, [{"op": "replace", "path": path, "value": image}])
    for field, changes in (("command", rules.command_overrider), ("args", rules.args_overrider)):
        for change, container in product(changes, _containers(obj)):
            if container.get("name") == change.container_name:
                given = container.get(field) or []
                added = change.value if change.operator == "add" else []
                removed = change.value if change.operator == "remove" else []
                container[field] = [*(word for word in given if word not in removed), *added]
    patch = (
        {"op": each.operator, "path": each.path, "value": each.value} for each in rules.plaintext
    )
    return dict(apply_json_patch(obj, list(patch)))


def _containers(obj: Object) -> list[Object]:
    pod = _OF_PODS.get(gvk_of(obj).kind)
    return maps_at(obj, *pod, "containers") if pod else []


_REFERENCE = re.compile(
    r"(?:(?P<Registry>localhost|[^/]*[.:][^/]*)/)?(?P<Repository>[^:@]+)"
    r"(?::(?P<Tag>[\w.-]+))?(?:@(?P<digest>[\w+.-]+:[0-9a-fA-F]+))?"
)
"""An image as Karmada divides it: a registry has a dot or a port; a tag hides the digest."""


def _image(image: Any, change: _Change) -> str:
    match = _REFERENCE.fullmatch(image) if isinstance(image, str) else None
    if match is None:
        raise ValueError(f'"{image}" is not an image')
    parts = {name: part or "" for name, part in match.groupdict().items()}
    parts["Tag"] = parts["Tag"] or parts["digest"]
    kept = parts[change.component] if change.operator == "add" else ""
    parts[change.component] = kept + ("" if change.operator == "remove" else change.value)
    registry, repository, version = (parts[name] for name in ("Registry", "Repository", "Tag"))
    mark = "@" if ":" in version else ":"
    return (f"{registry}/" if registry else "") + repository + (version and f"{mark}{version}")
