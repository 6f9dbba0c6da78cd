"""Puts the settings of file, environment and flags together."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from karmada_vc_agent.config.checks import check
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.decoding import decode_one
from karmada_vc_agent.config.file import read_file
from karmada_vc_agent.config.presets import with_presets
from karmada_vc_agent.config.settings import FLAGS, AgentConfig
from karmada_vc_agent.model.domain import HOST_LABEL

_log = logging.getLogger(__name__)


def load_config(
    path: Path | None,
    overrides: Mapping[str, Any],
    variables: Mapping[str, str] | None = None,
    check_beyond: Callable[[AgentConfig, str], None] = lambda _config, _source: None,
    warn: Callable[[str], None] = _log.warning,
) -> AgentConfig:
    """Read the file, lay `overrides` (flag name with underscores -> value) over it, check all.

    variables: the environment variable of each override that is from one.
    check_beyond: what is checked besides; it is given the source, too, and raises ConfigError.
    warn: called with a line for each deprecated name. Raises ConfigError.
    """
    origins: dict[str, tuple[str, str]] = {}
    settings = read_file(path, warn) if path else {}
    for setting in FLAGS:
        if overrides.get(setting.name) is not None:
            variable = (variables or {}).get(setting.name)
            origin = (f"environment {variable}", "") if variable else ("flags", setting.flag)
            origins[setting.key] = origin
            settings[setting.name] = decode_one(setting, overrides[setting.name], *origin)
    config = described(AgentConfig(**with_presets(settings)))
    if path is None and not config.virtual_clusters:
        problem = "give the file with the settings, which lists the virtual clusters"
        raise ConfigError("flags", "--config", problem)
    source = str(path) if path else "flags"
    try:
        check(config, source)
        check_beyond(config, source)
    except ConfigError as error:
        if error.path in origins:
            raise ConfigError(*origins[error.path], error.problem) from None
        if error.other_path in origins:
            problem = f"{error.path} {error.problem}"
            raise ConfigError(*origins[error.other_path], problem) from None
        raise
    return config


def described(config: AgentConfig) -> AgentConfig:
    """Return the settings with what describes a Cluster in each virtual cluster that has none."""
    host = {HOST_LABEL: config.cluster_host} if config.cluster_host else {}
    zones = tuple(zone.strip() for zone in config.cluster_zones.split(",") if zone.strip())
    described = tuple(
        replace(
            vc,
            cluster_labels={**host, **vc.cluster_labels},
            provider=vc.provider or config.cluster_provider,
            region=vc.region or config.cluster_region,
            zones=vc.zones or zones,
        )
        for vc in config.virtual_clusters
    )
    return replace(config, virtual_clusters=described)
