"""Reads the file with the settings (kind AgentConfig)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.config.mistakes import config_error
from karmada_vc_agent.config.settings import FLAGS, KindPaths, camel
from karmada_vc_agent.config.values import value_of
from karmada_vc_agent.model import quantity, yaml_text
from karmada_vc_agent.model.bounds import DEFAULT_BOUNDS, Bounds
from karmada_vc_agent.model.domain import CONFIG_API_VERSION
from karmada_vc_agent.model.selectors import LabelSelector, Requirement
from karmada_vc_agent.model.virtual_cluster import (
    NAMESPACES_ALWAYS,
    SERVICE_NAMES_NONE,
    ApplyAs,
    VirtualCluster,
)


class _Expression(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    operator: str
    values: list[str] = []


class _Selector(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: list[_Expression] = []


class _ApplyAs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    namespace: str
    name: str
    cluster_role: str = ""


class _Bounds(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    works: int | None = None
    bytes: int | str | None = None
    manifests_per_work: int | None = None
    kinds: int | None = None
    shared_objects: int | None = None


class _VirtualClusterEntry(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str
    node_selector: _Selector | None = None
    node_names: list[str] = []
    cluster_labels: dict[str, str] = {}
    provider: str = ""
    region: str = ""
    zones: list[str] = []
    taints: list[dict[str, Any]] = []
    resource_models: list[dict[str, Any]] = []
    namespaces: str = NAMESPACES_ALWAYS
    adopt_namespaces: list[str] = []
    tolerations: list[dict[str, Any]] = []
    offline_tolerations: bool = False
    tolerate_node_taints: bool = True
    quota: dict[str, str | int | float] = {}
    limits: list[dict[str, Any]] = []
    network_policy: str = "none"
    pod_security: str = ""
    allowed_kinds: list[str] = []
    denied_kinds: list[str] = []
    apply_as: _ApplyAs | None = None
    service_names: str = SERVICE_NAMES_NONE
    allow: list[str] = []
    bounds: _Bounds = msgspec.field(default_factory=_Bounds)


_LISTS = {
    "forbiddenNamespaces": "forbidden_namespaces",
    "infrastructureNamespaces": "infrastructure_namespaces",
    "namespaceKeys": "namespace_keys",
    "podCIDRs": "pod_cidrs",
    "clusterDNS": "cluster_dns",
}

_FileSchema: Any = msgspec.defstruct(
    "AgentConfig",
    [
        ("apiVersion", str, ""),
        ("kind", str, ""),
        ("virtualClusters", list[_VirtualClusterEntry], msgspec.field(default_factory=list)),
        *((name, list[str] | None, None) for name in _LISTS),
        ("clusterScopedKinds", dict[str, str], msgspec.field(default_factory=dict)),
        ("bounds", _Bounds, msgspec.field(default_factory=_Bounds)),
        ("podTemplates", tuple[KindPaths, ...], ()),
        ("namespaceReferences", tuple[KindPaths, ...], ()),
        *((camel(f.name), str | int | float | bool | None, None) for f in FLAGS),
    ],
    forbid_unknown_fields=True,
)


_SCHEMAS = {
    "": _FileSchema,
    "virtualClusters": _VirtualClusterEntry,
    "nodeSelector": _Selector,
    "matchExpressions": _Expression,
    "applyAs": _ApplyAs,
    "bounds": _Bounds,
    "podTemplates": KindPaths,
    "namespaceReferences": KindPaths,
}
"""Field -> what stands in it, or in each entry of it."""


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings that the file names, by their names here. Raises ConfigError."""
    try:
        raw = yaml_text.load(path.read_bytes())
    except OSError as error:
        raise ConfigError(str(path), "", error.strerror or str(error)) from error
    except yaml_text.YamlError as error:
        raise ConfigError(str(path), "", str(error)) from error
    if not isinstance(raw, dict):
        raise ConfigError(str(path), "", "empty, or not a mapping of settings")
    try:
        entry = msgspec.convert(raw, _FileSchema)
    except msgspec.ValidationError as error:
        raise config_error(error, raw, str(path), _SCHEMAS) from error
    for name, expected in (("apiVersion", CONFIG_API_VERSION), ("kind", "AgentConfig")):
        found = getattr(entry, name)
        if found != expected:
            raise ConfigError(str(path), name, f'is "{found}", must be "{expected}"')
    settings = {
        f.name: value_of(f, getattr(entry, camel(f.name)), str(path), camel(f.name))
        for f in FLAGS
        if getattr(entry, camel(f.name)) is not None
    }
    for name, setting in _LISTS.items():
        if getattr(entry, name) is not None:
            settings[setting] = tuple(getattr(entry, name))
    settings["cluster_scoped_kinds"] = {
        _group_and_kind(name, str(path)): policy
        for name, policy in entry.clusterScopedKinds.items()
    }
    settings["pod_templates"] = entry.podTemplates
    settings["namespace_references"] = entry.namespaceReferences
    bounds = _bounds(DEFAULT_BOUNDS, entry.bounds, str(path), "bounds")
    settings["virtual_clusters"] = tuple(
        _virtual_cluster(cluster, bounds, str(path), f"virtualClusters[{index}]")
        for index, cluster in enumerate(entry.virtualClusters)
    )
    return settings


