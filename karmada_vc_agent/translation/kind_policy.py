"""What happens to objects of a kind, paths in them, and refusals."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from karmada_vc_agent.model import user_text, vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    dig,
    gvk_of,
    labels_of,
    namespaced_name,
    values_at,
)
from karmada_vc_agent.model.user_text import either
from karmada_vc_agent.model.virtual_cluster import Guard, VirtualCluster
from karmada_vc_agent.model.vocabulary import ANY, DOMAIN, matches_any, parse_kind


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


class LocatedPodSpec(NamedTuple):
    """One pod spec inside an object, not a copy: changing `spec` changes the object."""

    path: str
    spec: Object
    selector_only: bool


_PATHS = user_text.load_yaml(Path(__file__).with_name("kind_paths.yaml").read_bytes())


def kind_named(name: str) -> GroupKind:
    """Return the kind that a table names, `Pod` or `batch/Job`."""
    group, _, kind = name.rpartition("/")
    return GroupKind(group, kind)


def _pod_templates() -> Mapping[GroupKind, tuple[PodTemplates, ...]]:
    table: dict[GroupKind, tuple[PodTemplates, ...]] = {}
    for row in _PATHS["pods"]:
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
    for path, selector_only in pod_spec_paths(gvk, extra):
        for where, spec in values_at(obj, path):
            if isinstance(spec, dict) and where not in seen:
                seen.add(where)
                yield LocatedPodSpec(where, spec, selector_only)


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
    for path in (path for row in _rows(gvk, ()) if row.create for path in row.paths):
        part = obj
        for key in path.split("."):
            if part.get(key) is None:
                part[key] = {}
            if not isinstance(part[key], dict):
                break
            part = part[key]


def _rows(gvk: GroupVersionKind, extra: Iterable[PodTemplates]) -> list[PodTemplates]:
    configured = [row for row in extra if (row.group, row.kind) == gvk.group_kind]
    rows = (*POD_TEMPLATES.get(gvk.group_kind, ()), *configured)
    return [row for row in rows if row.version in ("", gvk.version)]


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


class Reference(NamedTuple):
    """One place in an object; path as in values_at(); it may also end in `[]`."""

    path: str
    treatment: Treatment = Treatment.NAMESPACE


def _references(row: Mapping[str, list[str]]) -> tuple[Reference, ...]:
    return tuple(
        Reference(path, Treatment[treatment]) for treatment, paths in row.items() for path in paths
    )


REFERENCES: Mapping[GroupKind, tuple[Reference, ...]] = {
    kind: _references(row)
    for row in _PATHS["references"]
    for kind in map(kind_named, row.pop("kinds"))
}
IN_POD_SPECS = _references(_PATHS["in_pod_specs"])
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
    paths = [path for row in extra if (row.group, row.kind) == kind for path in row.paths]
    built_in = {row.path: row for row in REFERENCES.get(kind, ())}
    return tuple(({path: Reference(path) for path in paths} | built_in).values())


class Code(StrEnum):
    """Why a manifest must not be applied (rewriting-rules 7); also the reason of the event."""

    NODE_SELECTOR_CONFLICT = "NodeSelectorConflict"
    NODE_AFFINITY_CONFLICT = "NodeAffinityConflict"
    NODE_NAME_FORBIDDEN = "NodeNameForbidden"
    NODE_SCOPE_FORBIDDEN = "NodeScopeForbidden"
    NODE_OVERLAP = "NodeOverlap"
    NAMESPACE_FORBIDDEN = "NamespaceForbidden"
    NAMESPACE_MISSING = "NamespaceMissing"
    NAMESPACE_NOT_OWNED = "NamespaceNotOwned"
    NAMESPACE_CLAIM_CONFLICT = "NamespaceClaimConflict"
    NAMESPACE_HELD = "NamespaceHeld"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    MANIFEST_INVALID = "ManifestInvalid"
    KIND_FORBIDDEN = "KindForbidden"
    SHARED_OBJECT_CONFLICT = "SharedObjectConflict"
    SHARED_HOST_CONFLICT = "SharedHostConflict"
    SUBJECT_FORBIDDEN = "SubjectForbidden"
    VOLUME_FORBIDDEN = "VolumeForbidden"
    ADDRESS_FORBIDDEN = "AddressForbidden"
    HOST_FORBIDDEN = "HostForbidden"
    RULE_FORBIDDEN = "RuleForbidden"
    NAME_RESERVED = "NameReserved"
    REFERENCE_FORBIDDEN = "ReferenceForbidden"
    IMMUTABLE = "Immutable"
    BOUND_EXCEEDED = "BoundExceeded"


CONTENT_REFUSALS = frozenset(
    {
        *(Code.NODE_SELECTOR_CONFLICT, Code.NAMESPACE_FORBIDDEN, Code.NAMESPACE_MISSING),
        *(Code.MANIFEST_INVALID, Code.SUBJECT_FORBIDDEN, Code.VOLUME_FORBIDDEN),
        *(Code.ADDRESS_FORBIDDEN, Code.HOST_FORBIDDEN, Code.NAME_RESERVED),
        Code.REFERENCE_FORBIDDEN,
        Code.SHARED_OBJECT_CONFLICT,  # SharedObjects enqueue; some name a kind: work/reporting.py
        Code.SHARED_HOST_CONFLICT,  # names the host: work/reporting.py
        Code.IMMUTABLE,  # a change of the object itself enqueues its Work
        Code.BOUND_EXCEEDED,  # WorkBounds enqueue
    }
)
"""Refusals that end only with another Work or other settings; all others wait."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a manifest must not be applied: code, place and reason.

    path: JSON path inside the manifest, "" for the whole object.
    detail: a sentence for users, with names of the virtual cluster only.
    about: the one thing on the host that it depends on, by name; never shown.
    """

    code: Code
    path: str
    detail: str
    about: str = ""

    def text(self, vc: str, kind: str, namespace: str, name: str) -> str:
        """Return the full sentence for users (rewriting-rules 7); namespace: virtual, "" = none."""
        target = f"{kind} {namespaced_name(namespace, name)}"
        return f'virtual cluster "{vc}" refused {target}: {self.code}: {self.detail}'


class RefusedError(Exception):
    """Carries a Refusal from a step up to translate(), the only catcher."""

    def __init__(self, code: Code, path: str, detail: str, about: str = "") -> None:
        """Create the Refusal to carry."""
        self.refusal = Refusal(code, path, detail, about)
        super().__init__(f"{code}: {detail}")


_TABLES = user_text.load_yaml(Path(__file__).with_name("kind_policy.yaml").read_bytes())
_BY_GROUP: Mapping[str, list[str]] = _TABLES["controllers"]
CONTROLLER_KINDS = frozenset(
    GroupKind(group, kind) for group, names in _BY_GROUP.items() for kind in names
)


def has_rights_of_its_own(kind: GroupKind) -> bool:
    """Return whether a controller with rights of its own reconciles objects of this kind."""
    return vocabulary.is_among(kind, CONTROLLER_KINDS)


def is_resource_of_one(group: str, resource: str) -> bool:
    """Return whether a (sub)resource belongs to such a kind; plurals are assumed regular."""
    plural = resource.partition("/")[0]
    names = _BY_GROUP.get(group, [])
    return ANY in names or plural in [f"{kind.lower()}s" for kind in names]


_KARMADA_DOMAIN = ".karmada.io"


class Policy(StrEnum):
    """What happens to objects of a kind."""

    MAP = "map"
    APPLY = "apply"
    RENAME = "rename"
    SHARE = "share"
    CONVERT = "convert"
    ABSORB = "absorb"
    REFUSE = "refuse"


IMPERSONATOR = "karmada-impersonator"
"""The ClusterRole, and its binding, that let Karmada impersonate users (5.4)."""

CONFIGURABLE = (Policy.SHARE, Policy.RENAME, Policy.REFUSE)
"""Values that the setting `clusterScopedKinds` may have."""

CLUSTER_SCOPED: Mapping[GroupKind, Policy] = {
    kind_named(name): Policy(policy)
    for policy, names in _TABLES["cluster_scoped"].items()
    for name in names
}
"""Cluster-scoped kinds that are not refused (rewriting-rules 5.1)."""

NEVER_OPENED = frozenset(map(kind_named, (*_TABLES["never_opened"], f"{DOMAIN}/{ANY}")))
"""Cluster-scoped kinds that affect or belong to the whole host: no setting opens them."""

NEVER_DENIED = frozenset({vocabulary.NAMESPACE})
"""Kinds that the settings of a virtual cluster cannot deny."""

CONTROL_PLANES_OWN: Mapping[GroupKind, Policy] = {
    vocabulary.CLUSTER_ROLE: Policy.RENAME,
    vocabulary.CLUSTER_ROLE_BINDING: Policy.ABSORB,
}
"""Policies of the two objects named IMPERSONATOR that Karmada itself sends (5.4)."""

DEFINE_KINDS = frozenset({vocabulary.CUSTOM_RESOURCE_DEFINITION})
"""Shared kinds that change, and are deleted, only while others have no objects of their kinds."""

_CONTROL_PLANE = "kind {kind} belongs to Karmada's control plane"

REFUSED_NAMESPACED: Mapping[GroupKind, str] = {
    **{kind_named(name): why for name, why in _TABLES["refused_namespaced"].items()},
    GroupKind(DOMAIN, ANY): "kind {kind} is not allowed",  # it would define virtual clusters
}
"""Namespaced kinds that are refused, and why; others are applied (rewriting-rules 5.3)."""


RESERVED: Mapping[GroupKind, tuple[str, ...]] = {
    kind_named(name): tuple(patterns) for name, patterns in _TABLES["reserved_names"].items()
}
"""Kind -> patterns of reserved names: NameReserved (rewriting-rules 5.2, 6)."""


NAMED_GROUPS = frozenset(
    (*_TABLES["groups_inside"], *(kind.group for kind in (*POD_TEMPLATES, *REFERENCES)))
) | {kind.group for kind in (*CLUSTER_SCOPED, *NEVER_OPENED, *REFUSED_NAMESPACED)}
"""Groups that a table knows; kinds of others are refused in Strict (ADR 80). That some kinds of a
group are in CONTROLLER_KINDS says nothing of its others."""


_BY_WORKS_ALONE = frozenset({"cert-manager.io", "monitoring.coreos.com"})
"""Named groups that only their translation confines: a Prometheus takes monitors of all namespaces,
with their Secrets, and a monitor files of the host's. No policy judges what tenants write."""


