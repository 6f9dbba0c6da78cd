"""Gives an agent the rights that `karmada-vc-agent join` gives, and kubeconfigs with no more."""

import asyncio
import base64
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from e2e.lab.api import Api, collection
from karmada_vc_agent.access.agent_objects import HostInstall
from karmada_vc_agent.access.rights import HubAccess
from karmada_vc_agent.config.loading import with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import HUB_ROLES
from karmada_vc_agent.install import join_hub
from karmada_vc_agent.install.apply_objects import Changes
from karmada_vc_agent.install.host_rights import (
    described_on_host,
    grant_on_host,
    host_rights,
    read_host,
)
from karmada_vc_agent.install.join_hub import is_valid_for, kubeconfig_text, request_certificate
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig, read_server

LIFETIME_S = 3600
SHORTEST_LIFETIME_S = 600
"""The API server signs nothing shorter."""
APPROVED = ("{}.example.com", "{}-o.differential.example")
"""API groups whose kinds come after `join`: those of stories, and of the comparison."""
HUB_FILE, HOST_FILE = "agent-hub.kubeconfig", "agent-host.kubeconfig"


@dataclass(frozen=True)
class Kubeconfigs:
    """Kubeconfigs of hub and host."""

    hub: Path
    host: Path


def join(
    administrator: Kubeconfigs,
    reached: Kubeconfigs,
    directory: Path,
    config: AgentConfig,
    names: tuple[str, ...] = (),
    *,
    works_cluster_wide: bool = False,
    lifetime_s: int = LIFETIME_S,
    keeps_certificate: bool = True,
) -> Kubeconfigs:
    """Grant, have a certificate signed, and return kubeconfigs of the agent.

    reached: whose addresses the agent is to use. config: its settings. names: of virtual clusters
    that are not in them. lifetime_s: of the certificate. keeps_certificate: whether one that
    is still good is used again.
    """
    name, namespace = config.agent_name, config.agent_namespace
    config = with_profile_defaults(config, namespace)
    clusters = (*(vc.name for vc in config.virtual_clusters), *names)
    access = HubAccess(name, clusters, works_cluster_wide=works_cluster_wide)
    any_name = config.objects.any_name
    access = replace(access, objects=config.removes_clusters, any_name=any_name)
    access = replace(access, gateway=config.gateway.enabled, of_features=HUB_ROLES)
    hub_file, host_file = directory / HUB_FILE, directory / HOST_FILE
    known = hub_file.read_text() if keeps_certificate and hub_file.exists() else ""

    async def give() -> tuple[str, str]:
        hub = ApiClient("hub", read_kubeconfig(administrator.hub))
        host = ApiClient("host", read_kubeconfig(administrator.host))
        try:
            await join_hub.grant_on_hub(hub, access, Changes())
            text, server = known, read_server(reached.hub)
            if not is_valid_for(known, server, access.user):
                user, _ = await request_certificate(
                    hub, access.user, name, lifetime_s, approves=True
                )
                text = kubeconfig_text(server, name, user)
            served, known_owner = await read_host(host, name)
            install = HostInstall(name, namespace, image="")
            described = await described_on_host(host, config)
            groups = tuple(group.format(name) for group in APPROVED)
            rights = host_rights(
                install, config, clusters, served, known_owner, described, api_groups=groups
            )
            await grant_on_host(host, rights, served, Changes())
            token = await _account_token(host, namespace, name)
        finally:
            await hub.close()
            await host.close()
        return text, token

    hub_text, token = asyncio.run(give())
    hub_file.write_text(hub_text)
    host_file.write_text(_with_token(read_server(reached.host), token))
    return Kubeconfigs(hub_file, host_file)


def installed_kubeconfig(host: Api, namespace: str, file: Path) -> Path:
    """Write the hub's kubeconfig that `join` installed in the namespace of an agent."""
    secret = host.get(f"{collection('v1', 'Secret', namespace)}/karmada-kubeconfig")
    file.write_bytes(base64.b64decode(secret["data"]["karmada-kubeconfig"]))
    return file


def account_kubeconfig(host: Path, namespace: str, name: str, file: Path) -> Path:
    """Write a kubeconfig with a token of an account. host: kubeconfig of an administrator."""

    async def ask() -> str:
        client = ApiClient("host", read_kubeconfig(host))
        try:
            return await _account_token(client, namespace, name)
        finally:
            await client.close()

    file.write_text(_with_token(read_server(host), asyncio.run(ask())))
    return file


async def _account_token(host: ApiClient, namespace: str, name: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 6 * LIFETIME_S},  # benches are long
    }
    return str((await host.create(path, review))["status"]["token"])


def _with_token(cluster: dict[str, object], token: str) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "host", "cluster": cluster}],
        "users": [{"name": "agent", "user": {"token": token}}],
        "contexts": [{"name": "agent", "context": {"cluster": "host", "user": "agent"}}],
        "current-context": "agent",
    }
    return yaml.safe_dump(content)
