"""Numbers, formats and dates as Go writes them, since Karmada's Lua runs on Go.

Source: contract 7.7; the behaviour of gopher-lua 1.1.1 (`tostring`, `string.format`) and of
Karmada's `os.date`.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from math import isfinite, isinf, isnan

LuaValue = float | str | bool | None
"""A value from a script; tables and functions arrive as the text that Lua prints for them."""

MAX_LENGTH = 16 * 2**20
"""Of a formatted text: longer than any object may be."""
_MAX_WIDTH = 1_000_000
_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+# 0]*)(?P<width>[0-9]+)?(?:\.(?P<precision>[0-9]*))?(?P<verb>.)", re.DOTALL
)
_WHOLE_VERBS = "dibcoxXU"
_INT64 = 2**63
_DATE_DIRECTIVES = {
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
    if abs(number) < _INT64 and number.is_integer():
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
        if length > MAX_LENGTH:
            raise ValueError(f"string.format would create more than {MAX_LENGTH} characters")
    return "".join((*parts, template[position:]))


def date_text(template: str, moment: datetime) -> str:
    """Return the result of `os.date` for a format; directives unknown to Go are kept."""

    def one(match: re.Match[str]) -> str:
        directive = match[1]
        if directive == "%":
            return "%"
        if directive == "a":
            return "mon"  # a slip in Karmada's table: not a Go layout, so the text itself
        if directive == "P":
            return "pm" if moment.hour >= 12 else "am"
        if directive == "x":
            return moment.strftime("%H/%M/%S")
        if directive in _DATE_DIRECTIVES:
            return moment.strftime(_DATE_DIRECTIVES[directive])
        return match[0]

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
    is_whole = abs(number) < _INT64 and number == int(number)
    if verb in _WHOLE_VERBS or (verb not in "eEfFgG" and is_whole):
        whole = int(number) if abs(number) < _INT64 else -_INT64
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
