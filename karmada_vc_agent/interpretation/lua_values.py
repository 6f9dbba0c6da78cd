"""Objects as Lua scripts see them, and texts and numbers as Karmada's machine has them (7.7)."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from math import isinf, isnan
from typing import Any

from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import Quantity

Path = tuple[str, ...]

_EXPONENT_FROM = 1e21  # Go prints a float as 1e+21 from here on
_INT64_LIMIT = 2**63
_NUMBER = re.compile(
    r"[+-]?[0-9]+|0[xX][0-9A-Fa-f]+|[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII
)


def to_table(value: Any) -> Any:
    """Return a copy of a JSON value as a script gets it.

    A null is absent, in a list too; {} and [] are the same empty table, here a dict; a number is a
    float.
    """
    if isinstance(value, dict):
        return {key: to_table(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [to_table(inner) for inner in value if inner is not None] or {}
    return _number(value) if type(value) in (int, float) else value


def _number(value: float) -> float:
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < _EXPONENT_FROM else number


def read(value: Any, *path: str) -> Any:
    """Return a field by its path, None if the last is absent; ValueError if another one is."""
    for key in path:
        if not isinstance(value, dict | list | str):
            raise ValueError(f"cannot read {'.'.join(path)}")  # noqa: TRY004 - content, not a type
        value = value.get(key) if isinstance(value, dict) else None
    return value


def to_number(text: Any) -> float | None:
    """Return what `tonumber` makes of a text, None if it is not numeric."""
    text = text.strip(" \n\t") if isinstance(text, str) else ""
    if not _NUMBER.fullmatch(text):
        return None
    if "." in text:
        return _number(float(text))
    integer = int(text, base=16 if "x" in text.lower() else 10)
    return _number(integer) if -_INT64_LIMIT <= integer < _INT64_LIMIT else None


def settle(
    value: Any, objects: Collection[Path] = (), lists: Collection[Path] = (), path: Path = ()
) -> Any:
    """Return a map or list with each empty one inside as its path requires, else without it.

    objects, lists: paths of those that are empty objects and empty lists.
    Source: karmada pkg/resourceinterpreter/customized/declarative/luavm/lua_convert.go.
    """
    settled: list[tuple[Any, Any]] = []
    for key, here, item in _items(value, path):
        if item not in ({}, []):
            is_nested = isinstance(item, dict | list)
            settled.append((key, settle(item, objects, lists, here) if is_nested else item))
        elif here in objects or here in lists:
            settled.append((key, {} if here in objects else []))
    return dict(settled) if isinstance(value, dict) else [item for _, item in settled]


def _items(value: Any, path: Path) -> Iterator[tuple[Any, Path, Any]]:
    if isinstance(value, dict):
        yield from ((key, (*path, key), item) for key, item in value.items())
    else:
        yield from ((None, path, item) for item in value)


def empties(references: Iterable[Object]) -> tuple[set[Path], set[Path]]:
    """Return the paths, without indices, of empty objects and of empty lists in the references."""
    objects, lists = set[Path](), set[Path]()
    left: list[tuple[Any, Path]] = [(reference, ()) for reference in references]
    while left:
        for _, here, item in _items(*left.pop()):
            if item in ({}, []):
                (objects if item == {} else lists).add(here)
            elif isinstance(item, dict | list):
                left.append((item, here))
    return objects, lists


LuaValue = float | str | bool | None
"""A value from a script; tables and functions arrive as the text that Lua prints for them."""

MAX_TEXT_LENGTH = 16 * 2**20
"""Of a formatted text: longer than any object may be."""
_DIRECTIVE = re.compile(r"%([-+# 0]*)([0-9]*)((?:\.[0-9]*)?)(.)", re.DOTALL)
# `a` is a slip in Karmada's table: not a Go layout, so the text itself.
_DATE_DIRECTIVES = {
    "%": "%%", "a": "mon", "x": "%H/%M/%S",
    "A": "%A", "b": "%b", "B": "%B", "c": "%d %b %y %H:%M %Z", "d": "%d", "F": "%Y-%m-%d",
    "H": "%H", "I": "%I", "m": "%m", "M": "%M", "p": "%p", "S": "%S", "X": "%H:%M:%S",
    "y": "%y", "Y": "%Y", "z": "%z", "Z": "%Z", "w": "%w",
}  # fmt: skip


def number_text(number: float) -> str:
    """Return a number as `tostring` prints it: 3, 0.1, 1e-07, +Inf."""
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    is_whole = abs(number) < _INT64_LIMIT and number.is_integer()
    return str(int(number)) if is_whole else repr(number)


def format_text(template: str, values: Sequence[LuaValue]) -> str:
    """Return the result of `string.format`: the directives of Go's Printf that Lua has, and %v."""
    left, length = iter(values), len(template)

    def one(match: re.Match[str]) -> str:
        nonlocal length
        flags, width, precision, verb = match.groups()
        if verb == "%":
            return "%"
        if len(width) > 6 or len(precision) > 7:
            raise ValueError("a width of string.format is more than 999999")
        try:
            text = _formatted(next(left), flags, width, precision, verb)
        except StopIteration:
            return f"%!{verb}(MISSING)"
        length += len(text)
        if length > MAX_TEXT_LENGTH:
            raise ValueError(f"string.format would create more than {MAX_TEXT_LENGTH} characters")
        return text

    return _DIRECTIVE.sub(one, template)


def _formatted(value: LuaValue, flags: str, width: str, precision: str, verb: str) -> str:
    if isinstance(value, str) and verb in "di" and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, float):
        if verb in "dioxX":
            return f"%{flags}{width}{verb}" % int(value)
        if verb in "eEfF" or (verb in "gG" and precision):
            return f"%{flags}{width}{precision}{verb}" % value
        text = chr(int(value)) if verb == "c" else number_text(value)
        text = _shortest(value) if verb in "gG" else text
    else:
        if not isinstance(value, str):
            value = "nil" if value is None else str(value).lower()
        text = value[: int(precision[1:] or 0)] if precision else value
    if verb == "q":
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        text = '"' + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'
    return text.ljust(int(width or 0)) if "-" in flags else text.rjust(int(width or 0))


def _shortest(number: float) -> str:
    """Return the shortest digits that round-trip, as %g of Go: `e` from 1e+06 and 1e-05."""
    digits = Decimal(repr(number)).normalize()
    if not digits.is_finite() or -4 <= digits.adjusted() < 6:
        return f"{digits:f}"
    return f"{f'{digits:e}'.partition('e')[0]}e{digits.adjusted():+03d}"


def date_text(template: str, moment: datetime) -> str:
    """Return the result of `os.date` for a format; directives unknown to Go are kept."""

    def one(match: re.Match[str]) -> str:
        if match[1] == "P":
            return "pm" if moment.hour >= 12 else "am"
        directive = _DATE_DIRECTIVES.get(match[1])
        return match[0] if directive is None else moment.strftime(directive)

    return re.sub("%(.)", one, template, flags=re.DOTALL)


def resource_add(quantities: Iterable[str | None]) -> str:
    """Add quantities; nil counts as zero. Raises ValueError."""
    return str(sum((quantity.parse(text) for text in quantities if text is not None), Quantity(0)))


def resource_quantity(text: str | None) -> float:
    """Return a quantity as a number. Raises ValueError if it is negative or not finite."""
    number = 0.0 if text is None else quantity.approximate(text)
    if number < 0:
        raise ValueError(f'"{text}" is negative')
    return number
