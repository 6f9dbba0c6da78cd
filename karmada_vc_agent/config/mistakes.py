"""What msgspec says of a settings file, told as a path, a problem and what to do."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.model.texts import did_you_mean, text_problem

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_WRONG_TYPE = re.compile(r"Expected `(.*)`, got `(\w+)`")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_ANY_KEY = "[...]"
_KEY_IN = "`key` in "
_TYPES = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    type(None): "null",
    dict: "object",
    list: "array",
}
"""As msgspec calls them."""


def config_error(
    error: msgspec.ValidationError, raw: Any, source: str, schemas: Mapping[str, Any]
) -> ConfigError:
    """Return the error to raise; schemas: name of the last field on the way -> its struct."""
    problem, _, where = str(error).rpartition(" - at ")
    if not problem:
        problem, where = where, ""
    is_key = where.startswith(_KEY_IN)
    path = where.removeprefix(_KEY_IN).strip("`").removeprefix("$").removeprefix(".")
    if unknown := _UNKNOWN.fullmatch(problem):
        return ConfigError(source, path, problem + _meant(unknown[1], path, schemas))
    if wrong := _WRONG_TYPE.fullmatch(problem):
        wanted, found = wrong.groups()
        holder = _value_at(path.removesuffix(_ANY_KEY), raw)
        if is_key:
            return ConfigError(source, path, _key_problem(holder) or problem)
        path, value = _with_key(path, holder, found)
        if wanted in ("str", "str | null"):
            return ConfigError(source, path, text_problem(value) or problem)
    return ConfigError(source, path, problem)


def _meant(field: str, path: str, schemas: Mapping[str, Any]) -> str:
    """Say what an unknown field may have been meant as."""
    name = re.sub(r"\[\d+\]", "", path).rpartition(".")[2]
    if name == "nodeSelector" and "match" not in field:
        return f"; write labels as nodeSelector: {{matchLabels: {{{field}: ...}}}}"
    schema = schemas.get(name)
    if schema is None:
        return ""
    return did_you_mean(field, (known.encode_name for known in msgspec.structs.fields(schema)))


def _value_at(path: str, raw: Any) -> Any:
    """Return what stands at a path of msgspec without keys that it leaves out."""
    value = raw
    for name, index in _STEP.findall(path):
        value = value[int(index)] if index else value[name]
    return value


def _key_problem(mapping: Any) -> str | None:
    """Say which key of a mapping is no text."""
    keys = (key for key in mapping if not isinstance(key, str))
    return next((f"a key {text_problem(key)}" for key in keys), None)


def _with_key(path: str, holder: Any, found: str) -> tuple[str, Any]:
    """Return the path with the key that msgspec leaves out, and the value of the found type."""
    if not path.endswith(_ANY_KEY):
        return path, holder
    for key, value in holder.items():
        if _TYPES.get(type(value)) == found:
            return f"{path.removesuffix(_ANY_KEY)}[{key}]", value
    return path, None