def _group_and_kind(name: str, source: str) -> tuple[str, str]:
    """Split `cert-manager.io/ClusterIssuer`; a core kind has nothing before the slash."""
    group, slash, kind = name.partition("/")
    if not slash or not kind or "/" in kind:
        problem = "is no group/Kind, as in cert-manager.io/ClusterIssuer"
        raise ConfigError(source, f'clusterScopedKinds["{name}"]', problem)
    return group, kind


def _bounds(given: Bounds, entry: _Bounds, source: str, path: str) -> Bounds:
    """Return the bounds that hold, with those of the entry laid over those that are given."""
    found: dict[str, int] = {}
    for name in entry.__struct_fields__:
        value = getattr(entry, name)
        where = f"{path}.{camel(name)}"
        if value is None:
            continue
        try:
            found[name] = quantity.whole_units(value)
        except ValueError as error:
            raise ConfigError(source, where, str(error)) from error
        if found[name] < 0:
            raise ConfigError(source, where, f"is {value}, must be 0 (no bound) or more")
    return replace(given, **found)


def _virtual_cluster(
    entry: _VirtualClusterEntry, bounds: Bounds, source: str, path: str
) -> VirtualCluster:
    selector = entry.node_selector or _Selector()
    requirements = []
    for index, expression in enumerate(selector.match_expressions):
        where = f"{path}.nodeSelector.matchExpressions[{index}]"
        requirements.append(_requirement(expression, source, where))
    return VirtualCluster(
        name=entry.name,
        node_selector=LabelSelector(selector.match_labels, tuple(requirements)),
        node_names=tuple(entry.node_names),
        cluster_labels=entry.cluster_labels,
        provider=entry.provider,
        region=entry.region,
        zones=tuple(entry.zones),
        taints=tuple(entry.taints),
        resource_models=tuple(entry.resource_models),
        namespaces=entry.namespaces,
        adopt_namespaces=tuple(entry.adopt_namespaces),
        tolerations=tuple(entry.tolerations),
        offline_tolerations=entry.offline_tolerations,
        tolerate_node_taints=entry.tolerate_node_taints,
        quota={name: str(amount) for name, amount in entry.quota.items()},
        limits=tuple(entry.limits),
        network_policy=entry.network_policy,
        pod_security=entry.pod_security,
        allowed_kinds=tuple(entry.allowed_kinds),
        denied_kinds=tuple(entry.denied_kinds),
        apply_as=_apply_as(entry.apply_as),
        service_names=entry.service_names,
        bounds=_bounds(bounds, entry.bounds, source, f"{path}.bounds"),
        allow=tuple(entry.allow),
    )


def _apply_as(entry: _ApplyAs | None) -> ApplyAs | None:
    return ApplyAs(entry.namespace, entry.name, entry.cluster_role) if entry else None


def _requirement(expression: _Expression, source: str, path: str) -> Requirement:
    needs_values = expression.operator in ("In", "NotIn")
    if not needs_values and expression.operator not in ("Exists", "DoesNotExist"):
        raise ConfigError(
            source,
            f"{path}.operator",
            f'is "{expression.operator}", must be one of In, NotIn, Exists, DoesNotExist',
        )
    if needs_values != bool(expression.values):
        problem = "must not be empty" if needs_values else "must be empty"
        raise ConfigError(source, f"{path}.values", f"{problem} with {expression.operator}")
    return Requirement(expression.key, expression.operator, frozenset(expression.values))
