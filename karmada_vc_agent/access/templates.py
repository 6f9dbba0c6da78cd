"""Kubernetes objects from templates in YAML, with what differs between agents filled in.

    '${name}'   the value as a literal of CEL; a list as its literals, separated by commas
    ${name}     the value as it is; alone in an item of a list: the items of the value
A fragment is filled in itself. An item of a list is left out if one of its values is None, and a
variable of a policy if nothing uses it. Line breaks and indentation in strings do not count.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from karmada_vc_agent.model import yaml_text
from karmada_vc_agent.model.objects import Object

Values = Mapping[str, Any]

_PLACEHOLDER = re.compile(r"('?)\$\{(\w+)\}(\1)")


class Fragment(str):
    """A value that has placeholders of its own."""

    __slots__ = ()


class _AbsentError(Exception):
    """A placeholder has no value."""


def objects(path: str, values: Values) -> list[Object]:
    """Return the objects of a file in this package, without variables that nothing uses."""
    return [_without_unused(_filled(each, values)) for each in _documents(path)]


def fragments(path: str) -> dict[str, Fragment]:
    """Return the texts of a file in this package, by name."""
    return {name: Fragment(text) for name, text in _documents(path)[0].items()}


def cel_list(texts: Iterable[str]) -> str:
    """Return texts as a CEL list."""
    return f"[{', '.join(map(cel_text, texts))}]"


def cel_text(text: str) -> str:
    """Return a text as a CEL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@cache
def _documents(path: str) -> list[Any]:
    text = resources.files(__package__).joinpath(path).read_bytes()
    return [_on_one_line(yaml_text.load(each)) for each in text.split(b"\n---\n")]


def _on_one_line(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _on_one_line(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_on_one_line(each) for each in node]
    return " ".join(node.split()) if isinstance(node, str) else node


def _filled(node: Any, values: Values) -> Any:
    if isinstance(node, dict):
        return {key: _filled(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [filled for each in node for filled in _items(each, values)]
    return _text(node, values) if isinstance(node, str) else node


def _items(node: Any, values: Values) -> list[Any]:
    try:
        filled = _filled(node, values)
    except _AbsentError:
        return []
    return filled if isinstance(filled, list) else [filled]


def _text(text: str, values: Values) -> Any:
    whole = _PLACEHOLDER.fullmatch(text)
    if whole and not whole[1] and not isinstance(values[whole[2]], str):
        return _value(whole[2], values)
    return _PLACEHOLDER.sub(lambda found: _replacement(found, values), text).strip()


def _replacement(found: re.Match[str], values: Values) -> str:
    value = _value(found[2], values)
    if not found[1]:
        return str(_text(value, values) if isinstance(value, Fragment) else value)
    return ", ".join(map(cel_text, [value] if isinstance(value, str) else value))


def _value(name: str, values: Values) -> Any:
    value = values[name]
    if value is None:
        raise _AbsentError
    return list(value) if isinstance(value, tuple) else value


def _without_unused(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    if "variables" not in spec:
        return obj
    uses = str({field: value for field, value in spec.items() if field != "variables"})
    used: list[Object] = []
    for variable in reversed(spec["variables"]):
        if re.search(rf"\bvariables\.{variable['name']}\b", uses):
            used.insert(0, variable)
            uses += str(variable["expression"])
    return {**obj, "spec": {**spec, "variables": used}}