def is_named(kind: GroupKind) -> bool:
    """Return whether a table knows a kind, or its group."""
    return kind.group in NAMED_GROUPS or has_rights_of_its_own(kind)


def opens_kind(allow: Collection[str], group: str, plurals: Collection[str]) -> bool:
    """Return whether `allow` opens a kind that no table knows: it, its group, or its definition."""
    if Guard.UNKNOWN_KINDS in allow or f"{group}/*" in allow:
        return True
    definition = "/".join(vocabulary.CUSTOM_RESOURCE_DEFINITION)
    own = [entry.removeprefix(f"{group}/") for entry in allow if entry.startswith(f"{group}/")]
    named = {plural for kind in own for plural in plurals_of(kind)}
    return any(p in named or f"{definition}/{p}.{group}" in allow for p in plurals)


def plurals_of(kind: str) -> frozenset[str]:
    """Return what the plural of a kind may be: `policies`, but `gateways`."""
    return frozenset((vocabulary.plural(GroupKind("", kind)), f"{kind.lower()}s"))


def is_written_in_strict(group: str, resource: str, allow: Collection[str]) -> bool:
    """Return whether tenants may write a (sub)resource in Strict.

    Not what a controller with rights of its own reconciles, nor, unless `allow` opens it, what no
    table knows or only a translation holds.
    """
    if is_resource_of_one(group, resource):
        return False
    is_named = group == ANY or group in NAMED_GROUPS - _BY_WORKS_ALONE
    return is_named or opens_kind(allow, group, {resource.partition("/")[0]})


