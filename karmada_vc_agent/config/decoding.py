"""Decodes settings into the structs that the code uses; its errors are one line."""

import re
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from karmada_vc_agent.config.declared import (
    Setting,
    choices_of,
    part_of,
    settings_of,
    struct_of,
)
from karmada_vc_agent.model.texts import (
    cut_words,
    did_you_mean,
    either,
    one_line,
    shown,
    text_problem,
)


class ConfigError(Exception):
    """An invalid setting: its source, its path, and the problem.

    other_path: path of the setting that it conflicts with.
    """

    def __init__(self, source: str, path: str, problem: str, other_path: str = "") -> None:
        text = f"{path}: {problem}" if path else problem
        super().__init__(one_line(f"{source}: {cut_words(text)}"))
        self.path = path
        self.problem = problem
        self.other_path = other_path


_T = TypeVar("_T")

_PLACE = re.compile(r"(.*) - at (`key` in )?`\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(.*?)(?: \| null)?`, got `\w+`")
_MUST_BE = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "object": "a map",
    "array": "a list",
}
"""Type name in messages of msgspec -> type name in ours."""


def decode(raw: Any, struct: type[_T], source: str) -> _T:
    """Decode settings, or a part of them. Raises ConfigError; source: the path of the file."""
    try:
        return msgspec.convert(raw, struct, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise _located(str(error), raw, struct, source) from error


def decode_one(setting: Setting, given: Any, source: str, path: str) -> Any:
    """Decode one flag or environment variable. Raises ConfigError."""
    if setting.kind in (int, float) and isinstance(given, str):
        with suppress(ValueError):
            given = setting.kind(given)
    try:
        return msgspec.convert(given, setting.kind, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise ConfigError(source, path, _problem(str(error), given, setting.kind)) from error


def _read(kind: Any, given: Any) -> Any:
    """Decode a type that is not one of msgspec's."""
    try:
        return kind.read(given)
    except TypeError as error:
        raise ValueError(f"Expected `{kind.expected}`, got `{type(given).__name__}`") from error


def _located(message: str, raw: Any, struct: Any, source: str) -> ConfigError:
    """Turn a message of msgspec into a ConfigError with the path of the setting."""
    place = _PLACE.fullmatch(message)
    problem, is_key, steps = place.groups() if place else (message, None, "")
    path, value, kind = "", raw, struct
    for step in _STEP.finditer(steps):
        path, value, kind = _next(step, path, value, kind)
    path = path.removeprefix(".")
    if is_key:
        no_text = next(key for key in value if not isinstance(key, str))
        return ConfigError(source, path, f"a key {_wrong_type('str', no_text)}")
    if field := _FIELD.fullmatch(problem):
        verdict, name = field.groups()
        is_unknown = verdict == "contains unknown"
        problem = f"is unknown{_meant(name, kind)}" if is_unknown else "is not set"
        return ConfigError(source, f"{path}.{name}".removeprefix("."), problem)
    return ConfigError(source, path, _problem(problem, value, kind))


def _next(step: re.Match[str], path: str, value: Any, kind: Any) -> tuple[str, Any, Any]:
    """Follow one step of a path in msgspec's notation, which omits the keys of maps."""
    name, index = step.groups()
    if name:
        kinds = {setting.key: setting.kind for setting in settings_of(kind)}
        return f"{path}.{name}", value[name], kinds[name]
    part = part_of(kind)
    if index:
        return f"{path}[{index}]", value[int(index)], part
    key = next(key for key, inner in value.items() if not _fits(inner, part))
    return f"{path}[{key}]", value[key], part


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, dec_hook=_read)
    except msgspec.ValidationError:
        return False
    return True


def _problem(message: str, value: Any, kind: Any) -> str:
    """Describe what is wrong with a value; kind: the expected type."""
    wrong = _WRONG_TYPE.fullmatch(message)
    if choices := choices_of(kind):
        return f"is {shown(value)}, must be {either(choices)}"
    return _wrong_type(wrong[1], value) if wrong else message


def _wrong_type(expected: str, value: Any) -> str:
    problem = f"is {shown(value)}, must be {_MUST_BE.get(expected, expected)}"
    return text_problem(value) or problem if expected == "str" else problem


def _meant(field: str, kind: Any) -> str:
    """Suggest what an unknown field may have meant, or ""."""
    struct = struct_of(kind)
    if struct is None:
        return ""
    keys = [setting.key for setting in settings_of(struct)]
    if "matchLabels" in keys and "match" not in field:
        return f"; write labels as nodeSelector: {{matchLabels: {{{field}: ...}}}}"
    return did_you_mean(field, keys)
