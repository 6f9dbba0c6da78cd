"""Texts of others, made fit for a line of ours, and what they may have meant."""

import difflib
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any


def one_line(text: object) -> str:
    """Return a text on one line, with escapes in place of what cannot be printed."""
    line = " ".join(str(text).split())
    if line.isprintable():
        return line
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in line
    )


def either(choices: Iterable[str]) -> str:
    """Write choices as people do: `a, b or c`; empty ones are left out."""
    *first, last = [choice for choice in choices if choice]
    return f"{', '.join(first)} or {last}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `; did you mean "x"?` where a known name is much like this one, else nothing."""
    plain = {_plain(choice): choice for choice in known}
    for found in difflib.get_close_matches(_plain(str(name)), plain, n=1):
        return f'; did you mean "{plain[found]}"?'
    return ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def shown(value: Any) -> str:
    """Return a value of YAML as a message names it: `"x"`, `5`, `true`, `a list`."""
    if isinstance(value, dict | list):
        return "a map" if isinstance(value, dict) else "a list"
    if isinstance(value, bool | int | float | str) or value is None:
        with suppress(ValueError):  # an integer of more digits than Python writes
            return json.dumps(value, ensure_ascii=False)
    return f"a long {type(value).__name__}" if isinstance(value, int) else str(value)


def text_problem(value: Any) -> str | None:
    """Say that a value of YAML is no string, and how to write it as one; None where it is one."""
    if isinstance(value, str) or value is None:
        return None
    told = f"is {shown(value)}, must be a string"
    if isinstance(value, dict | list):
        return told
    return f'{told}; write it in quotes: "{shown(value)}"'
