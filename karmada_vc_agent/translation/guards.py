"""What in a manifest may affect others than its virtual cluster (ADR 23)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from karmada_vc_agent.model import user_text, vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
    values_at,
)
from karmada_vc_agent.model.virtual_cluster import Guard
from karmada_vc_agent.model.vocabulary import GATEWAY_GROUP, SLICE_MANAGED_BY_LABEL
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.context import Notice, NoticeCode, TranslationContext
from karmada_vc_agent.translation.kind_policy import Code, RefusedError, kind_named, pod_spec_paths
from karmada_vc_agent.translation.own_steps import own_service


def _annotations() -> Mapping[str, tuple[str, ...]]:
    """Return the tables of annotations; an item is a key, or a domain with names."""
    tables = user_text.load_yaml(Path(__file__).with_name("shared_annotations.yaml").read_bytes())
    return {name: tuple(chain.from_iterable(map(_keys, rows))) for name, rows in tables.items()}


def _keys(row: str | Mapping[str, Iterable[str]]) -> list[str]:
    if isinstance(row, str):
        return [row]
    return [f"{domain}/{name}" for domain, names in row.items() for name in names]


ANNOTATIONS = _annotations()
HOST_KEYS, POD_ADDRESSES = ANNOTATIONS["host_keys"], ANNOTATIONS["pod_addresses"]

_TABLES = user_text.load_yaml(Path(__file__).with_name("guards.yaml").read_bytes())
OWN_SOURCES = frozenset(_TABLES["own_sources"])
"""Keys of volumes of pods: the name, and what is of the pod's node or namespace or a registry."""
NETWORK_SOURCES: tuple[str, ...] = tuple(_TABLES["network_sources"])
"""All others that the API server knows: a policy cannot ask for what it does not name."""
HOLDERS: Mapping[GroupKind, str] = {
    kind_named(name): path for name, path in _TABLES["hosts"].items()
}
"""Kind -> the path of the hosts that its objects use."""


def holds_names(gvk: GroupVersionKind) -> bool:
    """Return whether objects of a kind use shared names."""
    return gvk.group_kind in HOLDERS


def shared_names(obj: Object) -> dict[str, str]:
    """Return the hosts that an object uses, in lower case, each with its first path."""
    return dict(reversed(list(_names_in(obj))))


def _names_in(obj: Object) -> Iterator[tuple[str, str]]:
    place = HOLDERS.get(gvk_of(obj).group_kind)
    if place is None:
        return
    for key, value in annotations_of(obj).items():
        if key.endswith(HOST_KEYS):
            for host in re.split(r"[\s,]+", value.lower()):
                if host and not host.startswith(("~", "*", ".")):  # guards.py has wildcards
                    yield host, f'metadata.annotations["{key}"]'
    for path, value in chain(values_at(obj, place), values_at(obj, "spec.tls[].hosts[]")):
        if value and isinstance(value, str):
            yield value.lower(), path


class _Finding(NamedTuple):
    """Something that may affect others, and its path; without a guard it is always refused."""

    code: Code
    path: str
    problem: str
    guard: Guard | None = None


Find = Callable[[Object, TranslationContext], Iterator[_Finding]]


class Check(NamedTuple):
    """A search in the original manifest, with virtual names, and the guards that let pass."""

    says: str
    guards: tuple[Guard, ...]
    find: Find


NOTICES: Mapping[Guard, NoticeCode] = {
    Guard.CONTROLLER_KINDS: NoticeCode.CONTROLLER_RIGHTS,
    Guard.WILDCARD_HOSTS: NoticeCode.HOST_SHARED,
    Guard.EXTERNAL_ADDRESSES: NoticeCode.SHARED_ADDRESS,
    Guard.EXTERNAL_DNS: NoticeCode.SHARED_ADDRESS,
    Guard.LOAD_BALANCER_ADDRESSES: NoticeCode.SHARED_ADDRESS,
    Guard.POD_ADDRESSES: NoticeCode.SHARED_ADDRESS,
}
"""Guard -> the notice for what passes it."""


