"""Options that commands share: which agent is meant, how to reach its hub, what to print."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import yaml

from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model.virtual_cluster_problems import dns_label_problem


class FilePath(click.Path):
    """A path that is not empty: `"$UNSET"` does not mean the working directory."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; give a path.", param, ctx)
        return super().convert(value, param, ctx)


agent_name = click.option(
    "--agent-name", default="", help="Name of the agent. Default: from the settings file."
)
agent_namespace = click.option(
    "--agent-namespace",
    default="",
    help="Namespace of the agent on the host. Default: from the settings file, else the agent's "
    "name.",
)
karmada_context = click.option(
    "--karmada-context",
    default="",
    help="Context in that kubeconfig. Default: its current context.",
)
kubeconfig = click.option(
    "--kubeconfig",
    default="",
    help="Kubeconfig of the host, with administrator rights. Default: the Pod's ServiceAccount, "
    "then $KUBECONFIG, then ~/.kube/config.",
)


def form(for_people: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option of what is printed: the form for people, its default, JSON or YAML."""
    return click.option(
        "--output",
        "-o",
        "form",
        type=click.Choice((for_people, "json", "yaml")),
        default=for_people,
        show_default=True,
        help="Form of the output.",
    )


def written(content: Any, form: str) -> str:
    """Return plain data as JSON or YAML."""
    if form == "json":
        return json.dumps(content, indent=2)
    return str(yaml.safe_dump(content, sort_keys=False)).rstrip()


def settings_and_agent(options: dict[str, Any]) -> tuple[AgentConfig | None, str, str]:
    """Return the settings file, None without one, and name and namespace of the agent.

    Raises ConfigError.
    """
    file: Path | None = options["config_path"]
    given = {key: options[key] or None for key in ("agent_name", "agent_namespace")}
    config = load_config(file, given) if file else None
    for key, label in given.items():
        if label and (problem := dns_label_problem(label)):
            raise ConfigError("flags", f"--{key.replace('_', '-')}", problem)
    name = (config.agent_name if config else options["agent_name"]) or AgentConfig().agent_name
    return config, name, (config.agent_namespace if config else options["agent_namespace"]) or name
