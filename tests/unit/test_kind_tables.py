"""What is done with one kind stands in a row of a table, never in a comparison."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "karmada_vc_agent"
RULES = ("cluster/rules", "interpretation", "model", "runner", "translation", "work")

_KIND_OF = frozenset({"kind", "group_kind", "gvk"})
_NAMED = re.compile(r"([A-Z][a-z]+)+")


def comparisons_with_kinds(source: str) -> Iterator[int]:
    """Yield the lines that compare the kind of something with a kind by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(_is_kind_of, sides)) and any(map(_is_named, sides)):
                yield node.lineno


def _is_kind_of(side: ast.expr) -> bool:
    """Whether a side is `x.kind`, `gvk`, `gvk_of(x)`, `x["kind"]`, or a tuple of such."""
    match side:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in _KIND_OF
        case ast.Tuple(elts=parts):
            return any(map(_is_kind_of, parts))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            asks = any(
                isinstance(each, ast.Constant) and each.value == "kind" for each in arguments
            )
            return name == "gvk_of" or asks
        case ast.Subscript(value=value, slice=index):
            return _is_kind_of(value) or (isinstance(index, ast.Constant) and index.value == "kind")
    return False


def _is_named(side: ast.expr) -> bool:
    """Whether a side is "Pod", kinds.POD, NAMESPACE, a GroupKind of its own, or holds such."""
    match side:
        case ast.Constant(value=str(text)):
            return _NAMED.fullmatch(text) is not None
        case ast.Attribute(value=ast.Name(id="kinds")) | ast.Name(id="NAMESPACE"):
            return True
        case ast.Call(func=ast.Name(id="GroupKind" | "GroupVersionKind")):
            return True
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(map(_is_named, parts))
    return False


@pytest.mark.parametrize("folder", RULES)
def test_no_rule_compares_a_kind_by_name(folder: str) -> None:
    files = sorted((PACKAGE / folder).rglob("*.py"))
    assert files
    found = [
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in files
        for line in comparisons_with_kinds(file.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'gvk.kind == "Pod"',
        'kind in ("Role", "ClusterRole")',
        '(gvk.group, gvk.kind) != ("", "Pod")',
        "gvk == NAMESPACE",
        "gvk_of(obj) == GroupVersionKind('', 'v1', 'Pod')",
        "key.gvk.group_kind == kinds.SERVICE",
        'obj["kind"] == "Pod"',
        'dig(subject, "kind") == "Group" and name',
    ],
)
def test_comparison_is_detected(source: str) -> None:
    assert list(comparisons_with_kinds(source)) == [1]


@pytest.mark.parametrize(
    "source",
    [
        "gvk.group_kind in NOT_INSIDE",
        "policy is Policy.MAP",
        'origin == "All"',
        "kind == VALIDATING",
    ],
)
def test_other_comparisons_are_not_meant(source: str) -> None:
    assert list(comparisons_with_kinds(source)) == []