def pass_guards(
    obj: Object, gvk: GroupVersionKind, context: TranslationContext, *, is_shared: bool
) -> Iterator[Notice]:
    """Refuse the first finding that is not allowed; yield a notice for each guard that passes."""
    kind, reported = f"{gvk.group}/{gvk.kind}/{dig(obj, 'metadata', 'name')}", set()
    checks = [*BY_KIND.get(gvk.group_kind, ()), *OF_ALL]
    if kind_policy.has_rights_of_its_own(gvk.group_kind):
        checks.append(OF_CONTROLLER_KINDS)
    if is_shared:
        checks.append(OF_SHARED_KINDS)
    for check in checks:
        for code, path, problem, guard in check.find(obj, context):
            if guard is None:
                raise RefusedError(code, path, problem)
            if context.refuses(guard, kind):
                detail = f'{problem}; an administrator can allow it with "allow: [{guard}]"'
                raise RefusedError(code, path, detail)
            if guard in NOTICES and guard not in reported:
                reported.add(guard)
                yield Notice(NOTICES[guard], problem)


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of guards.yaml, which says what the fields mean."""

    says: str
    code: Code = Code.HOST_FORBIDDEN
    problem: str = ""
    guard: Guard | None = None
    guards: tuple[Guard, ...] = ()
    call: str = ""
    at: tuple[str, ...] = ()
    key: str | None = msgspec.field(default=None, name="is")
    ends: str | None = None
    begins: str | None = None
    value: str | None = None


ALIASES = "^[ ,]*([A-Za-z0-9][A-Za-z0-9.-]*([ ,]+|$))*$"
"""Names that match one host each; a leading dot, `*`, `~` and the like match many."""
ENDS_OF_VALUES = r"[;{}\r\n]"
"""End a value in the configuration of ingress-nginx."""
ENDS_OF_PATHS = r'[;\s"`]'
"""The same of a path; in a rule of Traefik a backtick ends one."""
_PATTERNS = {
    "ENDS_OF_VALUES": ENDS_OF_VALUES,
    "ENDS_OF_PATHS": ENDS_OF_PATHS,
    "not ALIASES": f"^(?!{ALIASES[1:]})",
}
"""Patterns that admission policies have, too, as guards.yaml names them."""


def _find_by(row: _Row) -> Find:
    """Make the search that a row says."""
    keys = frozenset(ANNOTATIONS[row.key]) if row.key else frozenset()
    ends = ANNOTATIONS[row.ends] if row.ends else ()
    begins = ANNOTATIONS[row.begins] if row.begins else ()
    pattern = None if row.value is None else re.compile(_PATTERNS.get(row.value, row.value))

    def values(obj: Object) -> Iterator[tuple[str, Any]]:
        for place in row.at:
            yield from values_at(obj, place)
        for holder, annotations in () if row.at else _annotations_in(obj):
            for key, value in annotations.items():
                if key in keys or key.endswith(ends) or key.startswith(begins):
                    yield f'{holder}["{key}"]', value

    def find(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
        for path, value in values(obj):
            is_met = value if pattern is None else pattern.search(str(value))
            if is_met:
                group, _, kind = gvk_of(obj)
                problem = row.problem.format(path=path, value=value, group=group, kind=kind)
                yield _Finding(row.code, path, problem, row.guard)

    return find


def _annotations_in(obj: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what holds annotations: controllers copy those of a Gateway to a Service."""
    yield "metadata.annotations", annotations_of(obj)
    infrastructure = dig(obj, "spec", "infrastructure", "annotations")
    if isinstance(infrastructure, dict) and gvk_of(obj).group == GATEWAY_GROUP:
        yield "spec.infrastructure.annotations", infrastructure


_NOT_A_SOURCE = frozenset(_TABLES["not_a_source"])


