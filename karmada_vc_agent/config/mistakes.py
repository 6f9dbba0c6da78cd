"""What msgspec says of a settings file, told as a path, a problem and what to do."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.model.texts import did_you_mean, text_problem

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_NO_TEXT = re.compile(r"Expected `(?:str|str \| null)`, got `\w+`")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_ANY_KEY = "[...]"


def config_error(
    error: msgspec.ValidationError, raw: Any, source: str, schemas: Mapping[str, Any]
) -> ConfigError:
    """Return the error to raise; schemas: name of the last field on the way -> its struct."""
    problem, _, where = str(error).rpartition(" - at ")
    if not problem:
        problem, where = where, ""
    path = where.strip("`").removeprefix("$").removeprefix(".")
    if unknown := _UNKNOWN.fullmatch(problem):
        return ConfigError(source, path, problem + _meant(unknown[1], path, schemas))
    if _NO_TEXT.fullmatch(problem):
        path, value = _no_text(path, raw)
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


def _no_text(path: str, raw: Any) -> tuple[str, Any]:
    """Return the path with the key that msgspec leaves out, and the value that stands there."""
    has_key_left_out = path.endswith(_ANY_KEY)
    value = raw
    for name, index in _STEP.findall(path.removesuffix(_ANY_KEY)):
        value = value[int(index)] if index else value[name]
    if not has_key_left_out:
        return path, value
    for key, one in value.items():
        if not isinstance(one, str):
            return f"{path.removesuffix(_ANY_KEY)}[{key}]", one
    return path, None