ClusterScopedKinds = Mapping[GroupKind, Policy]
"""The setting `clusterScopedKinds`: kind -> one of CONFIGURABLE."""

_AS_BUILT_IN: ClusterScopedKinds = {}


def policy_for(
    gvk: GroupVersionKind, *, namespaced: bool, configured: ClusterScopedKinds = _AS_BUILT_IN
) -> Policy:
    """Return what happens to objects of a kind, whatever its version."""
    if namespaced:
        return Policy.REFUSE if _refusal_of_namespaced(gvk) else Policy.APPLY
    kind = gvk.group_kind
    if kind in configured and not _is_never_opened(kind):
        return configured[kind]
    return CLUSTER_SCOPED.get(kind, Policy.REFUSE)


def is_cluster_scoped(gvk: GroupVersionKind) -> bool:
    """Return whether a table has a kind as cluster-scoped; others are taken as namespaced."""
    kind = gvk.group_kind
    return kind in CLUSTER_SCOPED or _is_never_opened(kind)


def configured_kinds(setting: Mapping[str, str]) -> ClusterScopedKinds:
    """Return the validated setting `clusterScopedKinds` in the form used by the rules."""
    return {parse_kind(name): Policy(policy) for name, policy in setting.items()}


def problem_with(name: str, policy: str) -> str | None:
    """Return what is wrong with an entry of `clusterScopedKinds`, or None. name: group/Kind."""
    if policy not in CONFIGURABLE:
        return f'is "{policy}", must be {either(CONFIGURABLE)}'
    if _is_never_opened(parse_kind(name)) and policy != Policy.REFUSE:
        return "affects the whole host and cannot be opened"
    return None


