"""docs/kinds.md is made of the tables that the agent goes by, of all of them, and up to date."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import pytest

import karmada_vc_agent
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import GroupKind, GroupVersionKind
from karmada_vc_agent.translation.guards import BY_KIND
from kinds_page.__main__ import PAGE
from kinds_page.page import page
from kinds_page.tables import TABLES, Rows, check_sentence

RULES = ("model", "translation", "interpretation", "cluster.rules", "work")
NOT_TOLD = {
    "work.memory_bounds._OWN_KINDS": "what is kept in memory",
    "work.memory_bounds._READ_KINDS": "what is kept in memory",
    "work.namespace_writer.RESOURCES": "paths of the kinds of DEFAULT_KINDS",
    "work.rules.apply_plan._COUNTED": "where a mark says what was written last",
    "work.rules.apply_plan._COUNTED_WITH_ANNOTATIONS": "which mark fits",
    "work.rules.server_changes.DEFAULT_RULES": "saves writes that would change nothing",
    "translation.kind_policy.ONLY_READ": "no Work may have them; what a Cluster lists for search",
}
"""Tables by kind that say nothing more of what is done with an object."""

NEW = GroupKind("widgets.example.com", "Widget")


def _key_like(key: Any) -> Any:
    if isinstance(key, GroupVersionKind):
        return GroupVersionKind(NEW.group, "v1", NEW.kind)
    return NEW if isinstance(key, GroupKind) else "CronJob"  # by name: a kind without such a row


def _with_new_row(rows: Rows) -> Rows:
    first = next(iter(rows))
    if isinstance(rows, Mapping):
        return {**rows, _key_like(first): rows[first]}
    return rows | {_key_like(first)}


EACH_ROWS = {id(table.rows): table.rows for table in TABLES}.values()


def _name(rows: Rows) -> str:
    return next(table.aspect.name for table in TABLES if table.rows is rows)


@cache
def _page() -> str:
    return page()


def _page_with(changed: Rows, rows: Rows) -> str:
    tables = (replace(each, rows=changed) if each.rows is rows else each for each in TABLES)
    return page(list(tables))


def test_page_is_up_to_date() -> None:
    is_up_to_date = PAGE.read_text() == _page()
    assert is_up_to_date, "run hack/update-kinds"


@pytest.mark.parametrize("rows", EACH_ROWS, ids=_name)
def test_row_that_is_added_changes_the_page(rows: Rows) -> None:
    added = _page_with(_with_new_row(rows), rows)
    is_new = added != _page()
    assert is_new
    if any(isinstance(key, GroupKind | GroupVersionKind) for key in rows):
        assert f'### <a id="{NEW.group}/{NEW.kind}"></a>{NEW.kind}\n' in added


@pytest.mark.parametrize("rows", EACH_ROWS, ids=_name)
def test_removed_row_changes_the_page(rows: Rows) -> None:
    gone = next(iter(rows))
    if isinstance(rows, Mapping):
        rest: Rows = {key: row for key, row in rows.items() if key != gone}
    else:
        rest = rows - {gone}
    is_changed = _page_with(rest, rows) != _page()
    assert is_changed


def _modules() -> Iterator[ModuleType]:
    for folder in RULES:
        path = f"{karmada_vc_agent.__name__}.{folder}"
        for found in pkgutil.walk_packages(importlib.import_module(path).__path__, f"{path}."):
            yield importlib.import_module(found.name)


def _tables_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the tables by kind that a module defines, by name."""
    for name, value in vars(module).items():
        keys = list(value) if isinstance(value, Mapping | frozenset | set) else []
        if keys and all(isinstance(key, GroupKind | GroupVersionKind) for key in keys):
            yield f"{module.__name__.removeprefix('karmada_vc_agent.')}.{name}", value


def _is_part_of(part: Any, whole: Rows) -> bool:
    if part is whole:
        return True
    if not (isinstance(part, Mapping) and isinstance(whole, Mapping)):
        return False
    return all(whole.get(key) is row for key, row in part.items())


def test_each_table_of_kinds_is_on_the_page() -> None:
    found: dict[str, Any] = {}
    for module in _modules():
        for name, value in _tables_of(module):
            if all(value is not other for other in found.values()):
                found[name] = value
    missing = {
        name
        for name, value in found.items()
        if not any(_is_part_of(value, table.rows) for table in TABLES)
    }
    assert missing == NOT_TOLD.keys()
    assert len(found) > len(TABLES) / 2  # so that a search that finds nothing does not pass


def test_check_that_nothing_opens_is_of_both_profiles() -> None:
    (recycled, *_) = BY_KIND[vocabulary.PERSISTENT_VOLUME]
    assert check_sentence(recycled).endswith(": in both profiles")
