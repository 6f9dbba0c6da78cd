"""Packages that may not wait, by docs/architecture.md, do not wait."""

import ast
import re
from pathlib import Path

import pytest

import karmada_vc_agent

PACKAGE = Path(karmada_vc_agent.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text()
DO_NOT_WAIT = re.findall(r"^\| `([\w/]+)/` \|.*\| no \|$", PAGE, re.MULTILINE)
WAITS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


def test_rules_are_among_them() -> None:
    assert {"cluster/rules", "config", "model", "translation", "work/rules"} <= set(DO_NOT_WAIT)


@pytest.mark.parametrize("folder", DO_NOT_WAIT)
def test_package_does_not_wait(folder: str) -> None:
    files = sorted((PACKAGE / folder).glob("*.py"))
    assert files
    for file in files:
        found = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, WAITS)]
        assert not found, f"{file} waits in line {found[0].lineno}"
