"""Objects of multi-cluster services, and the kinds that a host needs for them."""

from e2e.lab.api import Api, ApiError, Object, collection
from e2e.lab.wait import eventually
from e2e.lab.works import condition

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MCS_API = "multicluster.x-k8s.io/v1alpha1"
SERVICE_NAME = "kubernetes.io/service-name"


def install_kinds(hub: Api, host: Api) -> None:
    """Give the host ServiceExport and ServiceImport as the hub has them; they stay there.

    They belong to nobody: every test that needs them finds them or makes them.
    """
    for plural in ("serviceexports", "serviceimports"):
        name = f"{plural}.multicluster.x-k8s.io"
        crd = hub.get(f"{CRDS}/{name}")
        copied = {key: crd[key] for key in ("apiVersion", "kind", "spec")}
        try:
            host.create(copied | {"metadata": {"name": name}})
        except ApiError as error:
            if error.code != 409:
                raise
        eventually(_assert_established, host, name)


def _assert_established(host: Api, name: str) -> None:
    assert condition(host.get(f"{CRDS}/{name}"), "Established")["status"] == "True"


def service(namespace: str, name: str = "web") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "name": "http"}]},
    }


def service_export(namespace: str) -> Object:
    metadata = {"name": "web", "namespace": namespace}
    return {"apiVersion": MCS_API, "kind": "ServiceExport", "metadata": metadata}


def service_import(namespace: str) -> Object:
    return {
        "apiVersion": MCS_API,
        "kind": "ServiceImport",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"type": "ClusterSetIP", "ports": [{"port": 80, "name": "http"}]},
    }


def slices(api: Api, namespace: str, service_name: str) -> list[Object]:
    """Return the EndpointSlices of a Service."""
    path = collection("discovery.k8s.io/v1", "EndpointSlice", namespace)
    return api.list(path, f"{SERVICE_NAME}={service_name}")


def addresses(endpoint_slices: list[Object]) -> set[str]:
    """Return all addresses in some slices."""
    endpoints = [one for item in endpoint_slices for one in item.get("endpoints") or []]
    return {address for endpoint in endpoints for address in endpoint["addresses"]}
