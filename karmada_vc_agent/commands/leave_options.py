"""`karmada-vc-agent leave`: its options."""

import asyncio
from pathlib import Path
from typing import Any

import click

from karmada_vc_agent.commands.errors import one_line_errors
from karmada_vc_agent.commands.leave_run import LeavePlan, run_leave, run_prune
from karmada_vc_agent.commands.leave_steps import Leaving
from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.kubeconfig import find_credentials, read_kubeconfig
from karmada_vc_agent.model.durations import parse_duration_s

_EPILOG = """\b
Examples:
  # a virtual cluster with all that runs in it
  karmada-vc-agent leave branch-a --config agent.yaml \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # its workloads stay on the nodes, nobody manages them any more
  karmada-vc-agent leave branch-a --preserve-resources --yes \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # the hub is lost: clean the host, and be told what stays on the hub
  karmada-vc-agent leave branch-a --force --yes \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # objects and namespaces whose Work vanished while the agent was away: list, then remove them
  karmada-vc-agent leave --prune --karmada-kubeconfig admin.kubeconfig
  karmada-vc-agent leave --prune --yes --karmada-kubeconfig admin.kubeconfig
\b
Afterwards take the virtual cluster out of the agent's settings. Until then the agent remembers
that it left and does not register it; karmada-vc-agent join lets it come back.
"""


@click.command(epilog=_EPILOG)
@click.argument("cluster", required=False, default="")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Settings of the agent; its name and namespace are taken from there.",
)
@click.option("--agent-name", default="", help="Name of the agent. Default: the file's.")
@click.option(
    "--agent-namespace",
    default="",
    help="Namespace of the agent on the host. Default: the file's, else the agent's name.",
)
@click.option(
    "--karmada-kubeconfig",
    required=True,
    help="Kubeconfig of an administrator of the hub.",
)
@click.option("--karmada-context", default="", help="Context in it. Default: its current context.")
@click.option("--kubeconfig", default="", help="Kubeconfig of the host. Default: as for run.")
@click.option(
    "--preserve-resources", is_flag=True, help="Leave the host objects, without our marks."
)
@click.option(
    "--prune",
    "prunes",
    is_flag=True,
    help="Remove nothing but host objects whose Work is gone; without --yes only list them.",
)
@click.option("--force", "is_forced", is_flag=True, help="Go on while the hub or the host is away.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@click.option(
    "--timeout",
    default="2m",
    show_default=True,
    metavar="DURATION",
    help="How long the hub may take to remove the Cluster.",
)
def leave(**options: Any) -> None:
    """Remove one virtual cluster cleanly: Cluster, Works, host objects, rights.

    Names the bindings that still target it, and asks. If an agent serves it, that agent cleans
    the host; if none does, this command does. Of the host it touches only what carries the label
    of the virtual cluster and the claim of the agent. With the last virtual cluster it also takes
    the agent's rights and policies.
    """
    with one_line_errors():
        what = _what(options)
        hub = read_kubeconfig(Path(options["karmada_kubeconfig"]), options["karmada_context"])
        host = find_credentials(options["kubeconfig"], in_cluster_first=True)
        plan = LeavePlan(what, hub, host, options["is_sure"], options["is_forced"])
        asyncio.run(run_prune(plan) if options["prunes"] else run_leave(plan))


def _what(options: dict[str, Any]) -> Leaving:
    """Return what leaves. Raises ConfigError."""
    if not options["cluster"] and not options["prunes"]:
        raise ConfigError("flags", "CLUSTER", "say which virtual cluster is to leave")
    if options["prunes"] and (options["preserve_resources"] or options["is_forced"]):
        raise ConfigError("flags", "--prune", "goes with neither --preserve-resources nor --force")
    file: Path | None = options["config_path"]
    given = {key: options[key] or None for key in ("agent_name", "agent_namespace")}
    config = load_config(file, given) if file else None
    agent = (config.agent_name if config else options["agent_name"]) or AgentConfig().agent_name
    namespace = (config.agent_namespace if config else options["agent_namespace"]) or agent
    try:
        timeout_s = parse_duration_s(options["timeout"])
    except ValueError as error:
        raise ConfigError("flags", "--timeout", str(error)) from error
    return Leaving(options["cluster"], agent, namespace, options["preserve_resources"], timeout_s)
