"""Text of refusals."""

from pathlib import Path

import pytest

from karmada_vc_agent.translation.kind_policy import Code, Refusal, RefusedError

CONFLICT = Refusal(Code.KIND_FORBIDDEN, "kind", "cluster-scoped kind Node is not allowed")


@pytest.mark.parametrize(
    ("namespace", "target"), [("edge", "Node edge/n"), ("", "Node n")], ids=["namespaced", "not"]
)
def test_text_names_the_virtual_object(namespace: str, target: str) -> None:
    assert CONFLICT.text("branch-a", "Node", namespace, "n") == (
        f'virtual cluster "branch-a" refused {target}: KindForbidden: '
        "cluster-scoped kind Node is not allowed"
    )


def test_error_carries_the_refusal() -> None:
    error = RefusedError(CONFLICT.code, CONFLICT.path, CONFLICT.detail)
    assert error.refusal == CONFLICT
    assert str(error) == "KindForbidden: cluster-scoped kind Node is not allowed"


def test_each_code_has_a_row_in_the_rules() -> None:
    page = Path(__file__).parents[3] / "docs" / "rewriting-rules.md"
    rows = page.read_text().partition("| Code | Section |")[2].partition("\n\n")[0]
    missing = {code.value for code in Code if f"`{code}`" not in rows}
    assert missing == set(), "add rows to section 7 of docs/rewriting-rules.md"
