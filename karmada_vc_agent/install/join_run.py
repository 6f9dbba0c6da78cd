"""Run `join`: check hub and host, then apply, print or write the manifests."""

import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

import click

from karmada_vc_agent.access.admission import served_versions
from karmada_vc_agent.access.agent_objects import base_objects, workload_objects
from karmada_vc_agent.access.host_roles import host_bindings, host_reasons, host_roles
from karmada_vc_agent.access.hub_objects import hub_objects, hub_reasons
from karmada_vc_agent.access.policy_owner import VALIDATING
from karmada_vc_agent.cluster.hub_clusters import host_id
from karmada_vc_agent.commands.shared import CommandError
from karmada_vc_agent.install import join_hub, leave_steps
from karmada_vc_agent.install.apply_objects import IMAGE_FIELDS, Changes, apply_all, manifest_text
from karmada_vc_agent.install.grants import grant_on_host, read_host
from karmada_vc_agent.install.host_rights import HostRights, described_on_host
from karmada_vc_agent.install.join_hub import HOST, HUB, Hub, JoinPlan
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.kubeconfig import find_credentials

_PRIVATE = 0o600
"""host.yaml and hub.kubeconfig hold the agent's private key."""


def write_file(path: Path, text: str) -> bool:
    """Write a file if its content differs; return whether it did. Raises CommandError."""
    with _explained(path):
        if path.exists() and path.read_text(errors="replace") == text:
            path.chmod(_PRIVATE)
            return False
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, _PRIVATE)
        with os.fdopen(descriptor, "w") as stream:
            # Before the content: an existing file may be readable by others.
            os.fchmod(descriptor, _PRIVATE)
            stream.truncate(0)
            stream.write(text)
    return True


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Return the path, what is wrong with it, and what to do."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        problem = f"{where}: {error.strerror or error}"
        advice = "choose an --output-dir that you may write to"
        raise CommandError(f"{problem}; {advice}") from error


KUBECONFIG_FILE = "hub.kubeconfig"


async def write_manifests(
    plan: JoinPlan, hub: Hub | None, host: ApiClient | None, uid: str
) -> None:
    """Print the manifests, or write them to files. Raises KubeError, CommandError, OSError."""
    if hub is not None and hub.is_admin:  # a bootstrap token's user cannot read any of this
        await join_hub.check_hub(plan, hub.client, uid)
        role = await join_hub.hub_role(hub.client, plan.access.agent)
        plan = replace(plan, access=join_hub.with_host_of(role, plan.access))
    folder, kubeconfig = plan.directory, ""
    if hub is not None and folder is not None:  # nothing is signed to be printed
        kubeconfig = await _kubeconfig(plan, folder, hub, host)
    texts = {f"{side}.yaml": await _text(plan, side, kubeconfig, host) for side in plan.sides}
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


async def _kubeconfig(plan: JoinPlan, folder: Path, hub: Hub, host: ApiClient | None) -> str:
    """Return the agent's kubeconfig: the one in the folder or on the host while it is good."""
    installed = ""
    if (path := folder / KUBECONFIG_FILE).exists():
        with _explained(path):
            installed = path.read_text(errors="replace")
    if host is not None and not installed:
        installed = await join_hub.installed_kubeconfig(host, plan.namespace)
    return await join_hub.agent_kubeconfig(plan, hub, installed, Changes(plan.say))


async def _text(plan: JoinPlan, side: str, kubeconfig: str, host: ApiClient | None) -> str:
    if side == HUB:
        clusters = ", ".join(plan.access.clusters)
        head = (
            f"For the hub: the rights of agent {plan.access.agent} there, for {clusters}.\nThey "
            f"are granted to user {plan.access.user}, whom a client certificate "
            "names;\nkarmada-vc-agent join has that certificate signed."
        )
        return manifest_text(hub_objects(plan.access), hub_reasons(plan.access), head)
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


