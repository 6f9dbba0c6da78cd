"""docs/conditions.md has each condition, reason and code that the source declares."""

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from generate.conditions_page import TEXTS, condition_types, page
from karmada_vc_agent.cluster.rules.conditions import ConditionType
from karmada_vc_agent.diagnosis.faults import ADVICE
from karmada_vc_agent.features.checkpoint.entries import Reason
from karmada_vc_agent.translation.context import NoticeCode
from karmada_vc_agent.translation.kind_policy import Code

ROOT = Path(__file__).parents[3]
TREES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text())
    for path in (ROOT / "karmada_vc_agent").rglob("*.py")
}
LITERALS = {
    node.value
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}
_MAKERS = ("PolicyProblem", "Pending", "fail")
"""What is called with a reason that becomes one of a condition elsewhere."""
_STATUSES = {"true": "True", "false": "False", "unknown": "Unknown"}
BY_CONDITION: dict[str, dict[str, str]] = TEXTS["conditions"]


def abnormal_reasons() -> Iterator[tuple[str, str]]:
    """Yield the condition, "" where the call does not name it, and each reason that is spelt."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            first, function = node.args[0], node.func
            reason = str(first.value) if isinstance(first, ast.Constant) else ""
            if not reason.isalpha():
                continue
            called = getattr(function, "attr", getattr(function, "id", ""))
            if called in _MAKERS:
                yield "", reason
            elif called in _STATUSES and isinstance(function, ast.Attribute):
                owner = getattr(function.value, "id", "")
                kind = getattr(importlib.import_module(name), owner, None)
                if not isinstance(kind, ConditionType):
                    continue
                if _STATUSES[called] != kind.normal:
                    yield kind.name, reason


def test_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "conditions.md").read_text() == page(), "run hack/update-conditions"


def test_each_type_is_declared_once() -> None:
    names = Counter(kind.name for kind in condition_types())
    assert names.most_common(1)[0][1] == 1


def test_there_are_texts_for_what_is_declared_and_for_nothing_else() -> None:
    assert BY_CONDITION.keys() == {kind.name for kind in condition_types()}
    assert TEXTS["refusals"].keys() == ADVICE.keys() == set(Code)
    assert TEXTS["events"].keys() >= set(NoticeCode)
    assert BY_CONDITION["CheckpointKept"].keys() == {"NoRights", "NotWritten", "TooLarge", *Reason}


@pytest.mark.parametrize(("condition", "reason"), sorted(set(abnormal_reasons())))
def test_a_reason_has_a_text(condition: str, reason: str) -> None:
    kinds = [condition] if condition else BY_CONDITION
    assert any(reason in BY_CONDITION[kind] for kind in kinds)


@pytest.mark.parametrize("kind", condition_types(), ids=lambda kind: kind.name)
def test_reasons_of_a_condition_are_in_the_source_and_not_its_normal_ones(
    kind: ConditionType,
) -> None:
    reasons = BY_CONDITION[kind.name].keys()
    assert reasons
    assert reasons <= LITERALS
    assert kind.idle not in reasons or kind.normal == "Unknown"


def test_events_are_in_the_source() -> None:
    assert TEXTS["events"].keys() <= LITERALS


@pytest.mark.parametrize("section", ["refusals", "events", *BY_CONDITION])
def test_texts_are_sentences(section: str) -> None:
    texts: dict[str, dict[str, str]] = TEXTS.get(section) or TEXTS["conditions"][section]
    for name, text in texts.items():
        assert text.keys() == ({"what", "why"} if section == "refusals" else {"why", "do"}), name
        assert all(value.endswith(".") for value in text.values()), name
