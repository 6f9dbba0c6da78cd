"""`karmada-vc-agent confirm-deletions`: decide on the deletions that an agent holds (ADR 76)."""

import asyncio
from collections.abc import Mapping
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
from karmada_vc_agent.model.user_text import SHOWN, listed

_EPILOG = """\b
Examples:
  # show what is held, and delete it after a question
  karmada-vc-agent confirm-deletions branch-a --config agent.yaml --kubeconfig host.kubeconfig
\b
  # it was a mistake, and what was deleted is on the hub again: keep everything on the host
  karmada-vc-agent confirm-deletions --all --keep --yes
"""


@click.command(
    "confirm-deletions", epilog=_EPILOG, short_help="Decide on the deletions that an agent holds."
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "is_all", is_flag=True, help="Decide on all virtual clusters of the agent.")
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
    """Show the deletions that an agent holds, and carry them out.

    The agent holds them since the hub deletes so much of a virtual cluster at once (condition
    DeletionsHeld). Only what is shown is confirmed: if the hub deletes more meanwhile, run the
    command again.
    """
    with one_line_errors():
        names, is_all = options["names"], options["is_all"]
        if problem := next(filter(None, map(cluster_name_problem, names)), None):
            raise ConfigError("flags", "NAME", problem)
        if bool(names) == is_all:
            raise ConfigError("flags", "NAME", "give names of virtual clusters, or --all")
        _, agent, namespace = shared.settings_and_agent(options)
        host = find_credentials(options["kubeconfig"], in_cluster_first=True)
        asyncio.run(_decide(host, namespace, agent, options))


async def _decide(host: Credentials, namespace: str, agent: str, flags: Mapping[str, Any]) -> None:
    """Show what is held, and annotate the agent's state. Raises CommandError, KubeError."""
    async with ApiClient("host", host, user_agent="karmada-vc-agent-confirm") as client:
        state = AgentState(client, namespace, agent)
        try:
            await state.look()
        except NotFoundError as error:
            text = f"no agent {agent} has its state in namespace {namespace}: give --agent-name and"
            raise CommandError(f"{text} --agent-namespace") from error
        names = flags["names"] or sorted(state.values(feature.RECORD_PREFIX))
        texts = {name: state.value(feature.RECORD_PREFIX + name) for name in names}
        records = {n: each for n in names if (each := decode_as(feature.Record, texts[n]))}
        for name in names:
            click.echo(f"{name}: {feature.text_of(records.get(name), SHOWN)}")
        if not names:
            click.echo(feature.text_of(None))
        if not records:
            return
        fate, value = ("Keep", feature.KEEP) if flags["keeps"] else ("Delete", "")
        objects, shown = sum(each.objects for each in records.values()), listed(list(records))
        question = f"{fate} {objects} objects of {shown} on the host?"
        shared.confirm(question, is_sure=flags["is_sure"])
        confirmed = {feature.CONFIRM_PREFIX + n: value + each.digest for n, each in records.items()}
        await state.annotate(confirmed)
        click.echo(f"{shown}: confirmed; the agent follows, one virtual cluster after the other")
