"""Addresses however they are written."""

import pytest

from karmada_vc_agent.model.user_text import plain_address


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.000.00.01", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:010.0.0.1", "10.0.0.1"),
        ("::ffff:a00:1", "10.0.0.1"),
        ("fd00:0::1", "fd00::1"),
        ("0.0.0.10", "0.0.0.10"),
        ("db.example", "None"),
        ("", "None"),
    ],
)
def test_address_is_recognised_in_any_notation(text: str, plain: str) -> None:
    assert str(plain_address(text)) == plain
