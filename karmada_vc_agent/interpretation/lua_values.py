"""Objects as Lua scripts see them, and what Karmada offers to scripts (contract 7.7)."""

import re
from collections.abc import Collection, Iterable
from decimal import Decimal
from typing import Any

from karmada_vc_agent.model.objects import Object

Path = tuple[str, ...]

_EXACT = 2**53  # floats are exact up to here
_EXPONENT_FROM = 1e21  # Go prints a float as 1e+21 from here on
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_HEXADECIMAL = re.compile(r"0[xX][+-]?[0-9A-Fa-f]+", re.ASCII)
_FRACTION = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_INT64 = range(-(2**63), 2**63)
_PATH_SIGNS = frozenset("|#@*?")  # have a special meaning for the library that removes fields


class LuaError(ValueError):
    """A script would have failed here."""


def to_table(value: Any) -> Any:
    """Return a copy of a JSON value as a script gets it.

    A null is absent, in a list too; {} and [] are the same empty table, here a dict; a number is a
    float.
    """
    if isinstance(value, dict):
        return {key: to_table(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [to_table(inner) for inner in value if inner is not None] or {}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    return value


def _number(value: float) -> float:
    """Return a number after its conversion to a float; whole ones as int."""
    try:
        number = float(value)
    except OverflowError:
        raise LuaError("a number is too large") from None
    if not number.is_integer() or abs(number) >= _EXPONENT_FROM:
        return number
    return int(number) if abs(number) <= _EXACT else int(Decimal(repr(number)))


def read(value: Any, *path: str) -> Any:
    """Return a field by its path, None if the last one is absent; LuaError if another one is."""
    for depth, key in enumerate(path):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list | str):
            value = None
        else:
            parent = ".".join(path[:depth]) or "the value"
            raise LuaError(f"cannot read {key}: {parent} is {describe(value)}, not an object")
    return value


def assign(table: Any, value: Any, *path: str) -> None:
    """Set a field by its path. Raises LuaError if a parent cannot have it."""
    *parents, last = path
    parent = read(table, *parents)
    if not isinstance(parent, dict):
        raise LuaError(
            f"cannot set {last}: {'.'.join(parents)} is {describe(parent)}, not an object"
        )
    parent[last] = value


def describe(value: Any) -> str:
    """Name the type of a value, for messages."""
    if value is None:
        return "absent"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "an object")


def is_equal(left: Any, right: Any) -> bool:
    """Return whether a script finds two values equal; two tables never are."""
    if isinstance(left, dict | list):
        return False
    return type(left) is type(right) and bool(left == right)


def is_less(left: Any, right: Any) -> bool:
    """Compare two numbers or two strings. Raises LuaError for anything else."""
    numbers = type(left) in (int, float) and type(right) in (int, float)
    if not numbers and not (isinstance(left, str) and isinstance(right, str)):
        raise LuaError(f"cannot compare {describe(left)} with {describe(right)}")
    return bool(left < right)


def either(value: Any, default: Any) -> Any:
    """Return the default if the value is false in Lua: only nil and false are."""
    return default if value is None or value is False else value


def elements(value: Any) -> list[Any]:
    """Return the elements of a list; an object has none. Raises LuaError if it is not a table."""
    if not isinstance(value, dict | list):
        raise LuaError(f"cannot iterate over {describe(value)}, it is not a list")
    return value if isinstance(value, list) else []


def to_number(value: Any) -> float | None:
    """Return the result of `tonumber`, None if the value is not numeric."""
    if not isinstance(value, str):
        return value if type(value) in (int, float) else None
    text = value.strip(" \n\t")
    if _FRACTION.fullmatch(text):
        number = float(text)
        return _number(number) if abs(number) != float("inf") else None
    if _HEXADECIMAL.fullmatch(text):
        integer = int(text.lower().replace("0x", "", 1), base=16)
    elif _INTEGER.fullmatch(text):
        integer = int(text)
    else:
        return None
    return _number(integer) if integer in _INT64 else None


def to_json(result: Object, *references: Object) -> Object:
    """Return a result as JSON.

    references: the objects that the script was given. An empty table is {} if one of them had an
    empty object at that path, [] if one had an empty list, and omitted otherwise; the result as a
    whole is {} then. Absent fields are omitted.
    Raises LuaError if a field to omit has a name that Karmada cannot remove.
    Source: karmada pkg/resourceinterpreter/customized/declarative/luavm/lua_convert.go.
    """
    table = to_table(result)
    converted: Object = {} if table == {} else settle(table, *empties(references), is_checked=True)
    return converted


def settle(
    value: Any,
    objects: Collection[Path] = (),
    lists: Collection[Path] = (),
    path: Path = (),
    *,
    is_checked: bool = False,
) -> Any:
    """Return a map or list with each empty one inside as its path requires, else without it.

    objects, lists: paths of those that are empty objects and empty lists. is_checked: raise
    LuaError if a field to omit has a name that Karmada cannot remove.
    """
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    settled: list[tuple[Any, Any]] = []
    for key, item in items:
        here = path if key is None else (*path, key)
        if item not in ({}, []):
            is_nested = isinstance(item, dict | list)
            inner = settle(item, objects, lists, here, is_checked=is_checked) if is_nested else item
            settled.append((key, inner))
        elif here in objects:
            settled.append((key, {}))
        elif here in lists:
            settled.append((key, []))
        elif is_checked and _PATH_SIGNS.intersection("".join(here)):
            raise LuaError(f"cannot omit the empty {'.'.join(here)}: special character in its name")
    return dict(settled) if isinstance(value, dict) else [item for _, item in settled]


def empties(references: Iterable[Object]) -> tuple[set[Path], set[Path]]:
    """Return the paths, without indices, of empty objects and of empty lists in the references."""
    objects, lists = set[Path](), set[Path]()

    def visit(value: Any, path: Path) -> None:
        items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
        for key, item in items:
            here = path if key is None else (*path, key)
            if item == {}:
                objects.add(here)
            elif item == []:
                lists.add(here)
            elif isinstance(item, dict | list):
                visit(item, here)

    for reference in references:
        visit(reference, ())
    return objects, lists
