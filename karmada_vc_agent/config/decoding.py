"""Decodes settings into the structs that the code uses; tells in one line what cannot be."""

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
from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.model.setting import Written
from karmada_vc_agent.model.texts import did_you_mean, either, shown, text_problem

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

_PLACE = re.compile(r"(.*) - at (`key` in )?`\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(.*?)(?: \| null)?`, got `\w+`")
_MUST_BE = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "object": "a map",
    "array": "a list",
}
"""Type as msgspec calls it -> what to write."""


def decode(raw: Any, struct: type[_Struct], source: str) -> _Struct:
    """Return what a file says as a struct. Raises ConfigError; source: the file."""
    try:
        return msgspec.convert(raw, struct, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise _located(str(error), raw, struct, source) from error


def decode_one(setting: Setting, given: Any, source: str, path: str) -> Any:
    """Return what a flag or an environment variable says. Raises ConfigError."""
    if setting.kind in (int, float) and isinstance(given, str):
        with suppress(ValueError):
            given = setting.kind(given)
    try:
        return msgspec.convert(given, setting.kind, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise ConfigError(source, path, _problem(str(error), given, setting.kind)) from error


def _read(kind: type[Written], given: Any) -> Any:
    """Read a type that msgspec does not know."""
    try:
        return kind.read(given)
    except TypeError as error:
        raise ValueError(f"Expected `{kind.expected}`, got `{type(given).__name__}`") from error


def _located(told: str, raw: Any, struct: Any, source: str) -> ConfigError:
    """Return the error for what msgspec told of a file, with the path where it is."""
    place = _PLACE.fullmatch(told)
    if place is None:
        return ConfigError(source, "", _problem(told, raw, struct))
    problem, is_key, steps = place.groups()
    path, value, kind = "", raw, struct
    for step in _STEP.finditer(steps):
        path, value, kind = _next(step, path, value, kind)
    path = path.removeprefix(".")
    if is_key:
        return ConfigError(source, path, f"a key {_wrong_type('str', _first_no_text(value))}")
    return ConfigError(source, path, _problem(problem, value, kind))


def _next(step: re.Match[str], path: str, value: Any, kind: Any) -> tuple[str, Any, Any]:
    """Go one step of msgspec's path down, which leaves keys of maps out."""
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


def _first_no_text(mapping: Any) -> Any:
    return next(key for key in mapping if not isinstance(key, str))


def _problem(told: str, value: Any, kind: Any) -> str:
    """Say what is wrong with a value that should be of a kind."""
    if unknown := _UNKNOWN.fullmatch(told):
        return told + _meant(unknown[1], kind)
    wrong = _WRONG_TYPE.fullmatch(told)
    if choices := choices_of(kind):
        return f"is {shown(value)}, must be {either(choices)}"
    return _wrong_type(wrong[1], value) if wrong else told


def _wrong_type(wanted: str, value: Any) -> str:
    told = f"is {shown(value)}, must be {_MUST_BE.get(wanted, wanted)}"
    return text_problem(value) or told if wanted == "str" else told


def _meant(field: str, kind: Any) -> str:
    """Say what an unknown field may have been meant as."""
    struct = struct_of(kind)
    if struct is None:
        return ""
    known = [setting.key for setting in settings_of(struct)]
    if "matchLabels" in known and "match" not in field:
        return f"; write labels as nodeSelector: {{matchLabels: {{{field}: ...}}}}"
    return did_you_mean(field, known)
