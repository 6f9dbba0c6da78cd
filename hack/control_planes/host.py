"""Start a host: a whole Kubernetes cluster whose nodes and pods are simulated by kwok."""

import asyncio
from pathlib import Path

from control_planes import component, tools
from control_planes.api import ApiError, ApiServer
from control_planes.cluster import Cluster
from control_planes.component import LOOPBACK, PLAIN_HEALTH, PORT, TLS_HEALTH, Component
from control_planes.launch import Launcher
from control_planes.nodes import KWOK_ANNOTATION
from control_planes.pki import ClusterPki
from control_planes.wait import wait_for

KWOK_MODULE = "sigs.k8s.io/kwok"
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
LEASE_DURATION_S, NODE_GRACE_S = 40, 50  # as kubelets, edgecore and Kubernetes have it
CALM_NODES = 1000
"""The nodes of two thousand renew half as often, and so on: Leases of all would take two cores."""
DEFAULT_SERVICE_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def host_name(number: int) -> str:
    """Name the first host `host` and the others `host2`, `host3`, and so on."""
    return "host" if number == 1 else f"host{number}"


def components(
    name: str, pki: ClusterPki, etcd_port: int, kwok_module: Path, nodes: int = 0
) -> dict[str, Component]:
    """Describe everything that runs for a host, by name."""
    slower = max(1, nodes // CALM_NODES)
    grace = (f"--node-monitor-grace-period={NODE_GRACE_S * slower}s",) if slower > 1 else ()
    all_of_them = (
        component.api_server(name, pki, etcd_port, "--enable-admission-plugins=NodeRestriction"),
        component.controller_manager(name, pki, "*", *grace),
        scheduler(name, pki),
        kwok(name, pki, kwok_module, LEASE_DURATION_S * slower),
    )
    return {one.name: one for one in all_of_them}


def scheduler(cluster: str, pki: ClusterPki) -> Component:
    name = f"{cluster}-kube-scheduler"
    return Component(
        name,
        "kube-scheduler",
        (
            *component.client_of_api_server(pki, name),
            *component.serving(pki),
            "--leader-elect=false",
        ),
        f"{TLS_HEALTH}/healthz",
        str(pki.ca),
    )


def kwok(cluster: str, pki: ClusterPki, module: Path, lease_s: int) -> Component:
    name = f"{cluster}-kwok"
    return Component(
        name,
        "kwok",
        (
            f"--kubeconfig={component.component_kubeconfig(pki, name)}",
            *(f"--config={module / 'kustomize' / 'stage' / stage}" for stage in STAGES),
            f"--manage-nodes-with-annotation-selector={KWOK_ANNOTATION}=fake",
            f"--node-lease-duration-seconds={lease_s}",
            f"--node-ip={LOOPBACK}",
            f"--server-address={LOOPBACK}:{PORT}",
        ),
        f"{PLAIN_HEALTH}/healthz",
    )


async def start(
    cluster: Cluster,
    launcher: Launcher,
    etcd_port: int,
    store: Component | None = None,
    nodes: int = 0,
) -> ApiServer:
    """Start a host and return access to it once pods could be created.

    store: its own datastore; None = the etcd at etcd_port. nodes: how many it will have.
    """
    name = cluster.name
    if store is not None:
        etcd_port = await launcher.launch(store)
    module = await asyncio.to_thread(tools.module_directory, "kwok", KWOK_MODULE)
    parts = components(name, cluster.pki, etcd_port, module, nodes)
    clients = (f"{name}-kube-scheduler", f"{name}-kwok")
    api = await cluster.start_api_server(launcher, parts, clients)
    async with asyncio.TaskGroup() as group:
        for client in (f"{name}-kube-controller-manager", *clients):
            group.create_task(launcher.launch(parts[client]))

    def missing() -> str:
        try:
            api.get(DEFAULT_SERVICE_ACCOUNT)
        except ApiError as error:
            return str(error)
        return ""

    await wait_for(f"service account of {name}", missing)
    return api