def _is_never_opened(kind: GroupKind) -> bool:
    return vocabulary.is_among(kind, NEVER_OPENED) or kind.group.endswith(_KARMADA_DOMAIN)


ONLY_READ = frozenset(map(kind_named, ("Node", "Event", "events.k8s.io/Event")))
"""Kinds that no Work may have and that clients of the gateway read."""


def hidden_from_api_enablements(
    gvk: GroupVersionKind,
    *,
    namespaced: bool,
    configured: ClusterScopedKinds = _AS_BUILT_IN,
    vc: VirtualCluster | None = None,
    is_reached: bool = False,
) -> bool:
    """Return whether a kind is omitted from the APIs reported to Karmada, which sends no others.

    is_reached: karmada-search can read it, by the gateway.
    """
    if is_reached and gvk.group_kind in ONLY_READ:
        return False
    if vc is not None and denies(vc, gvk):
        return True
    return policy_for(gvk, namespaced=namespaced, configured=configured) is Policy.REFUSE


def denies(vc: VirtualCluster, gvk: GroupVersionKind) -> bool:
    """Return whether the settings of a virtual cluster deny a kind; Namespaces are never denied."""
    if gvk.group_kind in NEVER_DENIED:
        return False
    if matches_any(vc.denied_kinds, gvk.group, gvk.kind):
        return True
    return bool(vc.allowed_kinds) and not matches_any(vc.allowed_kinds, gvk.group, gvk.kind)


def refuse_forbidden(
    manifest: Object,
    vc: VirtualCluster,
    *,
    namespaced: bool,
    configured: ClusterScopedKinds = _AS_BUILT_IN,
    names_only: bool = False,
) -> Policy:
    """Refuse a manifest with a forbidden kind or name; return its policy otherwise.

    names_only: whatever the settings of the virtual cluster deny. Refuses KindForbidden and
    NameReserved. Source: rewriting-rules 5, 6.
    """
    gvk = gvk_of(manifest)
    policy = policy_for(gvk, namespaced=namespaced, configured=configured)
    detail = ""
    if policy is Policy.REFUSE:
        detail = (_refusal_of_namespaced(gvk) if namespaced else None) or (
            f"cluster-scoped kind {gvk.kind} is not allowed"
        )
    elif not names_only and denies(vc, gvk):
        detail = f"kind {gvk.kind} is not allowed in this virtual cluster"
    if detail:
        raise RefusedError(Code.KIND_FORBIDDEN, "kind", detail)
    name = dig(manifest, "metadata", "name")
    for pattern in RESERVED.get(gvk.group_kind, ()):
        detail = ""
        if pattern == name:
            detail = f'{gvk.kind} "{name}" is Karmada\'s own'
        elif pattern.endswith("*") and str(name).startswith(pattern[:-1]):
            detail = f'names of kind {gvk.kind} must not begin with "{pattern[:-1]}"'
        if detail:
            raise RefusedError(Code.NAME_RESERVED, vocabulary.NAME_FIELD, detail)
    return policy


def control_planes_own(manifest: Object) -> Policy | None:
    """Return the policy for an object that lets Karmada impersonate users; None for others (5.4).

    The caller checks that its Work is the Cluster's own.
    """
    policy = CONTROL_PLANES_OWN.get(gvk_of(manifest).group_kind)
    labels = labels_of(manifest)
    is_own = (
        dig(manifest, "metadata", "name") == IMPERSONATOR
        and labels.get(vocabulary.SYSTEM_LABEL) == "true"
        and not any(label in labels for label in vocabulary.BINDING_LABELS)
    )
    return policy if is_own else None


def _refusal_of_namespaced(gvk: GroupVersionKind) -> str | None:
    detail = REFUSED_NAMESPACED.get(gvk.group_kind)
    detail = detail or REFUSED_NAMESPACED.get(GroupKind(gvk.group, ANY))
    if detail is None and gvk.group.endswith(_KARMADA_DOMAIN):
        detail = _CONTROL_PLANE
    return detail.format(kind=gvk.kind) if detail else None
