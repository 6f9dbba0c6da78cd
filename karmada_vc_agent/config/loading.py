"""Settings of file, environment and flags, with defaults, and what reloads take."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from karmada_vc_agent.config import checks
from karmada_vc_agent.config.decoding import (
    ConfigError,
    camel,
    decode,
    decode_one,
    flags_of,
    settings_of,
)
from karmada_vc_agent.config.settings import AgentConfig, sources_of
from karmada_vc_agent.model import user_text, virtual_cluster
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.user_text import read_small, shown
from karmada_vc_agent.model.vocabulary import CONFIG_API_VERSION, HOST_LABEL, account_role

HEADER = {"apiVersion": CONFIG_API_VERSION, "kind": "AgentConfig"}
"""The header of a file of settings."""


def read_file(struct: type[AgentConfig], path: Path, text: str = "") -> dict[str, Any]:
    """Return what the file, or text, sets, by the names in the struct. Raises ConfigError."""
    source = str(path)
    try:
        raw = user_text.load_yaml(text or read_small(path))
    except (OSError, user_text.YamlError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise ConfigError(source, "", problem) from error
    return decode_file(struct, raw, source)


def decode_file(struct: type[AgentConfig], raw: Any, source: str) -> dict[str, Any]:
    """Return what the content of a file sets, which is changed. Raises ConfigError."""
    if not isinstance(raw, dict):
        raise ConfigError(source, "", "empty, or not a mapping of settings")
    for key, expected in HEADER.items():
        if (given := raw.pop(key, None)) != expected:
            problem = f"is {shown(given)}" if given else "is not set"
            raise ConfigError(source, key, f'{problem}, must be "{expected}"')
    raw = _with_bounds(_without_nulls(raw), struct)
    decoded = decode(raw, struct, source)
    fields = msgspec.structs.fields(struct)
    return {f.name: getattr(decoded, f.name) for f in fields if f.encode_name in raw}


def _without_nulls(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if value is not None}


def _with_bounds(raw: dict[str, Any], struct: type[AgentConfig]) -> dict[str, Any]:
    """Lay `bounds` of all under each one's; decoded first, they have a path of their own."""
    entries = raw.get("virtualClusters", ())
    sources = [raw[each.key] for each in sources_of(struct) if each.key in raw]
    with suppress(TypeError, AttributeError):  # decoding reports what has another form
        bounds = _without_nulls(raw.get("bounds", {}))
        raw.pop("bounds", None)
        raw = {"bounds": bounds, **raw}
        entries = [*entries, *(each.setdefault("settings", {}) for each in sources)]
        for entry in entries:
            if entry.get("nodeSelector", "") is None:
                del entry["nodeSelector"]
            entry["bounds"] = bounds | _without_nulls(entry.get("bounds", {}))
    return raw


THIN_LINK = "thin"
WARNINGS = "Warnings"

OF_LINK: Mapping[str, Mapping[str, Any]] = {
    THIN_LINK: {
        # 24 s of 40 s, after which Karmada takes a Cluster for lost (its grace period).
        "cluster_lease_renew_interval_fraction": 0.6,
        "cluster_status_update_frequency": Duration(30.0),
        "hub_events": WARNINGS,
        "clusters_by_name": True,
    }
}
"""Value of `link` -> the defaults that it changes; docs/thin-links.md has the figures."""


def load_config(
    struct: type[AgentConfig],
    path: Path | None,
    overrides: Mapping[str, Any],
    variables: Mapping[str, str] | None = None,
    problems: Callable[[AgentConfig], checks.Problems] = checks.problems,
    text: str = "",
) -> AgentConfig:
    """Read the file, lay `overrides` (flag name with underscores -> value) over it, check all.

    struct: the settings of this agent, with those of its features.
    variables: the environment variable of each override that is from one.
    problems: what is checked. text: of settings in no file; path then names their place. Raises
    ConfigError.
    """
    origins: dict[str, tuple[str, str]] = {}
    settings = read_file(struct, path, text) if path else {}
    for setting in flags_of(struct):
        if overrides.get(setting.name) is not None:
            variable = (variables or {}).get(setting.name)
            origin = (f"environment {variable}", "") if variable else ("flags", setting.flag)
            origins[setting.key] = origin
            settings[setting.name] = decode_one(setting, overrides[setting.name], *origin)
    config = config_of(struct, settings)
    if path is None and not config.virtual_clusters:
        problem = "give the file with the settings, which lists the virtual clusters"
        raise ConfigError("flags", "--config", problem)
    source = str(path) if path else "flags"
    try:
        checks.raise_first(problems(config), source)
    except ConfigError as error:
        if error.path in origins:
            raise ConfigError(*origins[error.path], error.problem) from None
        raise
    return config


def config_of(struct: type[AgentConfig], settings: Mapping[str, Any]) -> AgentConfig:
    """Return what is set, over the defaults of its link; nothing is checked."""
    return with_descriptions(struct(**{**OF_LINK.get(settings.get("link", ""), {}), **settings}))


def with_descriptions(config: AgentConfig) -> AgentConfig:
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


STRICT_PODS = cast(virtual_cluster.PodSecurity, virtual_cluster.DefaultPodSecurity("baseline"))
"""No privileged pods, namespaces and paths of the node, nor its ports and network."""


def with_profile_defaults(config: AgentConfig, namespace: str) -> AgentConfig:
    """Return the settings with what Strict requires of each: an account, and Pod Security.

    namespace: the agent's on the host.
    """
    if config.tenancy != virtual_cluster.STRICT:
        return config
    changed = (
        replace(
            vc,
            apply_as=vc.apply_as or default_account(config, namespace, vc.name),
            pod_security=vc.pod_security or STRICT_PODS,
        )
        for vc in config.virtual_clusters
    )
    return replace(config, virtual_clusters=tuple(changed))


def default_account(
    config: AgentConfig, namespace: str, cluster: str
) -> virtual_cluster.DefaultAccount:
    """Return the account of a virtual cluster by its name."""
    # With a dot: names of agents have none, and the agent's own account is there, too.
    name = f"{cluster}.{config.agent_name}"
    return virtual_cluster.DefaultAccount(namespace, name, account_role(config.agent_name))


def completed(
    vc: virtual_cluster.VirtualCluster, config: AgentConfig
) -> virtual_cluster.VirtualCluster:
    """Return it with what checked settings of the agent lay under it. Raises ConfigError."""
    alone = with_descriptions(replace(config, virtual_clusters=(vc,)))
    checks.check_alone(alone, vc.name)
    (made,) = with_profile_defaults(alone, config.agent_namespace).virtual_clusters
    return made


def field_of(error: ConfigError) -> str:
    """Return which field of the virtual cluster an error of `completed` is about, "" = none."""
    return error.path.removeprefix("virtualClusters[0]").removeprefix(".")


_TAKEN = ("virtual_clusters", "bounds", *checks.DESCRIPTIONS)
"""They are virtual clusters or their defaults, and are taken at once, as are their sources."""


def reload(running: AgentConfig, read: AgentConfig) -> tuple[AgentConfig, tuple[str, ...]]:
    """Return the settings in use with what is taken at once of those just read.

    And the names of the other settings that differ, as the file has them. The result is to be
    checked as a whole: what a virtual cluster needs of the agent's settings, it needs of these.
    """
    taken = (*_TAKEN, *(each.name for each in sources_of(type(running))))
    at_restart = tuple(
        camel(setting.name)
        for setting in settings_of(type(running))
        if setting.name not in taken
        and getattr(running, setting.name) != getattr(read, setting.name)
    )
    return replace(running, **{name: getattr(read, name) for name in taken}), at_restart
