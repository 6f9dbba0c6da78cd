"""Reads the file with the settings (kind AgentConfig)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.decoding import decode
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model import yaml_text
from karmada_vc_agent.model.domain import CONFIG_API_VERSION
from karmada_vc_agent.model.small_files import read_small
from karmada_vc_agent.model.texts import shown

_RENAMED = {
    "clusterApiQPS": "clusterAPIQPS",
    "clusterApiBurst": "clusterAPIBurst",
    "kubeApiQPS": "kubeAPIQPS",
    "kubeApiBurst": "kubeAPIBurst",
}
"""Earlier name of a setting -> its name."""


_DISCOVERED = ("nodeGroups", "discover")
"""Settings with those of discovered virtual clusters."""


_HEADER = {"apiVersion": CONFIG_API_VERSION, "kind": "AgentConfig"}
"""The header of a file of settings."""


def read_file(path: Path, warn: Callable[[str], None]) -> dict[str, Any]:
    """Return what the file sets, by the names in AgentConfig. Raises ConfigError.

    warn: called with a line for each deprecated name.
    """
    source = str(path)
    try:
        raw = yaml_text.load(read_small(path))
    except OSError as error:
        raise ConfigError(source, "", error.strerror or str(error)) from error
    except yaml_text.YamlError as error:
        raise ConfigError(source, "", str(error)) from error
    if not isinstance(raw, dict):
        raise ConfigError(source, "", "empty, or not a mapping of settings")
    raw = _without_header(_without_nulls(raw), source)
    raw = _with_bounds(_with_new_names(raw, source, warn))
    decoded = decode(raw, AgentConfig, source)
    fields = msgspec.structs.fields(AgentConfig)
    return {f.name: getattr(decoded, f.name) for f in fields if f.encode_name in raw}


def _without_header(raw: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the settings of a file of the right kind; a file of another kind has none."""
    for key, expected in _HEADER.items():
        if (given := raw.get(key)) != expected:
            problem = f"is {shown(given)}" if given else "is not set"
            raise ConfigError(source, key, f'{problem}, must be "{expected}"')
    return {key: value for key, value in raw.items() if key not in _HEADER}


def _with_new_names(
    raw: dict[str, Any], source: str, warn: Callable[[str], None]
) -> dict[str, Any]:
    for old, new in _RENAMED.items():
        if old in raw and new in raw:
            raise ConfigError(source, old, f"is the earlier name of {new}, which is set, too")
        if old in raw:
            warn(f"{source}: {old} is deprecated, use {new}")
    return {_RENAMED.get(key, key): value for key, value in raw.items()}


def _without_nulls(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping without what is null: as if it were not set."""
    return {key: value for key, value in raw.items() if value is not None}


def _with_bounds(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with `bounds` of all laid under those of each virtual cluster."""
    common, entries = raw.get("bounds", {}), raw.get("virtualClusters")
    if not isinstance(common, dict):
        return raw
    common = _without_nulls(common)
    # They are decoded first, so that a problem is reported with their own path.
    changed: dict[str, Any] = {"bounds": common}
    if isinstance(entries, list):
        changed["virtualClusters"] = [_with_own_bounds(entry, common) for entry in entries]
    for key in _DISCOVERED:
        source = raw.get(key)
        if isinstance(source, dict):
            own = source.get("settings", {})
            changed[key] = {**source, "settings": _with_own_bounds(own, common)}
    return changed | {key: value for key, value in raw.items() if key not in changed}


def _with_own_bounds(entry: Any, common: dict[str, Any]) -> Any:
    if not isinstance(entry, dict):
        return entry
    if "nodeSelector" in entry and entry["nodeSelector"] is None:
        entry = {key: value for key, value in entry.items() if key != "nodeSelector"}
    own = entry.get("bounds", {})
    if not isinstance(own, dict):
        return entry
    return {**entry, "bounds": common | _without_nulls(own)}