def _volume(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    forbidden = Code.VOLUME_FORBIDDEN
    path = "spec.persistentVolumeReclaimPolicy"
    if spec.get("persistentVolumeReclaimPolicy") == "Delete" and spec.get("hostPath"):
        problem = f'{path} "Delete" of a hostPath deletes files of the control plane; use Retain'
        yield _Finding(forbidden, path, problem)
    if not (dig(spec, "claimRef", "name") and dig(spec, "claimRef", "namespace")):
        problem = (
            "spec.claimRef is not set, so claims of other virtual clusters may bind the volume; "
            "set its name and namespace"
        )
        yield _Finding(forbidden, "spec.claimRef", problem, Guard.UNCLAIMED_VOLUMES)
    for source in sorted(key for key in spec if key not in _NOT_A_SOURCE and spec[key]):
        if source in ("hostPath", "local"):
            what, guard = "is a directory or disk of a node", Guard.HOST_PATH
        else:
            what, guard = "refers to storage that may belong to others", Guard.NETWORK_VOLUMES
        yield _Finding(forbidden, f"spec.{source}", f"spec.{source} {what}", guard)


def _class_secrets(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
    for path, value in values_at(obj, "parameters{}"):
        if path.lower().endswith('namespace"]') and "${" not in str(value):
            problem = f"{path} {value} lets all who name the class use the Secret there"
            yield _Finding(Code.VOLUME_FORBIDDEN, path, problem, Guard.NETWORK_VOLUMES)


def _pods(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    for path, is_partial in pod_spec_paths(gvk_of(obj), context.settings.pod_templates):
        parent, _, last = path.rpartition(".")
        holders = values_at(obj, parent) if parent else iter([("", obj)])
        for where, pod in () if is_partial else holders:
            head = f"{where}." if where else ""
            volumes = dig(pod, last, "volumes")
            for i, volume in enumerate(volumes if isinstance(volumes, list) else ()):
                for source in sorted(set(volume) - OWN_SOURCES) if isinstance(volume, dict) else ():
                    here = f"{head}{last}.volumes[{i}].{source}"
                    problem = f"{here} refers to storage that may belong to others"
                    yield _Finding(Code.VOLUME_FORBIDDEN, here, problem, Guard.NETWORK_VOLUMES)
            for key in sorted(k for k in annotations_of(pod) if k.endswith(POD_ADDRESSES)):
                here = f'{head}metadata.annotations["{key}"]'
                problem = f"{here} chooses an address or a network that others may have"
                yield _Finding(Code.ADDRESS_FORBIDDEN, here, problem, Guard.POD_ADDRESSES)


def _external_name(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    for path, name in values_at(obj, "spec.externalName"):
        is_own = isinstance(name, str) and own_service(name, context.settings.cluster_domain)
        if name and not is_own:
            problem = (
                f'{path} "{name}" is not known to belong to the virtual cluster; write '
                "<service>.<namespace>.svc"
            )
            yield _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.EXTERNAL_NAMES)


def _endpoints(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    labels = labels_of(obj)
    is_template = any(label in labels for label in vocabulary.BINDING_LABELS)
    if labels.get(SLICE_MANAGED_BY_LABEL) in vocabulary.MADE_BY_KARMADA and not is_template:
        return  # Karmada itself sends it, for a MultiClusterService
    for where in (
        "subsets[].addresses[].ip",
        "subsets[].notReadyAddresses[].ip",
        "endpoints[].addresses[]",
    ):
        for path, address in values_at(obj, where):
            if context.is_of_host(str(address)):
                problem = f'{path} "{address}" belongs to a node, pod or Service of others'
                yield _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.HOST_ENDPOINTS)
            problem = f'{path} "{address}" is not known to belong to the virtual cluster'
            yield _Finding(Code.ADDRESS_FORBIDDEN, path, problem, Guard.FOREIGN_ENDPOINTS)


def _hosts(row: _Row) -> Find:
    """Make a search for hosts at a path that match many."""
    parent, _, last = row.at[0].rpartition(".")

    def find(obj: Object, _context: TranslationContext) -> Iterator[_Finding]:
        for where, holder in values_at(obj, parent):
            value = dig(holder, last.removesuffix("[]"))
            here = f"{where}.{last}"
            if row.call == "needed_hosts" and not value:
                yield _many(f"{here} is not set, which matches every host", here)
            for host in value if isinstance(value, list) else [value]:
                if isinstance(host, str) and host.startswith("*"):
                    yield _many(f'{here} "{host}" matches many hosts', here)

    return find


def _many(problem: str, path: str) -> _Finding:
    problem = f"{problem}, also those of other virtual clusters"
    return _Finding(Code.HOST_FORBIDDEN, path, problem, Guard.WILDCARD_HOSTS)


def _unknown_kind(obj: Object, context: TranslationContext) -> Iterator[_Finding]:
    kind = gvk_of(obj).group_kind
    if kind_policy.is_named(kind) or kind in context.settings.cluster_scoped_kinds:
        return
    if not kind_policy.opens_kind(context.vc.allow, kind.group, kind_policy.plurals_of(kind.kind)):
        problem = (
            f"what kind {kind.kind} of {kind.group} may reach no table says; "
            f'"allow: [{kind.group}/{kind.kind}]" permits this kind'
        )
        yield _Finding(Code.KIND_FORBIDDEN, "kind", problem, Guard.UNKNOWN_KINDS)


_SEARCHES: Mapping[str, Callable[[_Row], Find]] = {
    "": _find_by,
    "class_secrets": lambda _row: _class_secrets,
    "endpoints": lambda _row: _endpoints,
    "external_name": lambda _row: _external_name,
    "hosts": _hosts,
    "needed_hosts": _hosts,
    "pods": lambda _row: _pods,
    "unknown_kind": lambda _row: _unknown_kind,
    "volume": lambda _row: _volume,
}


def _checks(rows: Any) -> tuple[Check, ...]:
    """Return the checks of rows of guards.yaml."""
    return tuple(
        Check(row.says, row.guards or ((row.guard,) if row.guard else ()), _SEARCHES[row.call](row))
        for row in msgspec.convert(rows, list[_Row])
    )


BY_KIND: Mapping[GroupKind, tuple[Check, ...]] = {
    kind_named(name): _checks(rows) for name, rows in _TABLES["by_kind"].items()
}
OF_ALL = _checks(_TABLES["of_all"])
"""For objects of every kind."""
(OF_CONTROLLER_KINDS,) = _checks(_TABLES["of_controllers"])
"""For objects of kinds in CONTROLLER_KINDS (kind_policy.py)."""
(OF_SHARED_KINDS,) = _checks(_TABLES["of_shared"])
"""For objects of the kinds that all virtual clusters share."""
