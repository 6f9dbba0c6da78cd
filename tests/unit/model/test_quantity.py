"""Quantities: parsing, rounding, sums and canonical text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.quantity import Quantity


@pytest.mark.parametrize(
    ("raw", "text", "notation"),
    [
        ("100m", "100m", "DecimalSI"),
        ("1000m", "1", "DecimalSI"),
        ("0.5", "500m", "DecimalSI"),
        (".5", "500m", "DecimalSI"),
        ("1.", "1", "DecimalSI"),
        ("-1.5", "-1500m", "DecimalSI"),
        ("+2", "2", "DecimalSI"),
        ("0", "0", "DecimalSI"),
        ("0Gi", "0", "BinarySI"),
        ("1.5Gi", "1536Mi", "BinarySI"),
        ("1024Mi", "1Gi", "BinarySI"),
        ("1000Ki", "1000Ki", "BinarySI"),
        ("0.5Ki", "512", "BinarySI"),
        ("0.0001Ki", "102400u", "DecimalSI"),
        ("1.0001Ki", "1024102400u", "BinarySI"),
        ("8Ei", "9223372036854775807", "BinarySI"),
        ("7Ei", "7Ei", "BinarySI"),
        ("1500M", "1500M", "DecimalSI"),
        ("2k", "2k", "DecimalSI"),
        ("1000E", "1e21", "DecimalSI"),
        ("1E", "1E", "DecimalSI"),
        ("1E3", "1e3", "DecimalExponent"),
        ("1e3", "1e3", "DecimalExponent"),
        ("1e4", "10e3", "DecimalExponent"),
        ("12e-1", "1200e-3", "DecimalExponent"),
        ("1e0", "1", "DecimalExponent"),
        ("9223372036854775807", "9223372036854775807", "DecimalSI"),
        ("0.1n", "1n", "DecimalSI"),
        ("1.0000000001", "1000000001n", "DecimalSI"),
        (2, "2", "DecimalSI"),
        (1.5, "1500m", "DecimalSI"),
        (1e22, "10e21", "DecimalExponent"),
    ],
)
def test_canonical_text_is_that_of_apimachinery(raw: str | float, text: str, notation: str) -> None:
    parsed = quantity.parse(raw)
    assert (str(parsed), parsed.notation) == (text, notation)


@pytest.mark.parametrize(
    "raw",
    ["", ".", "+", "1.2.3", "1 Gi", "Gi", "1gi", "1K", "0x10", "1e", "1mi", "१", "1\n", "nan"],
)
def test_nonsense_is_refused_with_its_text(raw: str) -> None:
    with pytest.raises(ValueError, match="is not a valid quantity") as refused:
        quantity.parse(raw)
    assert f'"{raw}"' in str(refused.value)


SIGNS = st.sampled_from(["", "+", "-", "--"])
DIGITS = st.text("0123456789", max_size=3)


@given(
    SIGNS, DIGITS, st.sampled_from(["", ".", ","]), DIGITS,
    st.sampled_from(["", "m", "k", "K", "Ki", "ki", "E", "e", "e3", "E-1", "n", "x", " "]),
)  # fmt: skip
def test_schemas_accept_what_is_parsed(
    sign: str, whole: str, point: str, part: str, suffix: str
) -> None:
    raw = sign + whole + point + part + suffix
    assert bool(re.fullmatch(f"[+-]?{quantity.AMOUNT}", raw)) == (quantity.read(raw) is not None)


@pytest.mark.parametrize("raw", [True, False, float("inf"), float("nan")])
def test_values_that_are_no_numbers_are_refused(raw: float) -> None:
    quantity.parse(1)  # 1 == True must not answer from the cache
    quantity.parse(0)
    with pytest.raises(ValueError, match="is not a valid quantity"):
        quantity.parse(raw)


@pytest.mark.parametrize(
    ("raw", "whole", "milli"),
    [
        ("100m", 1, 100),
        ("1500m", 2, 1500),
        ("1", 1, 1000),
        ("100u", 1, 1),
        ("1001u", 1, 2),
        ("1.5Gi", 1610612736, 1610612736000),
        ("-1500u", -1, -2),
        ("0", 0, 0),
        ("9223372036854775807", 2**63 - 1, 2**63 - 1),
        ("1e999999999", 2**63 - 1, 2**63 - 1),
        ("1e-999999999", 1, 1),
    ],
)
def test_units_are_rounded_away_from_zero_and_held_in_64_bits(
    raw: str, whole: int, milli: int
) -> None:
    assert (quantity.whole_units(raw), quantity.milli_units(raw)) == (whole, milli)


@pytest.mark.parametrize(
    ("addends", "text"),
    [
        (["1Gi", "500M"], "1573741824"),
        (["500M", "1Gi"], "1573741824"),
        (["1Gi", "1000M", "24"], "2073741848"),
        (["1Gi", "1048576"], "1025Mi"),
        (["1048576", "1Gi"], "1074790400"),
        (["0", "1Gi", "1Gi"], "2Gi"),
        (["0Gi", "1000"], "1k"),
        (["100m", "1e3"], "1000100m"),
        (["7Ei", "7Ei"], "14Ei"),
    ],
)
def test_a_sum_is_written_as_its_first_addend_is(addends: list[str], text: str) -> None:
    total = Quantity(0)
    for addend in addends:
        total += quantity.parse(addend)
    assert str(total) == text


def test_decimal_memory_counted_as_binary_prints_plain_bytes() -> None:
    assert str(quantity.of_whole(1_500_000_000, "BinarySI")) == "1500000000"


def test_small_binary_values_print_as_decimals() -> None:
    assert str(quantity.of_whole(1000, "BinarySI")) == "1k"
    assert str(quantity.of_whole(1024, "BinarySI")) == "1Ki"
    assert str(quantity.of_whole(-1000, "BinarySI")) == "-1k"


def test_milli_units_print_as_cpu() -> None:
    assert str(quantity.of_milli(1500)) == "1500m"
    assert str(quantity.of_milli(2000)) == "2"


quantities = st.builds(
    Quantity,
    st.integers(-(10**30), 10**30),
    st.sampled_from(["DecimalSI", "BinarySI", "DecimalExponent"]),
)


@given(quantities)
def test_text_gives_the_same_amount_back(amount: Quantity) -> None:
    limit = quantity.INT64_MAX * 10**9
    if str(amount).endswith("i") and abs(amount.nano) > limit:
        assert abs(quantity.parse(str(amount)).nano) == limit  # binary text is capped
    else:
        assert quantity.parse(str(amount)).nano == amount.nano


@given(quantities)
def test_text_is_canonical(amount: Quantity) -> None:
    once = str(quantity.parse(str(amount)))
    assert str(quantity.parse(once)) == once


@given(quantities, quantities)
def test_sum_is_exact(a: Quantity, b: Quantity) -> None:
    assert (a + b).nano == a.nano + b.nano


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("1500m", 1.5), ("700m", 0.7000000000000001), ("0.35", 0.35000000000000003)],
        *[("2.675", 2.6750000000000003), ("1.5Gi", 1610612736.0), ("1k", 1000.0)],
        *[("5n", 5e-09), ("1e3", 1000.0), ("-1", -1.0), ("0.0000000001", 1e-09), ("0", 0.0)],
    ],
)
def test_a_quantity_as_a_number_has_the_error_of_kubernetes(text: str, number: float) -> None:
    assert quantity.approximate(text) == number
