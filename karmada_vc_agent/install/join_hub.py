"""The hub as `join` reaches it: as an administrator, or with a bootstrap token."""

import ipaddress
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from karmada_vc_agent.install import bootstrap, join_preflight
from karmada_vc_agent.install.agent_certificate import (
    is_valid_for,
    kubeconfig_text,
    request_certificate,
)
from karmada_vc_agent.install.apply_objects import MANAGER
from karmada_vc_agent.install.changes import Changes
from karmada_vc_agent.install.join_plan import HOST, HUB, HubOptions, JoinPlan
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig, read_server, server_credentials
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner.api_servers import check_apart, check_karmada

_GENERATOR = (
    f"A token cannot create Roles: using Karmada's user {bootstrap.GENERATOR}, which has "
    "administrator rights, for a moment; its certificate request is deleted and its key "
    "discarded afterwards"
)


@dataclass(frozen=True, slots=True)
class Hub:
    """The hub and its entry in the agent's kubeconfig; is_admin: not a bootstrap token's user."""

    client: ApiClient
    cluster: Object
    is_admin: bool


@asynccontextmanager
async def connect(options: HubOptions) -> AsyncIterator[Hub]:
    """Connect to the hub. Raises KubeconfigError, CommandError, KubeError."""
    if options.token is None:
        path = Path(options.kubeconfig)
        credentials = read_kubeconfig(path, options.context)
        cluster = read_server(path, options.context)
    else:
        cluster = await bootstrap.discover(options.endpoint, options.token, options.ca_hashes)
        credentials = server_credentials(
            cluster, {"token": str(options.token)}, str(cluster["server"])
        )
    if options.server:
        cluster = {**cluster, "server": options.server}
    async with new_client(HUB, credentials) as client:
        yield Hub(client, cluster, is_admin=options.token is None)


@asynccontextmanager
async def powerful(plan: JoinPlan, hub: Hub) -> AsyncIterator[ApiClient]:
    """Lend a client that can create Roles: the administrator's own, or that of the generator."""
    if hub.is_admin:
        yield hub.client
        return
    plan.say(_GENERATOR)
    server = {**hub.cluster, "server": hub.client.credentials.server}
    async with bootstrap.rbac_generator(hub.client, server) as generator:
        yield generator


async def check(
    plan: JoinPlan, administrator: ApiClient, uid: str, needs: Iterable[Need] = ()
) -> None:
    """Do the preflight checks on the hub; uid: of the host. Raises CommandError, KubeError."""
    await join_preflight.check_rights(administrator, needs)
    await check_karmada(administrator)
    await check_apart(administrator, uid)
    await join_preflight.check_names(administrator, plan.access, plan.namespace, uid)


async def credential(plan: JoinPlan, hub: Hub, installed: str, changes: Changes) -> str:
    """Return the agent's kubeconfig: `installed` while it is good, else one that the hub signs.

    A dry run signs nothing and returns `installed`. Raises KubeError, CommandError.
    """
    access = plan.access
    if is_valid_for(installed, hub.cluster, access.user):
        return installed
    changes.report(f"hub: sign a client certificate for {access.user}")
    if changes.is_dry:
        return installed
    certificate = await request_certificate(
        hub.client, access.user, access.agent, plan.lifetime_s, approves=hub.is_admin
    )
    return kubeconfig_text(hub.cluster, access.agent, certificate)


def warn_of_loopback(plan: JoinPlan, hub: Hub) -> None:
    """Warn of an address of the hub that leads nowhere from a Pod."""
    server = str(hub.cluster.get("server", ""))
    if HOST in plan.sides and not plan.is_elsewhere and _is_loopback(urlsplit(server).hostname):
        text = (
            f"Warning: inside a Pod {server} is the Pod itself, not the hub; give the hub's "
            "address with --karmada-server"
        )
        click.echo(text, err=True)


def new_client(name: str, credentials: Credentials) -> ApiClient:
    """Return a client of hub or host; its name is the manager of the fields that it writes."""
    return ApiClient(name, credentials, connections=8, user_agent=MANAGER)


def _is_loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"
