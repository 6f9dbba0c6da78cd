"""`karmada-vc-agent explain`: what became of one Work or object, and why."""

import asyncio
from typing import Any

import click

from karmada_vc_agent.commands import shared_options
from karmada_vc_agent.commands.command_errors import one_line_errors
from karmada_vc_agent.commands.explain_facts import (
    ExplainTarget,
    Explanation,
    target_of,
)
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.connections import Timeouts
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.kubeconfig import find_credentials
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.texts import one_line

_PATIENCE = Timeouts(request_s=10.0)
_EPILOG = """\b
Examples:
  # a Work of virtual cluster branch-a
  karmada-vc-agent explain branch-a/web-7c9d --config agent.yaml
\b
  # an object, by its name on the hub
  karmada-vc-agent explain branch-a/deployment/edge/web --config agent.yaml -o json
"""


@click.command("explain", epilog=_EPILOG, short_help="Show what became of a Work or an object.")
@click.argument("what", metavar="CLUSTER/WORK|CLUSTER/KIND/NAMESPACE/NAME")
@click.option(
    "--config",
    "config_path",
    type=shared_options.FilePath(),
    help="Settings file of the agent, for its kubeconfigs.",
)
@click.option(
    "--karmada-kubeconfig", default="", help="Kubeconfig of the hub. Default: as for run."
)
@shared_options.karmada_context
@shared_options.agent_name
@shared_options.agent_namespace
@click.option("--kubeconfig", default="", help="Kubeconfig of the host. Default: as for run.")
@shared_options.form("text")
def explain(what: str, form: str, **options: Any) -> None:
    """Show what hub and host have of one Work, or of one object by its name on the hub.

    That is the conditions of Work and Cluster, when the hub's picture was made, where the object
    is on the host, and whether an administrator holds its namespace. While the hub is away it
    shows what the host alone has.
    """
    with one_line_errors():
        target = target_of(what)
        config, _, _ = shared_options.settings_and_agent(options)
        hub = find_credentials(
            options["karmada_kubeconfig"] or (config.karmada_kubeconfig if config else ""),
            options["karmada_context"] or (config.karmada_context if config else ""),
            flag="--karmada-kubeconfig",
        )
        path = options["kubeconfig"] or (config.kubeconfig if config else "")
        host = find_credentials(path, in_cluster_first=True)
        click.echo(written(asyncio.run(_explained(hub, host, target)), form))


async def _explained(hub: Credentials, host: Credentials, target: ExplainTarget) -> Explanation:
    async with (
        ApiClient("hub", hub, timeouts=_PATIENCE) as hub_client,
        ApiClient("host", host, timeouts=_PATIENCE) as host_client,
    ):
        explanation = Explanation(hub_client, host_client, target)
        await explanation.gather()
        return explanation


def written(explanation: Explanation, form: str) -> str:
    """Return it as text, JSON or YAML."""
    if form == "text":
        return "\n".join(map(_harmless, _lines(explanation)))
    return shared_options.written(explanation.plain(), form)


def _harmless(line: str) -> str:
    """Return a line of what others wrote so that it moves no cursor."""
    text = line.lstrip(" ")
    return " " * (len(line) - len(text)) + one_line(text)


def _lines(explanation: Explanation) -> list[str]:
    plain, target = explanation.plain(), explanation.target
    lines = [f"{target.text} of virtual cluster {target.cluster}"]
    if explanation.problem:
        lines.append(f"  hub not reached, so this is what the host has: {explanation.problem}")
    elif not plain["works"]:
        lines.append("  no Work on the hub")
    for work in plain["works"]:
        at = f", status written {work['statusWritten']}" if work["statusWritten"] else ""
        lines.append(f"  Work {work['name']}, generation {work['generation']}{at}")
        lines += _conditions(work["conditions"])
    for each in plain["objects"]:
        name = "/".join(part for part in (each["namespace"], each["name"]) if part)
        place = f": {each['host']}" if each["host"] else ""
        held = f"; held by an administrator: {each['held']}" if each["held"] else ""
        lines.append(f"  {each['kind']} {name}: {each['state']}{place}{held}")
    cluster = plain["cluster"]
    if cluster["conditions"]:
        at = f", as of {cluster['observedAt']}" if cluster["observedAt"] else ""
        lines.append(f"  Cluster{at}")
        shown = ("Ready", "TakesChanges", "NamespacesHeld")
        lines += _conditions([c for c in cluster["conditions"] if c.get("type") in shown])
    return lines


def _conditions(conditions: list[Object]) -> list[str]:
    return [
        f"    {c.get('type')}={c.get('status')} {c.get('reason', '')}: {c.get('message', '')}"
        for c in conditions
    ]
