"""Karmada's policies and overrides, as far as files decide what they do.

Source: karmada v1.18.2 pkg/detector/compare.go, pkg/util/selector.go, pkg/util/overridemanager.
What the scheduler decides by the state of clusters is not evaluated; `Policy.notes` names it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

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


class _Fields(msgspec.Struct, frozen=True, rename="camel"):
    """Fields that are evaluated, or named as not evaluated; others are ignored."""


class _Selector(_Fields, frozen=True):
    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None


class _Affinity(_Fields, frozen=True):
    cluster_names: tuple[str, ...] = ()
    exclude_clusters: tuple[str, ...] = ()
    label_selector: LabelSelector | None = None
    field_selector: dict[str, Any] | None = None


class _Placement(_Fields, frozen=True):
    cluster_affinity: _Affinity | None = None
    cluster_affinities: tuple[_Affinity, ...] = ()
    cluster_tolerations: tuple[dict[str, Any], ...] = ()
    spread_constraints: tuple[dict[str, Any], ...] = ()
    replica_scheduling: dict[str, Any] = {}


class _Change(_Fields, frozen=True):
    operator: Literal["", "add", "remove", "replace"] = ""
    value: Any = None
    component: Literal["", "Registry", "Repository", "Tag"] = ""
    predicate: dict[str, str] | None = None
    container_name: str = ""
    path: str = ""


class _Rule(_Fields, frozen=True):
    target_cluster: _Affinity | None = None
    overriders: dict[str, tuple[_Change, ...]] = {}


class PolicySpec(_Fields, frozen=True):
    """The spec of a policy or of an override; its own target and overriders are the older form."""

    resource_selectors: tuple[_Selector, ...] = ()
    placement: _Placement = _Placement()
    priority: int = 0
    conflict_resolution: Literal["Abort", "Overwrite"] = "Abort"
    propagate_deps: bool = False
    suspension: dict[str, Any] = {}
    override_rules: tuple[_Rule, ...] = ()
    target_cluster: _Affinity | None = None
    overriders: dict[str, tuple[_Change, ...]] = {}

    @property
    def rules(self) -> tuple[_Rule, ...]:
        """Return the rules of an override."""
        return self.override_rules or (_Rule(self.target_cluster, self.overriders),)


PROPAGATION = ("PropagationPolicy", "ClusterPropagationPolicy")
OVERRIDES = ("OverridePolicy", "ClusterOverridePolicy")


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
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

    def notes(self, clusters: Sequence[str]) -> Iterator[str]:
        """Yield what is not evaluated of it, and what it names that is none of `clusters`."""
        spec, placement = self.spec, self.spec.placement
        of_rules = (rule.target_cluster for rule in spec.rules)
        for each in (placement.cluster_affinity, *placement.cluster_affinities, *of_rules):
            if each is not None and each.field_selector:
                yield "fieldSelector is not evaluated: it selects every virtual cluster here"
            for name in each.cluster_names if each is not None else ():
                if name not in clusters:
                    meant = did_you_mean(name, clusters)
                    yield f'"{name}" is none of these virtual clusters{meant}'
        for is_there, text in (
            (
                placement.replica_scheduling.get("replicaSchedulingType") == "Divided",
                "the scheduler divides replicas; they are shown as in the template",
            ),
            (placement.spread_constraints, "spreadConstraints may select fewer virtual clusters"),
            (spec.propagate_deps, "propagateDeps is not evaluated"),
            (spec.suspension, "suspension is not evaluated: what it suspends is not applied"),
            (any("fieldOverrider" in r.overriders for r in spec.rules), "fieldOverrider is not"),
        ):
            if is_there:
                yield text


def _closeness(selector: _Selector, template: Object) -> int:
    place, gvk = template["metadata"], gvk_of(template)
    is_elsewhere = selector.namespace and selector.namespace != place.get("namespace")
    if (selector.api_version, selector.kind) != (gvk.api_version, gvk.kind) or is_elsewhere:
        return _MISMATCH
    if selector.name:
        return _NAME if selector.name == place["name"] else _MISMATCH
    if selector.label_selector is None:
        return _ALL
    return _LABELS if selector.label_selector.matches(labels_of(template)) else _MISMATCH


def policy_of(policies: Iterable[Policy], template: Object) -> Policy | None:
    """Return the policy that claims a template: of its namespace, else of all; None if none."""
    ranked = [
        (not policy.namespace, -policy.spec.priority, -match, policy.name, policy)
        for policy in policies
        if policy.kind in PROPAGATION and (match := policy.match(template))
    ]
    return min(ranked, key=lambda each: each[:-1])[-1] if ranked else None


def clusters_of(policy: Policy, vcs: Iterable[VirtualCluster]) -> list[VirtualCluster]:
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
    template: Object, vc: VirtualCluster, policy: Policy | None, policies: Iterable[Policy]
) -> tuple[Object, list[Policy]]:
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


def _overridden(obj: Object, rules: Mapping[str, Sequence[_Change]]) -> Object:
    for change in rules.get("imageOverrider", ()):
        if change.predicate is None:
            for container in _containers(obj):
                container["image"] = _image(container["image"], change)
            continue
        path = change.predicate["path"]
        steps = (int(step) if step.isdigit() else step for step in path.strip("/").split("/"))
        image = _image(dig(obj, *steps), change)
        obj = apply_json_patch(obj, [{"op": "replace", "path": path, "value": image}])
    for field in ("command", "args"):
        for change in rules.get(f"{field}Overrider", ()):
            for container in _containers(obj):
                if container.get("name") == change.container_name:
                    container[field] = _words(container.get(field) or [], change)
    for field in ("labels", "annotations"):
        for change in rules.get(f"{field}Overrider", ()):
            _override_keys(metadata_map(obj, field), change)
    patch = [
        {"op": change.operator, "path": change.path, "value": change.value}
        for change in rules.get("plaintext", ())
    ]
    return dict(apply_json_patch(obj, patch))


def _words(given: list[str], change: _Change) -> list[str]:
    if change.operator == "add":
        return [*given, *change.value]
    return [word for word in given if word not in change.value]


def _override_keys(pairs: Object, change: _Change) -> None:
    for key, text in change.value.items():
        if change.operator == "remove":
            pairs.pop(key, None)
        elif change.operator == "add" or key in pairs:
            pairs[key] = text


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