_WORKS_WIDE = (
    "With --works-cluster-wide the agent can read the Works of every Cluster of this hub, "
    "including the Secrets in them. It writes only those of its own Clusters."
)
_UNCONFINED = (
    "host: it serves no ValidatingAdmissionPolicy, so nothing would confine the agent and its "
    "tenants; use Kubernetes 1.30 or newer, or --unconfined to do without"
)


async def run_join(plan: JoinPlan) -> None:
    """Join as planned. Raises KubeError, CommandError, ConfigError, OSError."""
    if plan.directory is not None:
        with _explained(plan.directory):  # before the hub signs what could not be stored
            plan.directory.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        host = None
        if plan.kubeconfig or (plan.applies and HOST in plan.sides):
            credentials = find_credentials(plan.kubeconfig, in_cluster_first=True)
            host = await stack.enter_async_context(join_hub.new_client(HOST, credentials))
        uid = await join_hub.host_uid(host) if host is not None else ""
        plan = replace(plan, access=replace(plan.access, host_id=host_id(uid) if uid else ""))
        hub = None
        if plan.karmada_kubeconfig or plan.token:
            hub = await stack.enter_async_context(join_hub.connect(plan))
            join_hub.warn_of_loopback(plan, hub)
        if plan.access.works_cluster_wide:
            plan.say(_WORKS_WIDE)
        if plan.applies:
            await _apply(plan, hub, host if HOST in plan.sides else None, uid)
        else:
            await write_manifests(plan, hub, host, uid)


async def _apply(plan: JoinPlan, hub: Hub | None, host: ApiClient | None, uid: str) -> None:
    """Check both sides, then write. host: None = that side is left alone."""
    changes = Changes(plan.say, is_dry=plan.is_dry)
    checked = await _check_host(plan, host) if host is not None else None
    if hub is not None and HUB in plan.sides:
        async with join_hub.administrator_of(plan, hub) as administrator:
            await join_hub.check_hub(plan, administrator, uid)
            await join_hub.grant_on_hub(administrator, plan.access, changes)
    if host is not None and checked is not None:
        await _install(plan, hub, host, *checked, changes)
    if changes.is_dry:
        plan.say("Nothing was changed (--dry-run)" if changes.count else "Nothing to change")
        return
    plan.say("Joined" if changes.count else "Nothing to change")
    if host is not None and not plan.settings:
        plan.say(f"Still to create: ConfigMap {plan.namespace}/{plan.access.agent} with agent.yaml")


async def _check_host(plan: JoinPlan, host: ApiClient) -> tuple[HostRights, ServedApis]:
    """Do the preflight checks on the host; return what it is to have, and what it serves.

    Raises CommandError, KubeError.
    """
    rights, served = await rights_for(plan, host)
    is_served = VALIDATING in served_versions(served)
    if plan.config.install_policies and not is_served and not plan.unconfined:
        raise CommandError(_UNCONFINED)
    return rights, served


async def _install(
    plan: JoinPlan,
    hub: Hub | None,
    host: ApiClient,
    rights: HostRights,
    served: ServedApis,
    changes: Changes,
) -> None:
    """Grant the rights on the host, then create or change what runs and what that mounts."""
    install = rights.install
    if hub is not None:
        installed = await join_hub.installed_kubeconfig(host, plan.namespace)
        kubeconfig = await join_hub.agent_kubeconfig(plan, hub, installed, changes)
        install = replace(install, kubeconfig=kubeconfig)
    await grant_on_host(host, rights, served, changes)
    forced = IMAGE_FIELDS if plan.sets_image else ()
    await apply_all(host, workload_objects(install), changes, forced)
    if changes.is_dry:
        return
    agent, clusters = plan.access.agent, plan.access.clusters
    for name in await leave_steps.forget_left(host, plan.namespace, agent, clusters):
        changes.report(f"host: the agent registers {name} again at its next start")
