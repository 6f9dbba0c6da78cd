"""Kind -> paths of its pod specs, and of what it refers to; kind_paths.yaml has the tables."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from karmada_vc_agent.model import yaml_text
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind, Object, values_at


@dataclass(frozen=True, slots=True)
class PodTemplates:
    """Paths of pod specs in objects of one kind; also a row of the setting `podTemplates`.

    selector_only: only nodeSelector and tolerations are supported there.
    create: add_missing_specs() creates missing maps along the paths. fixed: the API server rejects
    changes of the pod spec in an existing object. version: "" for all.
    """

    group: str
    kind: str
    paths: tuple[str, ...]
    selector_only: bool = False
    create: bool = False
    fixed: bool = False
    version: str = ""


@dataclass(frozen=True, slots=True)
class LocatedPodSpec:
    """One pod spec inside an object, not a copy: changing `spec` changes the object."""

    path: str
    spec: Object
    selector_only: bool


_TABLES = yaml_text.load(Path(__file__).with_name("kind_paths.yaml").read_bytes())


def kind_named(name: str) -> GroupKind:
    """Return the kind that a table names, `Pod` or `batch/Job`."""
    group, _, kind = name.rpartition("/")
    return GroupKind(group, kind)


def _pod_templates() -> Mapping[GroupKind, tuple[PodTemplates, ...]]:
    table: dict[GroupKind, tuple[PodTemplates, ...]] = {}
    for row in _TABLES["pods"]:
        for kind in map(kind_named, row.pop("kinds")):
            templates = PodTemplates(*kind, **{**row, "paths": tuple(row["paths"])})
            table[kind] = (*table.get(kind, ()), templates)
    return table


POD_TEMPLATES = _pod_templates()
"""Kind -> its rows; source: rewriting-rules 3.2."""


def pod_specs(
    obj: Object, gvk: GroupVersionKind, extra: Iterable[PodTemplates] = ()
) -> Iterator[LocatedPodSpec]:
    """Yield every pod spec of an object; extra: rows of the setting `podTemplates`."""
    seen: set[str] = set()  # a name that is mapped twice would be lost
    for row in _rows(gvk, extra):
        for path in row.paths:
            for where, spec in values_at(obj, path):
                if isinstance(spec, dict) and where not in seen:
                    seen.add(where)
                    yield LocatedPodSpec(where, spec, row.selector_only)


def pod_spec_paths(
    gvk: GroupVersionKind, extra: Iterable[PodTemplates] = ()
) -> Iterator[tuple[str, bool]]:
    """Yield each path of pod specs in objects of a kind, and whether it is selector_only."""
    for row in _rows(gvk, extra):
        for path in row.paths:
            yield path, row.selector_only


def have_fixed_pods(gvk: GroupVersionKind) -> bool:
    """Return whether the API server rejects changes of the pod specs of an existing object."""
    return any(row.fixed for row in POD_TEMPLATES.get(gvk.group_kind, ()))


def add_missing_specs(obj: Object, gvk: GroupVersionKind) -> None:
    """Add empty pod specs, in place, to kinds whose pods need one even if it is not set."""
    for row in _rows(gvk, ()):
        for path in row.paths if row.create else ():
            _create(obj, path)


def _rows(gvk: GroupVersionKind, extra: Iterable[PodTemplates]) -> list[PodTemplates]:
    configured = [row for row in extra if (row.group, row.kind) == gvk.group_kind]
    rows = (*POD_TEMPLATES.get(gvk.group_kind, ()), *configured)
    return [row for row in rows if row.version in ("", gvk.version)]


def _create(obj: Object, path: str) -> None:
    """Create the missing maps along a path of plain keys."""
    for key in path.split("."):
        value = obj.get(key)
        if value is None:
            value = obj[key] = {}
        if not isinstance(value, dict):
            return
        obj = value


class Treatment(Enum):
    """How the value at a path is rewritten."""

    NAMESPACE = "mapped as a namespace"
    SELECTOR = "a selector of namespaces, rewriting-rules 4.2"
    AFFINITY_TERM = "a pod affinity term: names of other namespaces become a selector"
    NAME_LIST_SELECTOR = "a selector with a list of names or `any`, as in monitors"
    ROUTE_NAMESPACES = "which namespaces may attach routes to a listener of a Gateway"
    DESTINATION = "a destination of Argo CD: mapped where it is the local cluster"
    PATTERN = "mapped as a namespace; a glob is refused"
    PARAMETERS = "a map for a driver: namespaces of Secrets in it are mapped"
    SECRET_ANNOTATIONS = "annotations: those with suffix -secret-namespace are mapped"  # noqa: S105 - no secret
    PROXY_ANNOTATIONS = "annotations of an Ingress: Secrets as namespace/name are mapped"
    CLUSTER_SCOPED_NAME = "mapped as the name of a cluster-scoped object"
    NODE = "a node, which must be of the virtual cluster"
    NODE_IF_OWN = "a node, dropped unless it is of the virtual cluster"
    DROPPED = "dropped on the way to the host"
    REFUSED = "refused if set"


@dataclass(frozen=True, slots=True)
class Reference:
    """One place in an object; path as in values_at(); it may also end in `[]`."""

    path: str
    treatment: Treatment = Treatment.NAMESPACE


def _references(row: Mapping[str, list[str]]) -> tuple[Reference, ...]:
    return tuple(
        Reference(path, Treatment[treatment]) for treatment, paths in row.items() for path in paths
    )


REFERENCES: Mapping[GroupKind, tuple[Reference, ...]] = {
    kind: _references(row)
    for row in _TABLES["references"]
    for kind in map(kind_named, row.pop("kinds"))
}
IN_POD_SPECS = _references(_TABLES["in_pod_specs"])
"""Paths relative to the pod spec."""
AFFINITY = tuple(row for row in IN_POD_SPECS if row.treatment is Treatment.AFFINITY_TERM)


@dataclass(frozen=True, slots=True)
class NamespaceReferences:
    """A row of the setting `namespaceReferences`: paths of namespaces in a kind."""

    group: str
    kind: str
    paths: tuple[str, ...]


@lru_cache(maxsize=1024)  # tenants name kinds
def references_of(kind: GroupKind, extra: tuple[NamespaceReferences, ...]) -> tuple[Reference, ...]:
    """Return the rows of a kind; a path in both settings and table counts once."""
    configured = {
        path: Reference(path)
        for row in extra
        if (row.group, row.kind) == kind
        for path in row.paths
    }
    return tuple((configured | {row.path: row for row in REFERENCES.get(kind, ())}).values())
