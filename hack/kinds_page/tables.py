"""The agent's tables of kinds, and the text for a row of each.

Nothing here knows a kind: all content is in the tables that the agent itself uses, or in the
docstrings of the functions in them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from karmada_vc_agent.features.adoption import feature
from karmada_vc_agent.features.service_export import feature as service_export
from karmada_vc_agent.interpretation.interpreter import LEVELS
from karmada_vc_agent.interpretation.user_hooks import INTERPRET_HEALTH, INTERPRET_STATUS, RETAIN
from karmada_vc_agent.model import virtual_cluster, vocabulary
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind
from karmada_vc_agent.model.virtual_cluster import Guard
from karmada_vc_agent.translation import (
    guards,
    kind_policy,
    namespace_defaults,
    own_steps,
    placement,
    restore,
)
from karmada_vc_agent.translation.context import NoticeCode, OwnSteps, shared_name
from karmada_vc_agent.translation.guards import Check
from karmada_vc_agent.translation.kind_policy import PodTemplates, Policy, Reference, Treatment
from karmada_vc_agent.work import host_objects, reporting, works
from karmada_vc_agent.work.rules import apply_plan, ownership, server_changes


class Aspect(Enum):
    """What the page describes of a kind, in this order."""

    NAME = "Name and namespace"
    REFUSED = "Refused"
    PODS = "Pods and volumes"
    REFERENCES = "References"
    REWRITTEN = "Rewritten"
    WRITTEN = "Written"
    REPORTED = "Reported"
    RETAINED = "Retained"
    COMPARED = "Not compared"
    REFLECTED = "Reflected"
    HEALTH = "Health"
    QUOTA = "Counted for a quota"


MEANING: Mapping[Policy, str] = {
    Policy.MAP: "becomes a claimed host namespace",
    Policy.APPLY: "is created in the host namespace under its own name",
    Policy.RENAME: "is renamed on the host",
    Policy.SHARE: (
        "is one host object for all virtual clusters with the same content, with a list of owners"
    ),
    Policy.CONVERT: "becomes a RoleBinding in each claimed namespace",
    Policy.ABSORB: "counts as applied and creates no object",
    Policy.REFUSE: "is refused",
}

ALWAYS_REPORTED = (
    Aspect.NAME,
    Aspect.REFUSED,
    Aspect.PODS,
    Aspect.REFERENCES,
    Aspect.WRITTEN,
    Aspect.RETAINED,
    Aspect.REFLECTED,
    Aspect.HEALTH,
)
"""Of these each kind says something, or that what holds for every kind holds for it."""

WHOLLY_REFUSED = "Refused (`KindForbidden`)"
"""How what is said begins of a kind of which nothing is applied."""

Rows = Mapping[Any, Any] | frozenset[Any]
"""By GroupKind, GroupVersionKind, or the name of a kind; a set where a row has no content."""


@dataclass(frozen=True)
class Table:
    """One table: the very object that the agent reads, and what a row of it says."""

    aspect: Aspect
    rows: Rows
    tell: Callable[[GroupKind, Any], Iterable[str]]

    @cached_property
    def _keys(self) -> Mapping[GroupKind | str, list[Any]]:
        """The keys that are about a kind, or about all kinds of a name."""
        found: dict[GroupKind | str, list[Any]] = {}
        for key in self.rows:
            kind = key.group_kind if isinstance(key, GroupVersionKind) else key
            found.setdefault(kind, []).append(key)
        return found

    def kinds(self) -> set[GroupKind]:
        """Return the kinds that have rows; one of GroupKind(group, ANY) is a whole group."""
        return {kind for kind in self._keys if isinstance(kind, GroupKind)}

    def sentences(self, kind: GroupKind) -> Iterator[str]:
        """Yield what the rows of a kind say, else that of its group, without full stops."""
        rows = self.rows if isinstance(self.rows, Mapping) else dict.fromkeys(self.rows)
        keys = self._keys
        of_group = GroupKind(kind.group, vocabulary.ANY)
        for key in keys.get(kind) or keys.get(kind.kind) or keys.get(of_group) or ():
            for sentence in self.tell(kind, rows[key]):
                yield _of_version(key, sentence)


def _of_version(key: Any, sentence: str) -> str:
    if not isinstance(key, GroupVersionKind):
        return sentence
    return f"`{key.version}`: {_lowered(sentence)}"


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def summary_of(function: Callable[..., object]) -> str:
    """Return the first line of a docstring without its full stop."""
    text = (function.__doc__ or "").strip().partition("\n")[0]
    if not text:
        raise ValueError(f"{function!r} has a row in a table of kinds, so it needs a docstring")
    return text.removesuffix(".")


def quoted(texts: Iterable[str]) -> str:
    """Return texts as code, with commas between them."""
    return ", ".join(f"`{text}`" for text in texts)


def by_profile(guard: Guard, notice: NoticeCode | None) -> str:
    """Say in which profile a guard refuses, where the virtual cluster is allowed nothing."""
    if virtual_cluster.refuses(virtual_cluster.SHARED, (), guard):
        return f"`{guard}` in both profiles"
    passes = f"reported as `{notice}` in `Shared`" if notice else "passes in `Shared`"
    return f"`{guard}` in `Strict`, {passes}"


def _summary(verb: str = "", instead: str = "") -> Callable[[GroupKind, Any], Iterable[str]]:
    """Make what the docstring of a row says, without the verb that it begins with."""

    def tell(_kind: GroupKind, function: Callable[..., object]) -> Iterable[str]:
        summary = summary_of(function)
        yield instead + summary.removeprefix(verb) if summary.startswith(verb) else summary

    return tell


def _defaults(_kind: GroupKind, names: tuple[str, ...]) -> Iterable[str]:
    listed = ", ".join(f"`{name}`" for name in names)
    yield f"Settings create {listed} in each claimed namespace (rewriting-rules 6)"


def _says(text: str) -> Callable[[GroupKind, Any], Iterable[str]]:
    """Make what every row of a table says; {row} is what stands in it."""
    return lambda _kind, row: (text.format(row=row),)


# --- names and refusals ---------------------------------------------------------------------


def _policy(_kind: GroupKind, policy: Policy) -> Iterable[str]:
    yield f"`{policy}`: {MEANING[policy]}"


def _never_opened(kind: GroupKind, _row: None) -> Iterable[str]:
    is_treated = kind in kind_policy.CLUSTER_SCOPED
    yield "No setting changes that" if is_treated else f"{WHOLLY_REFUSED}; no setting opens it"


def _control_planes_own(_kind: GroupKind, policy: Policy) -> Iterable[str]:
    yield f"`{kind_policy.IMPERSONATOR}` from Karmada itself {MEANING[policy]}"


def _refused_namespaced(kind: GroupKind, detail: str) -> Iterable[str]:
    is_group = kind.kind == vocabulary.ANY
    why = " if they are namespaced" if is_group else f": {detail.format(kind=kind.kind)}"
    yield WHOLLY_REFUSED + why


def _reserved(_kind: GroupKind, patterns: tuple[str, ...]) -> Iterable[str]:
    yield f"`NameReserved`: {quoted(patterns)}"


def check_sentence(check: Check) -> str:
    """Say what a check finds, and what its guards do about it in each profile."""
    held = "; ".join(by_profile(each, guards.NOTICES.get(each)) for each in check.guards)
    return f"{check.says}: {held or 'in both profiles'}"


def _checks(_kind: GroupKind, checks: tuple[Check, ...]) -> Iterable[str]:
    return map(check_sentence, checks)


def _of_controller(_kind: GroupKind, _row: None) -> Iterable[str]:
    yield check_sentence(guards.OF_CONTROLLER_KINDS)


def _of_shared_kinds(_kind: GroupKind, policy: Policy) -> Iterable[str]:
    if policy is Policy.SHARE:
        yield check_sentence(guards.OF_SHARED_KINDS)


def _shared_name(_kind: GroupKind, path: str) -> Iterable[str]:
    held = by_profile(Guard.SHARED_HOSTS, shared_name("").code)
    yield f"A host at `{path}` that another virtual cluster has: {held}"


# --- inside ---------------------------------------------------------------------------------


def _pod_templates(_kind: GroupKind, rows: tuple[PodTemplates, ...]) -> Iterable[str]:
    for row in rows:
        version = f"`{row.version}`: " if row.version else ""
        what = "node selector and tolerations" if row.selector_only else "pinned"
        made = ", created if missing" if row.create else ""
        yield f"{version}{what} at {quoted(row.paths)}{made}"
    if any(row.fixed for row in rows):
        yield "It cannot follow a changed selector: `Immutable`"


def reference_sentences(rows: Iterable[Reference]) -> Iterator[str]:
    """Yield a sentence for each treatment."""
    paths: dict[Treatment, list[str]] = {}
    for row in rows:
        paths.setdefault(row.treatment, []).append(row.path)
    for treatment, found in paths.items():
        yield f"{quoted(found)} ({treatment.value})"


def _references(_kind: GroupKind, rows: tuple[Reference, ...]) -> Iterable[str]:
    return reference_sentences(rows)


_BEFORE = {"restore": "On the way back: "}


def _steps(*names: str) -> Callable[[GroupKind, OwnSteps], Iterable[str]]:
    """Make what the steps of these names say."""

    def tell(_kind: GroupKind, steps: OwnSteps) -> Iterable[str]:
        for name in names:
            if step := getattr(steps, name):
                yield _BEFORE.get(name, "") + summary_of(step).removeprefix("Report ")

    return tell


# --- what stays, what is reported -----------------------------------------------------------


def _stand_in(_kind: GroupKind, _bound: object) -> Iterable[str]:
    yield "Created empty while a binding to it is written before it exists (ADR 24)"


_COUNTED = {
    vocabulary.DEPLOYMENT: "`spec.replicas`, and `maxSurge` more while it rolls",
    vocabulary.DAEMON_SET: "One for each node of the virtual cluster",
    vocabulary.JOB: "`spec.parallelism` until it is complete; zero while it is suspended",
}


def _counted(kind: GroupKind, _row: object) -> Iterable[str]:
    yield _COUNTED.get(kind, "`spec.replicas`")


_REPORTERS = {reporter.kind: reporter for reporter in service_export.REPORTERS}

TABLES: tuple[Table, ...] = (
    Table(Aspect.NAME, kind_policy.CLUSTER_SCOPED, _policy),
    Table(Aspect.NAME, kind_policy.NEVER_OPENED, _never_opened),
    Table(Aspect.NAME, kind_policy.REFUSED_NAMESPACED, _refused_namespaced),
    Table(Aspect.NAME, kind_policy.CONTROL_PLANES_OWN, _control_planes_own),
    Table(
        Aspect.NAME, vocabulary.NAMESPACE_FIELD, _says("`metadata.{row}` is the virtual namespace")
    ),
    Table(
        Aspect.REFUSED,
        kind_policy.NEVER_DENIED,
        _says("`deniedKinds` and `allowedKinds` do not exclude it"),
    ),
    Table(Aspect.REFUSED, kind_policy.RESERVED, _reserved),
    Table(Aspect.REFUSED, own_steps.NOT_INSIDE, _says("Inside an EdgeApplication")),
    Table(Aspect.REFUSED, guards.BY_KIND, _checks),
    Table(Aspect.REFUSED, kind_policy.CONTROLLER_KINDS, _of_controller),
    Table(Aspect.REFUSED, kind_policy.CLUSTER_SCOPED, _of_shared_kinds),
    Table(Aspect.REFUSED, guards.HOLDERS, _shared_name),
    Table(Aspect.PODS, kind_policy.POD_TEMPLATES, _pod_templates),
    Table(Aspect.PODS, own_steps.OWN_STEPS, _steps("inside", "place")),
    Table(
        Aspect.PODS,
        feature.PODS_TO_REPLACE,
        _says("An adopted one keeps its placement while all its pods run on the group's nodes"),
    ),
    Table(Aspect.REFERENCES, kind_policy.REFERENCES, _references),
    Table(Aspect.REWRITTEN, own_steps.OWN_STEPS, _steps("strip", "metadata", "rewrite", "restore")),
    Table(
        Aspect.REWRITTEN,
        placement.DATA_FIELDS,
        _says("Names of Services in {row[0]}, if annotation `rewrite-dns` requests it"),
    ),
    Table(
        Aspect.WRITTEN,
        kind_policy.DEFINE_KINDS,
        _says("Changed, and deleted, only while others have no objects of the kind it defines"),
    ),
    Table(
        Aspect.WRITTEN,
        namespace_defaults.DEFAULT_KINDS,
        _defaults,
    ),
    Table(
        Aspect.WRITTEN,
        ownership.IN_EVERY_NAMESPACE,
        _says("`{row}` belongs to the host in each namespace"),
    ),
    Table(
        Aspect.WRITTEN,
        apply_plan.APPLIED_FIRST,
        _says("Applied before the other manifests of its Work"),
    ),
    Table(Aspect.WRITTEN, reporting.OF_KIND, _says("{row.value}")),
    Table(Aspect.WRITTEN, host_objects.BOUND, _stand_in),
    Table(Aspect.WRITTEN, host_objects.BINDINGS, _says("Its role is checked first (ADR 24)")),
    Table(Aspect.REPORTED, own_steps.OWN_STEPS, _steps("notices")),
    *(Table(Aspect.RETAINED, rules[RETAIN], _summary("Keep ")) for rules in LEVELS.values()),
    Table(Aspect.RETAINED, restore.BOUND_TO_NODES, _says("The live `spec.nodeName`, once it runs")),
    Table(Aspect.RETAINED, restore.KEPT, _summary("Keep ")),
    Table(Aspect.COMPARED, server_changes.PRUNE_RULES, _summary("Leave out ")),
    *(
        Table(Aspect.REFLECTED, rules[INTERPRET_STATUS], _summary("Show "))
        for rules in LEVELS.values()
    ),
    Table(
        Aspect.REFLECTED,
        works.ALWAYS_WITH_STATUS,
        _says("An empty status if there is none"),
    ),
    Table(
        Aspect.REFLECTED,
        _REPORTERS,
        _says("The hub gets the EndpointSlices of its Service (contract 8.1)"),
    ),
    *(
        Table(Aspect.HEALTH, rules[INTERPRET_HEALTH], _summary("Healthy if ", "healthy if "))
        for rules in LEVELS.values()
    ),
    Table(Aspect.QUOTA, vocabulary.WITH_PODS, _counted),
)
