"""Each module that acts on a denial, or on "not served", says in ADR 56 what it takes it for."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "karmada_vc_agent"
(ADR,) = (ROOT / "docs" / "adr").glob("0056-*.md")
ERRORS = {"ForbiddenError", "NotServedError"}
TESTS_OF_TYPE = {"isinstance", "retry_on", "suppress"}


def _handled(module: ast.AST) -> Iterator[str]:
    """Yield the names in handlers, and in calls that treat an error by its type."""
    for node in ast.walk(module):
        parts: list[ast.expr] = []
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            parts = [node.type]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in TESTS_OF_TYPE:
            parts = node.args
        for part in parts:
            for each in ast.walk(part):
                yield getattr(each, "id", "") or getattr(each, "attr", "")


def test_each_consumer_has_a_row() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    handlers = {
        name for name, path in files.items() if ERRORS & {*_handled(ast.parse(path.read_text()))}
    }
    rows = set(re.findall(r"^\| `(\S+\.py)` \|", ADR.read_text(), re.MULTILINE))
    assert len(handlers) > 20
    assert handlers - rows == set(), "say in ADR 56 what the module takes the error for"
    assert rows - handlers == set(), "rows of ADR 56 without a handler"
