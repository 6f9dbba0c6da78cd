"""`karmada-vc-agent confirm-deletions`: decide on the deletions that an agent holds (ADR 76)."""

import asyncio
import sys
from typing import Any

import click

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.config.checks import cluster_name_problem
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.features.deletion_brake import feature
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.kubeconfig import find_credentials
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import decode_as
from karmada_vc_agent.model.user_text import listed

_SHOWN = 10
_EPILOG = """\b
Examples:
  # show what is held, and delete it after a question
  karmada-vc-agent confirm-deletions branch-a --config agent.yaml --kubeconfig host.kubeconfig
\b
  # it was a mistake, and what was deleted is on the hub again: keep everything on the host
  karmada-vc-agent confirm-deletions branch-a --keep --yes
"""


@click.command(
    "confirm-deletions", epilog=_EPILOG, short_help="Decide on the deletions that an agent holds."
)
@click.argument("name")
@shared.options("agent_config")
@shared.options("agent_name")
@shared.options("agent_namespace")
@shared.options("kubeconfig")
@click.option(
    "--keep",
    "keeps",
    is_flag=True,
    help="Let the hub delete the Works, and keep their objects on the host; Works that are created "
    "again take them over.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Skip the confirmation.")
def confirm_deletions(**options: Any) -> None:
    """Show the deletions of one virtual cluster that its agent holds, and carry them out.

    The agent holds them since the hub deletes so much at once (condition DeletionsHeld). Only what
    is shown is confirmed: if the hub deletes more meanwhile, run the command again.
    """
    with one_line_errors():
        name: str = options["name"]
        if problem := cluster_name_problem(name):
            raise ConfigError("flags", "NAME", problem)
        _, agent, namespace = shared.settings_and_agent(options)
        host = find_credentials(options["kubeconfig"], in_cluster_first=True)
        keeps, is_sure = options["keeps"], options["is_sure"]
        asyncio.run(_decide(host, namespace, agent, name, keeps=keeps, is_sure=is_sure))


async def _decide(
    host: Credentials, namespace: str, agent: str, name: str, *, keeps: bool, is_sure: bool
) -> None:
    """Show what is held, and annotate the agent's state. Raises CommandError, KubeError."""
    async with ApiClient("host", host, user_agent="karmada-vc-agent-confirm") as client:
        state = AgentState(client, namespace, agent)
        try:
            await state.look()
        except NotFoundError as error:
            text = f"no agent {agent} has its state in namespace {namespace}: give --agent-name and"
            raise CommandError(f"{text} --agent-namespace") from error
        record = decode_as(feature.Record, state.value(feature.RECORD_PREFIX + name))
        if record is None:
            click.echo(f"{name}: no deletion is held")
            return
        click.echo(
            f"{name}: the hub deletes {record.objects + record.removed} of {record.total} objects; "
            f"{record.removed} are deleted, {record.objects} are held"
        )
        if record.works:  # with thousands of virtual clusters the record has no space for names
            click.echo(f"  Works: {listed(record.works, _SHOWN, record.count)}")
        fate = "Keep" if keeps else "Delete"
        if not is_sure and not sys.stdin.isatty():
            raise CommandError(
                "no terminal to ask for confirmation; use --yes. Nothing was changed"
            )
        if not is_sure and not click.confirm(f"{fate} {record.objects} objects on the host?"):
            raise CommandError("nothing was changed")
        value = f"{feature.KEEP if keeps else ''}{record.digest}"
        await state.annotate(feature.CONFIRM_PREFIX + name, value)
        click.echo(f"{name}: confirmed; the agent follows within seconds")
