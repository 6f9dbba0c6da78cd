"""Report what a command changes, field by field, before it does."""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any

from karmada_vc_agent.model.objects import Object, key_of
from karmada_vc_agent.model.rbac_rule import flow_text

_SERVERS_OWN = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
_LONGEST = 160
_BEFORE = 40


class Changes:
    """Reports and counts changes. is_dry: nothing is to be written."""

    def __init__(
        self, say: Callable[[str], None] = lambda _: None, *, is_dry: bool = False
    ) -> None:
        self._say = say
        self.is_dry = is_dry
        self.count = 0

    def report(self, change: str, details: Iterable[str] = ()) -> None:
        """Report a change that is made next, with one line for each detail."""
        self.count += 1
        self._say(change)
        for line in details:
            self._say(f"    {line}")


def fields_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each field that holds a value, with its path as server-side apply names it.

    Items of a list that have a name are named by it: `.containers[name="agent"].image`. Other
    lists are one value, as are empty maps.
    """
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from fields_of(inner, f"{path}.{key}")
    elif isinstance(value, list) and value and all(map(_has_name, value)):
        for item in value:
            yield from fields_of(item, f'{path}[name="{item["name"]}"]')
    else:
        yield path, value


def without_fields(value: Any, left_out: frozenset[str], path: str = "") -> Any:
    """Return a copy without the fields of these paths, see `fields_of`."""
    if isinstance(value, dict):
        return {
            key: without_fields(inner, left_out, f"{path}.{key}")
            for key, inner in value.items()
            if f"{path}.{key}" not in left_out
        }
    if isinstance(value, list) and all(map(_has_name, value)):
        return [without_fields(item, left_out, f'{path}[name="{item["name"]}"]') for item in value]
    return value


def differences(old: Object, new: Object) -> list[str]:
    """Return a line for each field of an object that differs; values of Secrets are not shown."""
    before, after = (dict(fields_of(_compared(obj))) for obj in (old, new))
    is_secret = key_of(new).gvk.kind == "Secret"
    lines = []
    for path in dict.fromkeys((*before, *after)):
        was, becomes = before.get(path), after.get(path)
        if was == becomes:
            continue
        if is_secret and path.startswith((".data", ".stringData")):
            lines.append(f"{path}: changed (not shown)")
        elif isinstance(was, list) and isinstance(becomes, list):
            lines += _between(path, list(map(_item, was)), list(map(_item, becomes)))
        elif isinstance(was, str) and isinstance(becomes, str) and "\n" in was + becomes:
            lines += _between(path, was.splitlines(), becomes.splitlines())
        else:
            lines.append(f"{path}: {' -> '.join(_unlike(_text(was), _text(becomes)))}")
    return lines


def _unlike(was: str, becomes: str) -> list[str]:
    """Return both texts short enough to read; what two long ones begin with alike is left out."""
    alike = 0
    if min(len(was), len(becomes)) > _LONGEST:
        pairs = zip(was, becomes, strict=False)
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) - _BEFORE
    return [f"...{_short(text[alike:])}" if alike > 0 else _short(text) for text in (was, becomes)]


def _between(path: str, was: list[str], becomes: list[str]) -> Iterator[str]:
    yield f"{path}:"
    for line in difflib.unified_diff(was, becomes, n=0, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            yield f"  {line[0]} {_short(line[1:])}"


def _compared(obj: Object) -> Object:
    metadata = {k: v for k, v in obj.get("metadata", {}).items() if k not in _SERVERS_OWN}
    rest = {key: value for key, value in obj.items() if key != "status"}
    return {**rest, "metadata": metadata}


def _has_name(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _item(item: Any) -> str:
    is_rule = isinstance(item, dict) and "verbs" in item
    return flow_text(item) if is_rule else item if isinstance(item, str) else json.dumps(item)


def _text(value: Any) -> str:
    return "absent" if value is None else json.dumps(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
