"""Carry a `join` out: connect, look for what is in the way, then apply or write files."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import click

from karmada_vc_agent.access.agent_nodes import off_groups
from karmada_vc_agent.access.agent_objects import HostInstall, base_objects, workload_objects
from karmada_vc_agent.access.host_roles import host_bindings, host_reasons, host_roles
from karmada_vc_agent.access.hub_objects import HubAccess, hub_objects, reasons
from karmada_vc_agent.access.manifest_text import manifest_text
from karmada_vc_agent.commands import bootstrap, join_preflight, join_steps, leave_steps
from karmada_vc_agent.commands.bootstrap import BootstrapToken
from karmada_vc_agent.commands.host_rights import (
    Approvals,
    HostRights,
    grant_on_host,
    host_rights,
    look_at_host,
)
from karmada_vc_agent.commands.output_files import make_directory, read_file, write_file
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.kubeconfig import find_credentials, read_kubeconfig, read_server
from karmada_vc_agent.lifecycle.api_servers import check_apart, check_karmada
from karmada_vc_agent.model.objects import Object

HUB, HOST = "hub", "host"
KUBECONFIG_FILE = "hub.kubeconfig"

_WORKS_WIDE = (
    "With --works-cluster-wide the agent may read the Works of every Cluster of this hub, with all "
    "that is in them, Secrets too. It writes those of its own Clusters only."
)
_GENERATOR = (
    f"A token may make no Roles: using Karmada's user {bootstrap.GENERATOR}, who may do "
    "everything, for a moment; its certificate request is deleted and its key forgotten afterwards"
)


@dataclass(frozen=True, slots=True)
class HubOptions:
    """How the hub is reached: a kubeconfig, or an endpoint and a token.

    server: its address as the agent reaches it; empty = the same.
    """

    kubeconfig: str = ""
    context: str = ""
    server: str = ""
    endpoint: str = ""
    token: BootstrapToken | None = None
    ca_hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """What to do with the manifests: one of the three."""

    applies: bool = False
    prints: bool = False
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Everything a `join` needs to know."""

    access: HubAccess
    namespace: str
    config: AgentConfig
    approvals: Approvals
    is_elsewhere: bool
    settings: str
    image: str
    hub: HubOptions | None
    kubeconfig: str
    lifetime_s: int
    sides: tuple[str, ...]
    output: Output = field(default_factory=Output)

    def install(self, kubeconfig: str) -> HostInstall:
        """Return what to install on the host."""
        applies = (vc.apply_as for vc in self.config.virtual_clusters)
        return HostInstall(
            self.access.agent,
            self.namespace,
            self.image,
            self.settings,
            kubeconfig,
            accounts=tuple((each.namespace, each.name) for each in applies if each is not None),
            off_groups=off_groups(self.config.virtual_clusters),
            is_elsewhere=self.is_elsewhere,
        )


@dataclass(frozen=True, slots=True)
class _Hub:
    """The hub and its entry in the agent's kubeconfig; is_admin: not a bootstrap token's user."""

    client: ApiClient
    cluster: Object
    is_admin: bool


async def run_join(plan: JoinPlan) -> None:
    """Do it.

    Raises KubeError, BootstrapError, CertificateError, ConfigError, PreflightError, OSError.
    """
    if plan.output.directory is not None:
        make_directory(plan.output.directory)  # before the hub signs what could not be kept
    async with AsyncExitStack() as stack:
        host = None
        if plan.kubeconfig or (plan.output.applies and HOST in plan.sides):
            credentials = find_credentials(plan.kubeconfig, in_cluster_first=True)
            host = await stack.enter_async_context(_client(HOST, credentials))
        uid = await join_steps.host_uid(host) if host is not None else ""
        plan = replace(
            plan, access=replace(plan.access, host_id=join_steps.host_id(uid) if uid else "")
        )
        hub = await stack.enter_async_context(_connect(plan.hub)) if plan.hub else None
        if plan.access.works_cluster_wide:
            _say(plan, _WORKS_WIDE)
        if plan.output.applies:
            await _apply(plan, hub, host, uid)
        else:
            await _write(plan, hub, host, uid)


async def _apply(plan: JoinPlan, hub: _Hub | None, host: ApiClient | None, uid: str) -> None:
    changes: list[str] = []
    kubeconfig = ""
    if host is not None and HOST in plan.sides:
        await join_preflight.check_rights(host, join_preflight.needs_on_host(plan.namespace))
    if hub is not None and HUB in plan.sides:
        async with _powerful(plan, hub) as administrator:
            await _check_hub(plan, hub, administrator, uid)
            changes += await join_steps.grant(administrator, plan.access)
    if host is not None and HOST in plan.sides:
        if hub is not None:
            known = await join_steps.installed_kubeconfig(host, plan.namespace)
            kubeconfig, signed = await _credential(plan, hub, known)
            changes += signed
        rights, served = await _rights(plan, host, kubeconfig)
        changes += await grant_on_host(host, rights, served)
        changes += await join_steps.install(host, rights.install)
        back = await leave_steps.forget_left(
            host, plan.namespace, plan.access.agent, plan.access.clusters
        )
        changes += [f"host: {name} is registered again when the agent starts next" for name in back]
    for change in changes:
        _say(plan, change)
    _say(plan, "Joined" if changes else "Nothing to change")
    if host is not None and HOST in plan.sides and not plan.settings:
        _say(plan, f"Still to make: ConfigMap {plan.namespace}/{plan.access.agent} with agent.yaml")


