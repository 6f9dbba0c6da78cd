"""Text of refusals."""

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
