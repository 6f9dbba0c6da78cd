"""Objects as Lua scripts see them, and what Karmada offers to scripts (7.7)."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from math import isfinite, isinf, isnan
from typing import Any

from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.quantity import Quantity

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


LuaValue = float | str | bool | None
"""A value from a script; tables and functions arrive as the text that Lua prints for them."""

MAX_TEXT_LENGTH = 16 * 2**20
"""Of a formatted text: longer than any object may be."""
_MAX_WIDTH = 1_000_000
_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+# 0]*)(?P<width>[0-9]+)?(?:\.(?P<precision>[0-9]*))?(?P<verb>.)", re.DOTALL
)
_WHOLE_VERBS = "dibcoxXU"
_INT64_LIMIT = 2**63
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
    if abs(number) < _INT64_LIMIT and number.is_integer():
        return str(int(number))
    return _shortest(number, 21)


def format_text(template: str, values: Sequence[LuaValue]) -> str:
    """Return the result of `string.format` for these arguments."""
    parts: list[str] = []
    length = position = used = 0
    for match in _DIRECTIVE.finditer(template):
        parts.append(template[position : match.start()])
        position = match.end()
        if match["verb"] == "%":
            parts.append("%")
        elif used == len(values):
            parts.append(f"%!{match['verb']}(MISSING)")
        else:
            parts.append(_format_one(match, values[used]))
            used += 1
        length += len(parts[-1]) + len(parts[-2])
        if length > MAX_TEXT_LENGTH:
            raise ValueError(f"string.format would create more than {MAX_TEXT_LENGTH} characters")
    return "".join((*parts, template[position:]))


def date_text(template: str, moment: datetime) -> str:
    """Return the result of `os.date` for a format; directives unknown to Go are kept."""

    def one(match: re.Match[str]) -> str:
        if match[1] == "P":
            return "pm" if moment.hour >= 12 else "am"
        directive = _DATE_DIRECTIVES.get(match[1])
        return match[0] if directive is None else moment.strftime(directive)

    return re.sub("%(.)", one, template, flags=re.DOTALL)


def _format_one(match: re.Match[str], value: LuaValue) -> str:
    flags, verb = match["flags"], match["verb"]
    width = int(match["width"] or 0)
    precision = int(match["precision"] or 0) if match["precision"] is not None else None
    if width > _MAX_WIDTH or (precision or 0) > _MAX_WIDTH:
        raise ValueError(f'width of "{match[0]}" is more than {_MAX_WIDTH}')
    if isinstance(value, str) and verb in "di":
        value = _number_of(value)
    if isinstance(value, float):
        text = _format_number(value, verb, flags, precision)
    else:
        text = _format_string(value, verb, precision)
    if "-" in flags:
        return text.ljust(width)
    if "0" in flags and isinstance(value, float):
        sign = text[:1] if text[:1] in ("-", "+", " ") else ""
        return sign + text[len(sign) :].rjust(width - len(sign), "0")
    return text.rjust(width)


def _number_of(text: str) -> LuaValue:
    try:
        return float(text)
    except ValueError:
        return text


def _format_number(number: float, verb: str, flags: str, precision: int | None) -> str:
    if verb in "sq":
        text = number_text(number)
        return f'"{text}"' if verb == "q" else text
    sign = "+" if "+" in flags else " " if " " in flags else ""
    is_whole = abs(number) < _INT64_LIMIT and number == int(number)
    if verb in _WHOLE_VERBS or (verb not in "eEfFgG" and is_whole):
        whole = int(number) if abs(number) < _INT64_LIMIT else -_INT64_LIMIT
        return _format_whole(whole, verb, flags, sign)
    if verb in "eEfF":
        places = 6 if precision is None else precision
        return f"%{sign}.{places}{verb.replace('F', 'f')}" % number
    text = _shortest(number, 6 if verb in "gG" else 21)
    if precision is not None:
        text = f"%.{precision}g" % number
    text = text.upper() if verb == "G" else text
    return sign + text if number >= 0 else text


def _format_whole(number: int, verb: str, flags: str, sign: str) -> str:
    if verb == "c":
        return chr(number) if 0 <= number < 0x110000 else "\ufffd"
    if verb == "U":
        return f"U+{number:04X}"
    form = verb if verb in "boxX" else "d"
    alternate = "#" if "#" in flags and form in "oxX" else ""
    return format(number, f"{sign or '-'}{alternate}{form}")


def _format_string(value: str | bool | None, verb: str, precision: int | None) -> str:  # noqa: FBT001
    text = "nil" if value is None else str(value).lower() if isinstance(value, bool) else value
    if precision is not None:
        text = text[:precision]
    if verb == "q":
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'
    if verb in "xX":
        digits = text.encode().hex()
        return digits.upper() if verb == "X" else digits
    return text


def _shortest(number: float, largest_exponent: int) -> str:
    """Return the shortest digits that round-trip; `e` notation from 1e-05 down."""
    if not isfinite(number):
        return repr(number)
    digits = Decimal(repr(number + 0.0)).normalize()  # no negative zero
    exponent = digits.adjusted()
    if -4 <= exponent < largest_exponent:
        return f"{digits:f}"
    return f"{f'{digits:e}'.partition('e')[0]}e{exponent:+03d}"


_REFERENCES = {
    **dict.fromkeys(("configMap", "configMapRef", "configMapKeyRef"), "ConfigMap"),
    **dict.fromkeys(("imagePullSecrets", "nodePublishSecretRef"), "Secret"),
    **dict.fromkeys(("secret", "secretRef", "secretKeyRef", "azureFile"), "Secret"),
    "persistentVolumeClaim": "PersistentVolumeClaim",
}
"""Key in a pod spec -> the kind that the map or list there refers to."""
_NAMES = {"ConfigMap": ("name",), "Secret": ("name", "secretName")}
_KINDS = ("ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim")


def resource_add(quantities: Iterable[str | None]) -> str:
    """Add quantities; nil counts as zero. Raises ValueError."""
    total = Quantity(0)
    for text in quantities:
        if text is not None:
            total = total + quantity.parse(text)
    return str(total)


def resource_quantity(text: str | None) -> float:
    """Return a quantity as a number. Raises ValueError if it is negative or not finite."""
    if text is None:
        return 0.0
    number = quantity.approximate(text)
    if number < 0:
        raise ValueError(f'"{text[:80]}" is negative')
    return number


def pod_requirements(template: Object) -> Object | None:
    """Return {nodeClaim?, resourceRequest?} of a pod template, None if it requests nothing."""
    spec = _spec_of(template)
    parts = {"nodeClaim": _node_claim(spec), "resourceRequest": _requests(spec)}
    return {name: part for name, part in parts.items() if part} or None


def pod_dependencies(template: Object, namespace: str) -> list[Object]:
    """Return what a pod template refers to: {apiVersion, kind, namespace, name}, sorted."""
    spec = _spec_of(template)
    names = defaultdict[str, set[str]](set)
    names["ServiceAccount"] = {spec.get("serviceAccountName") or "default"} - {"default"}
    _add_references(spec, names)
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}
        for kind in _KINDS
        for name in sorted(names[kind])
    ]


def _add_references(value: Any, names: Mapping[str, set[str]], kind: str = "") -> None:
    """Add what a part of a pod spec refers to, by kind."""
    for each in value if isinstance(value, list) else ():
        _add_references(each, names, kind)
    for key, inner in value.items() if isinstance(value, dict) else ():
        _add_references(inner, names, _REFERENCES.get(key, ""))
        if inner and isinstance(inner, str) and key in _NAMES.get(kind, ("claimName",)):
            names[kind].add(inner)


def _spec_of(template: Object) -> Object:
    spec = dig(template, "spec")
    return spec if isinstance(spec, dict) else {}


def _list(obj: Any, *path: str) -> list[Any]:
    value = dig(obj, *path)
    return value if isinstance(value, list) else []


def _node_claim(spec: Object) -> Object:
    affinity = dig(
        spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    parts = {
        "hardNodeAffinity": affinity,
        "nodeSelector": spec.get("nodeSelector"),
        "tolerations": spec.get("tolerations"),
    }
    return {name: part for name, part in parts.items() if part}


def _requests(spec: Object) -> dict[str, str]:
    totals: dict[str, int] = {}
    for container in _list(spec, "containers"):
        for name, amount in _effective_requests(container).items():
            totals[name] = totals.get(name, 0) + amount
    for container in _list(spec, "initContainers"):
        for name, amount in _effective_requests(container).items():
            totals[name] = max(totals.get(name, 0), amount)
    for name, amount in _counted(spec.get("overhead") or {}).items():
        totals[name] = totals.get(name, 0) + amount
    return {
        name: str(quantity.of_unit(name, totals[name]))
        for name in sorted(totals)
        if totals[name] > 0
    }


def _effective_requests(container: Object) -> dict[str, int]:
    """Return requests by name; a limit without a request counts as a request."""
    limits = dig(container, "resources", "limits") or {}
    requests = dig(container, "resources", "requests") or {}
    return _counted({**limits, **requests})


def _counted(amounts: Object) -> dict[str, int]:
    return {
        name: quantity.in_unit(name, raw)
        for name, raw in amounts.items()
        if quantity.is_counted(name)
    }
