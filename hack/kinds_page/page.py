"""docs/kinds.md as text: what the agent does with objects of each kind that a table names."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from karmada_vc_agent.interpretation import interpreter
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import GroupKind
from karmada_vc_agent.translation import guards, kind_policy
from karmada_vc_agent.translation.kind_policy import CONFIGURABLE, Policy
from kinds_page.tables import (
    ALWAYS_REPORTED,
    TABLES,
    WHOLLY_REFUSED,
    Aspect,
    Table,
    check_sentence,
    reference_sentences,
    summary_of,
)

_WIDTH = 160
_HEAD = (
    "What the agent does with objects of each kind; `hack/update-kinds` generates this page from "
    "the tables of the agent. It is the same in both profiles, except where a guard is named, "
    "which `allow` may list ([isolation.md](isolation.md#two-profiles)). How each rule works: "
    "[rewriting-rules.md](rewriting-rules.md), [contract.md](contract.md). What Roles of tenants "
    "may grant depends on resources, not on kinds: rewriting-rules 5.2."
)
_UNLESS = (
    "This applies unless a kind below says otherwise; what is refused, retained or mapped here "
    "applies to every kind. Your own scripts and webhooks come first for retention, reflection and "
    "health."
)
_OPENED = " or ".join(f"`{policy}`" for policy in CONFIGURABLE if policy is not Policy.REFUSE)


def page(tables: Sequence[Table] = TABLES) -> str:
    """Return the whole page."""
    found = sorted({kind for table in tables for kind in table.kinds()})
    groups = [(group, list(members)) for group, members in groupby(found, lambda kind: kind.group)]
    parts = [f"# Kinds\n\n{textwrap.fill(_HEAD, _WIDTH)}\n", _contents(groups), _every_kind()]
    for group, members in groups:
        parts.append(f"## {group or 'Core'}\n")
        parts += (_section(kind, tables) for kind in members)
    return "\n".join(parts)


def _contents(groups: Iterable[tuple[str, list[GroupKind]]]) -> str:
    lines = ["[Every kind](#every-kind)"]
    for group, members in groups:
        links = ", ".join(f"[{_title(kind)}](#{_anchor(kind)})" for kind in members)
        lines.append(f"{group or 'Core'}: {links}")
    return "\n".join(_bullet(line) for line in lines) + "\n"


def _section(kind: GroupKind, tables: Sequence[Table]) -> str:
    told: dict[Aspect, list[str]] = {}
    for table in tables:
        for sentence in table.sentences(kind):
            told.setdefault(table.aspect, []).append(sentence)
    lines = [f'### <a id="{_anchor(kind)}"></a>{_title(kind)}\n']
    lines += (_bullet(_line(aspect, told[aspect])) for aspect in Aspect if aspect in told)
    rest = ", ".join(aspect.value.lower() for aspect in ALWAYS_REPORTED if aspect not in told)
    is_applied = not any(each.startswith(WHOLLY_REFUSED) for each in told.get(Aspect.NAME, ()))
    if rest and is_applied:
        lines.append(_bullet(f"As [every kind](#every-kind): {rest}."))
    return "\n".join(lines) + "\n"


def _every_kind() -> str:
    in_pod_specs = reference_sentences(kind_policy.IN_POD_SPECS)
    defaults: dict[Aspect, Iterable[str]] = {
        Aspect.NAME: (
            "A namespaced object keeps its name, in the host namespace of its namespace",
            f"A cluster-scoped one is refused, unless `clusterScopedKinds` has {_OPENED} for it",
        ),
        Aspect.REFUSED: (
            *map(check_sentence, guards.OF_ALL),
            "Kinds of Karmada's own groups, `*.karmada.io`",
            "Kinds that `deniedKinds` or `allowedKinds` of the virtual cluster exclude",
        ),
        Aspect.PODS: (
            "Without known pod specs, admission on the host places pods; `podTemplates` adds paths",
            "A pinned pod spec has the required selector and tolerations (rewriting-rules 3.3)",
        ),
        Aspect.REFERENCES: (
            "None; `namespaceReferences` adds paths",
            f"In pod specs {'; '.join(in_pod_specs)}",
        ),
        Aspect.WRITTEN: ("By itself, in the order of its Work",),
        Aspect.RETAINED: ("Labels and annotations of others, finalizers, owners (contract 5.5)",),
        Aspect.REFLECTED: (summary_of(interpreter.reflect_whole_status).removeprefix("Show "),),
        Aspect.HEALTH: ("Healthy",),
    }
    lines = [f"## Every kind\n\n{textwrap.fill(_UNLESS, _WIDTH)}\n"]
    lines += (_bullet(_line(aspect, defaults[aspect])) for aspect in ALWAYS_REPORTED)
    return "\n".join(lines) + "\n"


def _line(aspect: Aspect, sentences: Iterable[str]) -> str:
    texts = " ".join(f"{each[:1].upper()}{each[1:]}." for each in sentences)
    return f"**{aspect.value}**: {texts}"


def _bullet(text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent="* ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _title(kind: GroupKind) -> str:
    return "all kinds" if kind.kind == vocabulary.ANY else kind.kind


def _anchor(kind: GroupKind) -> str:
    name = "all" if kind.kind == vocabulary.ANY else kind.kind
    return f"{kind.group}/{name}" if kind.group else name
