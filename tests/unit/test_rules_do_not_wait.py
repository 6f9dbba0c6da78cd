"""Rules are asked and answer: none of them waits for anybody."""

import ast
from pathlib import Path

import pytest

import karmada_vc_agent

PACKAGE = Path(karmada_vc_agent.__file__).parent
RULES = ("access", "model", "planning", "status", "translation")
"""Not interpretation: scripts and webhooks of users are asked there."""
WAITS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


@pytest.mark.parametrize("folder", RULES)
def test_rules_do_not_wait(folder: str) -> None:
    files = sorted((PACKAGE / folder).glob("*.py"))
    assert files
    for file in files:
        found = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, WAITS)]
        assert not found, f"{file} waits in line {found[0].lineno}"
