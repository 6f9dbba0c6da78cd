"""Turns what file, environment or flag gave into the type of a setting."""

from contextlib import suppress
from typing import Any

from karmada_vc_agent.config.durations import parse_duration_s
from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.config.settings import DURATIONS
from karmada_vc_agent.model.tenancy import TENANCIES

_CHOICES = {
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("text", "json"),
    "tenancy": TENANCIES,
}
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def value_of(setting: Any, given: Any, source: str, path: str) -> Any:
    """Turn what file or flag gave into the setting's type. Raises ConfigError."""
    choices = _CHOICES.get(setting.name)
    if choices and given not in choices:
        raise ConfigError(source, path, f'is "{given}", must be one of {", ".join(choices)}')
    if setting.name in DURATIONS and isinstance(given, str):
        try:
            return parse_duration_s(given)
        except ValueError as error:
            raise ConfigError(source, path, str(error)) from error
    wanted = type(setting.default)
    if wanted in (int, float) and source.startswith(("flags", "environment ")):
        with suppress(ValueError):
            given = wanted(given)
    if wanted is float and isinstance(given, int) and not isinstance(given, bool):
        given = float(given)
    if not isinstance(given, wanted) or (wanted is not bool and isinstance(given, bool)):
        raise ConfigError(source, path, f"is {given!r}, must be {_TYPE_NAMES[wanted]}")
    return given
