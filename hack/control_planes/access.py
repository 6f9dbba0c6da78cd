"""What reaches member clusters from the hub: search, metrics, and stock apiserver-network-proxy.

The proxy's server is next to Karmada, as docs/gateway.md says, and each host has an agent of it
that connects to the server by mutual TLS. The server picks the agent by the host in the CONNECT,
so each host has addresses of its own.
"""

import asyncio
import json
from pathlib import Path

from control_planes import component, karmada_objects
from control_planes.api import ApiServer
from control_planes.cluster import Cluster
from control_planes.component import (
    ADMIN_PORT,
    HEALTH_PORT,
    LOOPBACK,
    PEER_PORT,
    PLAIN_HEALTH_APART,
    PORT,
    TLS_HEALTH,
    Component,
)
from control_planes.directory import ACCESS_FILE
from control_planes.launch import Launcher
from control_planes.pki import ClusterPki, write_private

SEARCH, METRICS = "karmada-search", "karmada-metrics-adapter"
AGGREGATED = (SEARCH, METRICS)
PROXY_SERVER = "proxy-server"


def components(pki: ClusterPki, etcd_port: int) -> dict[str, Component]:
    """Describe what runs beside Karmada, by name."""
    # It is live once it is registered, for it lists its own kinds through the hub.
    search = component.aggregated(SEARCH, pki, etcd_port, "version")
    return {one.name: one for one in (search, metrics_adapter(pki), proxy_server(pki))}


def metrics_adapter(pki: ClusterPki) -> Component:
    return Component(
        METRICS,
        METRICS,
        (
            *component.client_of_api_server(pki, METRICS),
            f"--client-ca-file={pki.ca}",
            *component.serving(pki),
            f"--metrics-bind-address={LOOPBACK}:{PEER_PORT}",
        ),
        f"{TLS_HEALTH}/healthz",
        str(pki.ca),
        # Where a Cluster changes while its informers wait for a gateway that is gone: its worker
        # takes an informer manager for there that was stopped (handleClusters, v1.18.2). While it
        # is away the hub deletes no namespace, for its groups cannot be discovered.
        panics=True,
    )


def proxy_server(pki: ClusterPki) -> Component:
    """Describe the proxy's server: Karmada has no client certificate, agents have one."""
    return Component(
        PROXY_SERVER,
        PROXY_SERVER,
        (
            "--mode=http-connect",
            f"--server-bind-address={LOOPBACK}",
            f"--server-port={PORT}",
            f"--server-cert={pki.file('server.crt')}",
            f"--server-key={pki.file('server.key')}",
            f"--agent-bind-address={LOOPBACK}",
            f"--agent-port={PEER_PORT}",
            f"--cluster-cert={pki.file('server.crt')}",
            f"--cluster-key={pki.file('server.key')}",
            f"--cluster-ca-cert={pki.ca}",
            "--proxy-strategies=destHost",
            "--server-count=1",
            f"--health-bind-address={LOOPBACK}",
            f"--health-port={HEALTH_PORT}",
            f"--admin-bind-address={LOOPBACK}",
            f"--admin-port={ADMIN_PORT}",
        ),
        f"{PLAIN_HEALTH_APART}/healthz",
        has_low_ports=True,
    )


def proxy_agent(number: int, pki: ClusterPki, agent_port: int) -> Component:
    """Describe the agent of a host, by its number; pki: of the hub."""
    name = agent_name(number)
    identifiers = "&".join(f"host={address}" for address in addresses(number))
    return Component(
        name,
        "proxy-agent",
        (
            f"--proxy-server-host={LOOPBACK}",
            f"--proxy-server-port={agent_port}",
            f"--ca-cert={pki.ca}",
            f"--agent-cert={pki.file(f'{name}.crt')}",
            f"--agent-key={pki.file(f'{name}.key')}",
            f"--agent-identifiers={identifiers}",
            "--sync-interval=1s",
            "--sync-interval-cap=2s",
            f"--health-server-host={LOOPBACK}",
            f"--health-server-port={HEALTH_PORT}",
            f"--admin-bind-address={LOOPBACK}",
            f"--admin-server-port={ADMIN_PORT}",
        ),
        f"{PLAIN_HEALTH_APART}/readyz",
        has_low_ports=True,
    )


def agent_name(number: int) -> str:
    """Name the agent of a host by its number."""
    return "host-proxy-agent" if number == 1 else f"host{number}-proxy-agent"


def addresses(number: int) -> tuple[str, ...]:
    """Return the names of gateways that lead to a host, by its number."""
    return (LOOPBACK, "localhost") if number == 1 else (f"127.0.0.{number}",)


async def start(
    api: ApiServer,
    cluster: Cluster,
    launcher: Launcher,
    parts: dict[str, Component],
    module: Path,
    hosts: int,
) -> None:
    """Start all of it beside a Karmada that runs; write how it is reached into ACCESS_FILE.

    api, cluster: of the hub. parts: from components(). module: of Karmada.
    """
    pki = cluster.pki
    for name in AGGREGATED:
        port = await launcher.launch(parts[name])
        for item in karmada_objects.aggregated_api(module, port, pki.ca, name):
            api.apply(item)
    ports = await launcher.launch_ports(parts[PROXY_SERVER])
    for number in range(1, hosts + 1):
        await asyncio.to_thread(_issue, pki, agent_name(number))
        await launcher.launch(proxy_agent(number, pki, ports.peer))
    content = {"proxyURL": f"https://{LOOPBACK}:{ports.main}", "ca": str(pki.ca)}
    path = cluster.directory.root / ACCESS_FILE
    await asyncio.to_thread(path.write_text, json.dumps(content))


def _issue(pki: ClusterPki, client: str) -> None:
    pair = pki.authority.issue_client(client)
    Path(pki.file(f"{client}.crt")).write_bytes(pair.certificate)
    write_private(Path(pki.file(f"{client}.key")), pair.key)
