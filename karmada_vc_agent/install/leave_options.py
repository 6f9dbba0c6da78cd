"""`karmada-vc-agent leave`: its options and their validation."""

import asyncio
from typing import Any

import click

from karmada_vc_agent.commands import shared_options
from karmada_vc_agent.commands.command_errors import one_line_errors
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.install.leave_run import run_leave, run_prune, run_purge
from karmada_vc_agent.install.leave_steps import Leaving
from karmada_vc_agent.kube.kubeconfig import find_credentials, read_kubeconfig
from karmada_vc_agent.model.durations import parse_duration_s
from karmada_vc_agent.model.virtual_cluster_problems import cluster_name_problem

_EPILOG = """\b
Examples:
  # remove a virtual cluster and everything that runs in it
  karmada-vc-agent leave branch-a --config agent.yaml \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # keep its workloads running, unmanaged
  karmada-vc-agent leave branch-a --preserve-resources --yes \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # the hub is lost: stop the agent, then clean up the host and print what remains on the hub
  karmada-vc-agent leave branch-a --force --yes \\
    --karmada-kubeconfig admin.kubeconfig --kubeconfig host.kubeconfig
\b
  # list, then remove objects and namespaces whose Work disappeared while the agent was down
  karmada-vc-agent leave --prune --karmada-kubeconfig admin.kubeconfig
  karmada-vc-agent leave --prune --yes --karmada-kubeconfig admin.kubeconfig
\b
  # with the last virtual cluster, or after it, remove the agent itself as well
  karmada-vc-agent leave branch-a --purge --config agent.yaml --karmada-kubeconfig admin.kubeconfig
  karmada-vc-agent leave --purge --config agent.yaml --karmada-kubeconfig admin.kubeconfig
\b
Afterwards remove the virtual cluster from the agent's settings. Until then the agent remembers
that it left and does not register it; karmada-vc-agent join allows it again.
"""
_WHICH = ("config_path", "agent_name", "agent_namespace", "karmada_kubeconfig", "karmada_context")


@click.command(epilog=_EPILOG, short_help="Remove one virtual cluster, or the agent itself.")
@click.argument("cluster", required=False, default="")
@click.option(
    "--config",
    "config_path",
    type=shared_options.FilePath(),
    help="Settings file of the agent, for its name and namespace.",
)
@shared_options.agent_name
@shared_options.agent_namespace
@click.option(
    "--karmada-kubeconfig",
    required=True,
    type=shared_options.FilePath(),
    help="Kubeconfig with administrator rights on the hub.",
)
@shared_options.karmada_context
@shared_options.kubeconfig
@click.option(
    "--preserve-resources", is_flag=True, help="Keep the host objects, without the agent's labels."
)
@click.option(
    "--prune",
    "prunes",
    is_flag=True,
    help="Remove only host objects whose Work was deleted; without --yes, list them.",
)
@click.option(
    "--purge",
    "purges",
    is_flag=True,
    help="Also remove the agent and all that join created for it, once no virtual cluster is left.",
)
@click.option(
    "--force", "is_forced", is_flag=True, help="Continue if the hub or the host is unreachable."
)
@click.option("--yes", "is_sure", is_flag=True, help="Skip the confirmation.")
@click.option(
    "--timeout",
    default="2m",
    show_default=True,
    metavar="DURATION",
    help="How long to wait for the hub to remove the Cluster.",
)
def leave(**options: Any) -> None:
    """Remove one virtual cluster cleanly: Cluster, Works, host objects, rights.

    Lists the bindings that still target it, and asks for confirmation. If a running agent serves
    it, that agent cleans up the host; otherwise this command does. On the host it touches only
    objects with the label of the virtual cluster in namespaces with the claim of the agent. With
    the last virtual cluster it also removes the agent's rights and policies, and with --purge the
    agent itself.
    """
    with one_line_errors():
        leaving = _leaving(options)
        run = run_prune if options["prunes"] else run_leave if leaving.cluster else run_purge
        hub = read_kubeconfig(options["karmada_kubeconfig"], options["karmada_context"])
        host = find_credentials(options["kubeconfig"], in_cluster_first=True)
        asyncio.run(run(leaving, hub, host))


def _flags(options: dict[str, Any]) -> str:
    """Return the flags that name agent, hub and host, for a command to print."""
    names = (*_WHICH, "kubeconfig")
    given = {name.removesuffix("_path").replace("_", "-"): options[name] for name in names}
    return " ".join(f"--{name} {value}" for name, value in given.items() if value)


def _leaving(options: dict[str, Any]) -> Leaving:
    """Return what leaves. Raises ConfigError."""
    if not options["cluster"] and not options["prunes"] and not options["purges"]:
        raise ConfigError("flags", "CLUSTER", "name the virtual cluster to remove")
    if options["cluster"] and (problem := cluster_name_problem(options["cluster"])):
        raise ConfigError("flags", "CLUSTER", problem)
    if options["purges"] and options["prunes"]:
        raise ConfigError("flags", "--purge", "cannot be combined with --prune")
    if options["purges"] and options["preserve_resources"] and not options["cluster"]:
        raise ConfigError("flags", "--preserve-resources", "needs a virtual cluster to leave")
    if options["prunes"] and (options["preserve_resources"] or options["is_forced"]):
        raise ConfigError(
            "flags", "--prune", "cannot be combined with --preserve-resources or --force"
        )
    _, agent, namespace = shared_options.settings_and_agent(options)
    try:
        timeout_s = parse_duration_s(options["timeout"])
    except ValueError as error:
        raise ConfigError("flags", "--timeout", str(error)) from error
    return Leaving(
        options["cluster"],
        agent,
        namespace,
        options["preserve_resources"],
        timeout_s,
        is_sure=options["is_sure"],
        is_forced=options["is_forced"],
        purges=options["purges"],
        flags=_flags(options),
    )
