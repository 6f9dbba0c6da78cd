"""The parts of objects that restore() reads, by kind: a decoder may skip the rest.

Put together from the tables that restore() itself walks, so a new row of theirs counts here, too.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from karmada_vc_agent.model import domain
from karmada_vc_agent.model.objects import GroupVersionKind
from karmada_vc_agent.translation import reference_table
from karmada_vc_agent.translation.context import TranslationSettings
from karmada_vc_agent.translation.own_steps import own_steps
from karmada_vc_agent.translation.pod_templates import PodTemplates, paths_of
from karmada_vc_agent.translation.reference_table import (
    AFFINITY,
    IN_POD_SPECS,
    NamespaceReferences,
)

Reach = Mapping[str, Any]
"""Key -> the Reach below it, or ALL: what is there is looked at as a whole."""
ALL: Reach = {}
_METADATA = ("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations")
_MARKS = ("[]", "{}")


def reach(
    gvk: GroupVersionKind, settings: TranslationSettings, more: tuple[str, ...] = ()
) -> Reach | None:
    """Return what is looked at in objects of a kind; None: all of it.

    more: paths that the caller itself looks at. An object that looks_everywhere() is an exception.
    """
    return _reach(gvk, settings.pod_templates, settings.namespace_references, more)


def looks_everywhere(annotations: Any) -> bool:
    """Return whether annotations request that restore() looks at texts, wherever they are."""
    return isinstance(annotations, dict) and domain.REWRITE_DNS_ANNOTATION in annotations


@lru_cache(maxsize=1024)  # tenants name kinds
def _reach(
    gvk: GroupVersionKind,
    templates: tuple[PodTemplates, ...],
    references: tuple[NamespaceReferences, ...],
    more: tuple[str, ...],
) -> Reach | None:
    if own_steps(gvk).restore:
        return None
    below: dict[str, Any] = {}
    paths = [row.path for row in reference_table.rows_for(gvk.group_kind, references)]
    for where, is_selector_only in paths_of(gvk, templates):
        paths += (f"{where}.{row.path}" for row in (AFFINITY if is_selector_only else IN_POD_SPECS))
    for path in (*_METADATA, *more, *paths):
        _add(below, path.split("."))
    return below


def _add(below: dict[str, Any], steps: list[str]) -> None:
    """Add one path; below a list, or a map of any keys, all counts."""
    key = steps[0]
    plain = key.removesuffix("[]").removesuffix("{}")
    if len(steps) == 1 or key.endswith(_MARKS):
        below[plain] = ALL
    elif below.get(plain) is not ALL:
        _add(below.setdefault(plain, {}), steps[1:])