async def _rights(
    plan: JoinPlan, host: ApiClient, kubeconfig: str
) -> tuple[HostRights, ServedApis]:
    served, known = await look_at_host(host, plan.access.agent)
    install, clusters = plan.install(kubeconfig), plan.access.clusters
    return host_rights(install, plan.config, clusters, served, plan.approvals, known), served


async def _check_hub(plan: JoinPlan, hub: _Hub, administrator: ApiClient, uid: str) -> None:
    needs = join_preflight.needs_on_hub(plan.access)
    if hub.is_admin and HOST in plan.sides:
        needs += join_preflight.needs_for_certificate()
    await join_preflight.check_rights(administrator, needs)
    await check_karmada(administrator)
    await check_apart(administrator, uid)
    await join_preflight.check_names(administrator, plan.access, plan.namespace, uid)


async def _write(plan: JoinPlan, hub: _Hub | None, host: ApiClient | None, uid: str) -> None:
    folder = plan.output.directory
    kubeconfig = ""
    if hub is not None:
        if hub.is_admin:  # the user of a bootstrap token may read nothing of this
            await check_karmada(hub.client)
            await check_apart(hub.client, uid)
            await join_preflight.check_rights(hub.client, join_preflight.needs_for_certificate())
            await join_preflight.check_names(hub.client, plan.access, plan.namespace, uid)
        path = folder / KUBECONFIG_FILE if folder else None
        known = read_file(path) if path else ""
        if host is not None and not known:
            known = await join_steps.installed_kubeconfig(host, plan.namespace)
        kubeconfig, signed = await _credential(plan, hub, known)
        for change in signed:
            _say(plan, change)
    texts = {f"{side}.yaml": await _text(plan, side, kubeconfig, host) for side in plan.sides}
    if folder is None:
        click.echo("---\n".join(texts.values()), nl=False)
        return
    if kubeconfig:
        texts[KUBECONFIG_FILE] = kubeconfig
    for name, text in texts.items():
        if write_file(folder / name, text):
            _say(plan, f"wrote {folder / name}")


async def _text(plan: JoinPlan, side: str, kubeconfig: str, host: ApiClient | None) -> str:
    if side == HUB:
        clusters = ", ".join(plan.access.clusters)
        head = (
            f"For the hub: the rights of agent {plan.access.agent} there, for {clusters}.\n"
            f"They belong to user {plan.access.user}, whom a client certificate names;\n"
            "karmada-vc-agent join has one signed."
        )
        return manifest_text(hub_objects(plan.access), reasons(plan.access), head)
    head = (
        "For the host: account, rights and admission policies of the agent, and the agent itself."
    )
    if host is None:
        head += "\nMade for a plain Kubernetes 1.34: with --kubeconfig join asks the host itself."
    if not kubeconfig:
        head += f"\nStill needed: Secret karmada-kubeconfig in {plan.namespace}, the agent's way"
        head += " to the hub."
    if not plan.settings:
        head += (
            f"\nStill needed: ConfigMap {plan.access.agent} in {plan.namespace} with agent.yaml."
        )
    if host is not None:
        rights, _ = await _rights(plan, host, kubeconfig)
    else:
        names = plan.access.clusters
        rights = host_rights(plan.install(kubeconfig), plan.config, names, None, plan.approvals)
    parts = (
        base_objects(rights.install),
        host_roles(rights.access),
        rights.policies(),
        host_bindings(rights.access),
        workload_objects(rights.install),
    )
    return manifest_text(chain.from_iterable(parts), host_reasons(rights.access), head)


async def _credential(plan: JoinPlan, hub: _Hub, known: str) -> tuple[str, list[str]]:
    return await join_steps.credential(
        hub.client,
        plan.access,
        hub.cluster,
        known,
        lifetime_s=plan.lifetime_s,
        approves=hub.is_admin,
    )


@asynccontextmanager
async def _connect(options: HubOptions) -> AsyncIterator[_Hub]:
    if options.token is None:
        path = Path(options.kubeconfig)
        credentials = read_kubeconfig(path, options.context)
        cluster = read_server(path, options.context)
    else:
        cluster = await bootstrap.discover(options.endpoint, options.token, options.ca_hashes)
        credentials = bootstrap.token_credentials(cluster, options.token)
    if options.server:
        cluster = {**cluster, "server": options.server}
    async with _client(HUB, credentials) as client:
        yield _Hub(client, cluster, is_admin=options.token is None)


@asynccontextmanager
async def _powerful(plan: JoinPlan, hub: _Hub) -> AsyncIterator[ApiClient]:
    """Lend a client that may make Roles: the administrator's own, or that of the generator."""
    if hub.is_admin:
        yield hub.client
        return
    _say(plan, _GENERATOR)
    server = {**hub.cluster, "server": hub.client.credentials.server}
    async with bootstrap.rbac_generator(hub.client, server) as generator:
        yield generator


def _client(name: str, credentials: Credentials) -> ApiClient:
    return ApiClient(name, credentials, connections=8, user_agent="karmada-vc-agent-join")


def _say(plan: JoinPlan, text: str) -> None:
    click.echo(text, err=plan.output.prints)
