"""Kubernetes objects from templates in YAML, with what differs between agents filled in.

    '${name}'   the value as a literal of CEL; a list as its literals, separated by commas
    ${name}     the value as it is; alone in an item of a list: the items of the value
    ${name.key} in an object of a list: the object for each item of the value, with its fields
A fragment is filled in itself. An object of a file or a list is left out if one of its values is
None, and a variable of a policy if nothing uses it. Line breaks and indentation in strings do not
count. The comment above a rule of a role is its reason.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from karmada_vc_agent.model import user_text
from karmada_vc_agent.model.objects import Object, key_of

Values = Mapping[str, Any]
Reasons = dict[str, list[str]]
"""Key of a Role or ClusterRole (`ClusterRole x`) -> the reason of each of its rules."""

_PLACEHOLDER = re.compile(r"('?)\$\{([\w.]+)\}(\1)")
_FIELD = re.compile(r"\$\{(\w+)\.(\w+)\}")


class Fragment(str):
    """A value that has placeholders of its own."""

    __slots__ = ()


class _AbsentError(Exception):
    """A placeholder has no value."""


def objects(path: str, values: Values) -> list[Object]:
    """Return the objects of a file of the package, without variables that nothing uses."""
    return [_without_unused(obj) for obj in _filled(_documents(path), values)]


def document(path: str, values: Values) -> Object:
    """Return the single document of a file of the package."""
    made: Object = _filled(_documents(path)[0], values)
    return made


def granted(files: Iterable[tuple[str, Values]]) -> tuple[list[Object], Reasons]:
    """Return the objects of files, parts of a role put together, and the reason of each rule.

    A rule whose `resourceNames` become [] holds for all names; one with a value None is left out.
    """
    made: dict[str, Object] = {}
    reasons: Reasons = {}
    for path, values in files:
        for template, why in zip(_documents(path), _reasons(path), strict=True):
            for head in _items({**template, "rules": []}, values):
                key = str(key_of(head))
                if "rules" not in template:
                    del head["rules"]
                role = made.setdefault(key, head)
                for rule, reason in zip(template.get("rules", ()), why, strict=True):
                    rules = [
                        {key: v for key, v in each.items() if key != "resourceNames" or v}
                        for each in _items(rule, values)
                    ]
                    role["rules"] = [*role.get("rules", ()), *rules]
                    reasons.setdefault(key, []).extend([reason] * len(rules))
    return list(made.values()), reasons


def fragments(path: str) -> dict[str, Fragment]:
    """Return the texts of a file of the package, by name."""
    return {name: Fragment(text) for name, text in _documents(path)[0].items()}


def cel_list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(cel_text, texts))}]"


def cel_text(text: str) -> str:
    """Return a text as a CEL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@cache
def _documents(path: str) -> list[Any]:
    return [_on_one_line(user_text.load_yaml(each.encode())) for each in _texts(path)]


@cache
def _reasons(path: str) -> list[list[str]]:
    return [_comments(each) for each in _texts(path)]


def _texts(path: str) -> list[str]:
    return resources.files("karmada_vc_agent").joinpath(path).read_text().split("\n---\n")


def _comments(text: str) -> list[str]:
    reasons: list[str] = []
    comment: list[str] = []
    for line in text.partition("\nrules:\n")[2].splitlines():
        if line.startswith("# "):
            comment.append(line[2:])
        elif line.startswith("- "):
            reasons.append(" ".join(comment))
            comment = []
    return reasons


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
    fields = _fields(node) if isinstance(node, dict) else set()
    if not fields:
        return _item(node, values)
    [name] = {name for name, _ in fields}
    made = []
    for each in values[name]:
        if set(each) != {field for _, field in fields}:
            raise ValueError(f"{name} has other fields than the template: {', '.join(each)}")
        of_item = {
            f"{name}.{field}": tuple(value) if isinstance(value, list) else value
            for field, value in each.items()
        }
        made += _item(node, {**values, **of_item})
    return made


def _fields(node: Any) -> set[tuple[str, str]]:
    """Return (name, key) of placeholders in an object, without those of objects in its lists."""
    if isinstance(node, str):
        return set(_FIELD.findall(node))
    if isinstance(node, list):
        return {field for each in node if isinstance(each, str) for field in _fields(each)}
    parts = node.values() if isinstance(node, dict) else ()
    return {field for each in parts for field in _fields(each)}


def _item(node: Any, values: Values) -> list[Any]:
    try:
        filled = _filled(node, values)
    except _AbsentError:
        if not isinstance(node, dict):
            raise
        return []
    return filled if isinstance(filled, list) else [filled]


def _text(text: str, values: Values) -> Any:
    whole = _PLACEHOLDER.fullmatch(text)
    if whole and not whole[1] and not isinstance(values[whole[2]], Fragment):
        return _value(whole[2], values)
    return _PLACEHOLDER.sub(lambda match: _replacement(match, values), text).strip()


def _replacement(match: re.Match[str], values: Values) -> str:
    value = _value(match[2], values)
    if not match[1]:
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
