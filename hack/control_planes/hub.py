"""Start a Karmada hub: its API server, and Karmada unmodified.

Order: API server -> CRDs beside aggregated API server and webhook -> APIService available ->
controller-manager and scheduler. Karmada's own flags stay at their defaults, but for addresses.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from control_planes import access, component, installers, karmada_objects, tools
from control_planes.api import ApiError, ApiServer, Object
from control_planes.cluster import Cluster
from control_planes.component import LOOPBACK, PLAIN_HEALTH, PORT, TLS_HEALTH, Component
from control_planes.launch import Launcher
from control_planes.pki import ClusterPki
from control_planes.wait import wait_for

NAME = "hub"
# what Karmada's own deployment runs; others would act on Deployments and Nodes, which are
# templates here and not workloads
CONTROLLERS = (
    "namespace,garbagecollector,serviceaccount-token,ttl-after-finished,bootstrapsigner,"
    "tokencleaner,csrcleaner,csrsigning,clusterrole-aggregation"
)
AGGREGATED, WEBHOOK = "karmada-aggregated-apiserver", "karmada-webhook"
CONTROLLER_MANAGER, SCHEDULER = "karmada-controller-manager", "karmada-scheduler"
KARMADA = (AGGREGATED, WEBHOOK, CONTROLLER_MANAGER, SCHEDULER)
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.cluster.karmada.io"
CRD_LIST = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PARALLEL_REQUESTS = 4


def components(pki: ClusterPki, etcd_port: int, qps: int = 0) -> dict[str, Component]:
    """Describe everything that runs for the hub, by name.

    qps: requests a second of each of Karmada's controllers; 0 = their default, 40.
    """
    all_of_them = (
        component.api_server(
            NAME,
            pki,
            etcd_port,
            "--enable-bootstrap-token-auth=true",
            "--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount",
        ),
        component.controller_manager(NAME, pki, CONTROLLERS),
        component.aggregated(AGGREGATED, pki, etcd_port, "readyz"),
        webhook(pki),
        controller(pki, CONTROLLER_MANAGER, qps),
        controller(pki, SCHEDULER, qps),
    )
    return {one.name: one for one in all_of_them}


def webhook(pki: ClusterPki) -> Component:
    return Component(
        WEBHOOK,
        WEBHOOK,
        (
            f"--kubeconfig={component.component_kubeconfig(pki, WEBHOOK)}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={PORT}",
            f"--cert-dir={pki.directory}",
            "--tls-cert-file-name=server.crt",
            "--tls-private-key-file-name=server.key",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        ),
        f"{TLS_HEALTH}/readyz/",
        str(pki.ca),
    )


def controller(pki: ClusterPki, name: str, qps: int) -> Component:
    # As elected leaders they exit where a renewal takes 10 s, and nothing here starts them again.
    limits = (
        (f"--kube-api-qps={qps}", f"--kube-api-burst={qps}", "--leader-elect=false") if qps else ()
    )
    return Component(
        name,
        name,
        (
            f"--kubeconfig={component.component_kubeconfig(pki, name)}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={LOOPBACK}:{PORT}",
            *limits,
        ),
        f"{PLAIN_HEALTH}/healthz",
    )


async def start(
    cluster: Cluster,
    launcher: Launcher,
    etcd_port: int,
    karmada: tools.ToolModule,
    reached_hosts: int = 0,
    qps: int = 0,
    installer: str = installers.INIT,
) -> None:
    """Start the hub and return once everything that makes it Karmada answers.

    reached_hosts: number of hosts for what reaches member clusters (access.py); 0 = none of it.
    qps: see components(). installer: whose objects it has (installers.py).
    """
    parts = components(cluster.pki, etcd_port, qps)
    reaching = access.components(cluster.pki, etcd_port) if reached_hosts else {}
    async with asyncio.TaskGroup() as group:
        source = group.create_task(asyncio.to_thread(tools.source_of, karmada))
        clients = (*KARMADA, *(access.AGGREGATED if reaching else ()))
        api = await cluster.start_api_server(launcher, parts, clients)
    module = source.result()
    left = await asyncio.to_thread(
        installers.left_by, installer, module, cluster.server, cluster.pki.ca
    )
    await _apply_all(api, [each for each in left if each["kind"] == "Namespace"])
    async with asyncio.TaskGroup() as group:
        group.create_task(launcher.launch(parts[f"{NAME}-kube-controller-manager"]))
        definitions = group.create_task(_install_crds(api, module))
        aggregated = group.create_task(launcher.launch(parts[AGGREGATED]))
        hook = group.create_task(launcher.launch(parts[WEBHOOK]))
        await _apply_all(api, [each for each in left if each["kind"] != "Namespace"])
        await _aggregate(api, module, await aggregated, cluster.pki.ca)
        port, crds = await hook, await definitions
        await _apply_all(api, karmada_objects.with_conversion(module, crds, port, cluster.pki.ca))
    async with asyncio.TaskGroup() as group:
        group.create_task(launcher.launch(parts[CONTROLLER_MANAGER]))
        group.create_task(launcher.launch(parts[SCHEDULER]))
        hooks = karmada_objects.webhook_configurations(module, port, cluster.pki.ca)
        await _apply_all(api, hooks)
    if reaching:
        await access.start(api, cluster, launcher, reaching, module, reached_hosts)


async def _install_crds(api: ApiServer, module: Path) -> list[Object]:
    definitions = await asyncio.to_thread(karmada_objects.crds, module)
    await _apply_all(api, definitions)
    names = {item["metadata"]["name"] for item in definitions}

    def missing() -> str:
        established = {
            item["metadata"]["name"]
            for item in api.get(CRD_LIST)["items"]
            if _has_condition(item, "Established")
        }
        return ", ".join(sorted(names - established))

    await wait_for("CRDs of Karmada", missing)
    return definitions


async def _aggregate(api: ApiServer, module: Path, port: int, ca: Path) -> None:
    await _apply_all(api, karmada_objects.aggregated_api(module, port, ca))

    def unavailable() -> str:
        try:
            service = api.get(API_SERVICE)
        except ApiError as error:
            return str(error)
        return "" if _has_condition(service, "Available") else "APIService is not Available"

    await wait_for("API group cluster.karmada.io", unavailable)


async def _apply_all(api: ApiServer, items: Iterable[Object]) -> None:
    permits = asyncio.Semaphore(PARALLEL_REQUESTS)

    async def apply(item: Object) -> None:
        async with permits:
            await asyncio.to_thread(api.apply, item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(apply(item))


def _has_condition(item: Object, condition_type: str) -> bool:
    conditions = item.get("status", {}).get("conditions") or []
    return any(one["type"] == condition_type and one["status"] == "True" for one in conditions)
