"""The order of resourceVersions: of numbers, however long; of anything else none."""

import pytest

from karmada_vc_agent.kube.store import is_at_most, is_lower

NO_NUMBERS = ["", "v1", "-1", "1.5", " 7", "²", "0x10", "9" * 5000]


@pytest.mark.parametrize(
    ("version", "other"), [("9", "10"), ("99", "100"), ("007", "8"), ("0", str(2**64))]
)
def test_versions_are_ordered_as_numbers_not_as_texts(version: str, other: str) -> None:
    assert is_lower(version, other)
    assert is_at_most(version, other)
    assert not is_lower(other, version)
    assert not is_at_most(other, version)


def test_same_version_is_at_most_itself_but_not_lower() -> None:
    assert is_at_most("10", "10")
    assert not is_lower("10", "10")


@pytest.mark.parametrize("odd", NO_NUMBERS)
def test_what_is_no_number_has_no_order(odd: str) -> None:
    for pair in ((odd, "5"), ("5", odd), (odd, odd)):
        assert not is_lower(*pair)
        assert not is_at_most(*pair)
