"""Print the manifests of `join`, or write them to files."""

from dataclasses import replace
from itertools import chain

import click

from karmada_vc_agent.access.agent_objects import base_objects, workload_objects
from karmada_vc_agent.access.host_roles import host_bindings, host_reasons, host_roles
from karmada_vc_agent.access.hub_objects import hub_objects, reasons
from karmada_vc_agent.install import join_hub, join_preflight, join_steps
from karmada_vc_agent.install.agent_certificate import is_valid_for
from karmada_vc_agent.install.changes import Changes
from karmada_vc_agent.install.described import described_on_host
from karmada_vc_agent.install.host_grants import read_host
from karmada_vc_agent.install.host_rights import HostRights
from karmada_vc_agent.install.join_hub import Hub
from karmada_vc_agent.install.join_plan import HUB, JoinPlan
from karmada_vc_agent.install.manifest_text import manifest_text
from karmada_vc_agent.install.output_files import read_file, write_file
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import ServedApis

KUBECONFIG_FILE = "hub.kubeconfig"


async def write(plan: JoinPlan, hub: Hub | None, host: ApiClient | None, uid: str) -> None:
    """Print the manifests, or write them to files. Raises KubeError, CommandError, OSError."""
    if hub is not None and hub.is_admin:  # a bootstrap token's user cannot read any of this
        needs = join_preflight.needs_for_certificate() if plan.directory else ()
        await join_hub.check(plan, hub.client, uid, needs)
        plan = replace(plan, access=await join_steps.with_recorded_host(hub.client, plan.access))
    kubeconfig = await _kubeconfig(plan, hub, host) if hub is not None else ""
    texts = {f"{side}.yaml": await _text(plan, side, kubeconfig, host) for side in plan.sides}
    folder = plan.directory
    if folder is None:
        click.echo("---\n".join(texts.values()), nl=False)
        return
    if kubeconfig:
        texts[KUBECONFIG_FILE] = kubeconfig
    for name, text in texts.items():
        if write_file(folder / name, text):
            plan.say(f"wrote {folder / name}")


async def rights_for(plan: JoinPlan, host: ApiClient) -> tuple[HostRights, ServedApis]:
    """Return what is to exist on this host, and what it serves. Raises KubeError."""
    served, installed = await read_host(host, plan.access.agent)
    described = await described_on_host(host, plan.config)
    return plan.rights(served, installed, described), served


async def _kubeconfig(plan: JoinPlan, hub: Hub, host: ApiClient | None) -> str:
    """Return the agent's kubeconfig; what is only printed has the hub sign nothing."""
    folder = plan.directory
    installed = read_file(folder / KUBECONFIG_FILE) if folder else ""
    if host is not None and not installed:
        installed = await join_steps.installed_kubeconfig(host, plan.namespace)
    if folder is None:
        return installed if is_valid_for(installed, hub.cluster, plan.access.user) else ""
    return await join_hub.credential(plan, hub, installed, Changes(plan.say))


async def _text(plan: JoinPlan, side: str, kubeconfig: str, host: ApiClient | None) -> str:
    if side == HUB:
        clusters = ", ".join(plan.access.clusters)
        head = (
            f"For the hub: the rights of agent {plan.access.agent} there, for {clusters}.\nThey "
            f"are granted to user {plan.access.user}, whom a client certificate "
            "names;\nkarmada-vc-agent join has that certificate signed."
        )
        return manifest_text(hub_objects(plan.access), reasons(plan.access), head)
    rights = (await rights_for(plan, host))[0] if host is not None else plan.rights()
    parts = (
        rights.definitions,
        base_objects(rights.install),
        host_roles(rights.access),
        rights.policies,
        host_bindings(rights.access),
        workload_objects(replace(rights.install, kubeconfig=kubeconfig)),
    )
    head = _host_head(plan, kubeconfig, is_host_read=host is not None)
    return manifest_text(chain.from_iterable(parts), host_reasons(rights.access), head)


def _host_head(plan: JoinPlan, kubeconfig: str, *, is_host_read: bool) -> str:
    lines = [
        "For the host: account, rights and admission policies of the agent, and the agent itself."
    ]
    if not is_host_read:
        lines.append(
            "Made for Kubernetes 1.34; with --kubeconfig, join reads what the host serves."
        )
    if not is_host_read and plan.config.has_open_names:
        lines.append("Has no names of an earlier join; with --kubeconfig, join keeps them.")
    if not kubeconfig:
        what = f"Secret karmada-kubeconfig in {plan.namespace}, the agent's kubeconfig for the hub"
        lines.append(f"Still needed: {what}; --apply and --output-dir have it signed.")
    if not plan.settings:
        what = f"ConfigMap {plan.access.agent} in {plan.namespace} with agent.yaml"
        lines.append(f"Still needed: {what}.")
    return "\n".join(lines)
