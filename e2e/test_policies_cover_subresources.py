"""What policies judge: all subresources that a host serves, and not what was there before."""

from e2e.lab import accounts, objects
from e2e.lab.api import Api, Object, path_of
from e2e.lab.lab import Lab
from e2e.lab.wait import PERIODIC_S, eventually, within
from tenant_table import recording

SNIPPET = "nginx.ingress.kubernetes.io/server-snippet"
NETWORKING = "networking.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INGRESS: Object = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}


def test_what_the_table_of_tenants_is_made_of_is_what_a_host_serves(lab: Lab) -> None:
    """A unit test asks of the recording whether policies match all that writes what they match."""
    recorded = recording.of_kubernetes()
    beside = {each["spec"]["group"] for each in lab.host.list(DEFINITIONS)}  # of other stories
    served = lab.host.get("/openapi/v3")["paths"]
    paths = [path for path in served if _is_built_in(path) and _group_of(path) not in beside]
    live = recording.record("", lambda path: lab.host.get(f"/openapi/v3/{path}"), paths)
    for name, row in live["resources"].items():
        assert row == recorded["resources"].get(name), name
    not_served = recorded["resources"].keys() - live["resources"].keys()
    assert {each.split("/")[1] for each in not_served} == {"podcertificaterequests"}
    for name, row in live["types"].items():
        assert row == recorded["types"].get(name), name


def _group_of(path: str) -> str:
    return path.removeprefix("apis/").partition("/")[0]


def _is_built_in(path: str) -> bool:
    group = _group_of(path)
    return path == "api/v1" or "." not in group or group.endswith(".k8s.io")


def test_a_controller_reports_the_status_of_what_an_administrator_wrote(lab: Lab) -> None:
    """Values that exist may stay, also where status is written by an account with no exception."""
    group = lab.group("a")
    lab.serve(group)
    home = group.host_namespace("default")
    eventually(lab.host.get, f"/api/v1/namespaces/{home}")
    ingress: Object = {
        "apiVersion": NETWORKING,
        "kind": "Ingress",
        "metadata": {"name": "older", "namespace": home, "annotations": {SNIPPET: "x;"}},
        "spec": INGRESS,
    }
    service = objects.service(home, "older")
    service["spec"] |= {"type": "LoadBalancer", "externalIPs": ["192.0.2.53"]}
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "older",
            "namespace": home,
            "annotations": {"volume.kubernetes.io/selected-node": group.nodes[0]},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "older", "namespace": home},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "nodeSelector": group.selector,
            "schedulerName": "none",
        },
    }
    balanced = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}
    reported: tuple[tuple[Object, Object], ...] = (
        (ingress, balanced),
        (service, balanced),
        (claim, {"conditions": [{"type": "Resizing", "status": "True"}]}),
        (pod, {"message": "reported"}),
    )
    controller = _controller(lab, home)
    for manifest, status in reported:
        path = path_of(eventually(lab.host.create, manifest))
        within(PERIODIC_S, controller.patch, f"{path}/status", {"status": status})
        assert lab.host.get(path)["status"].keys() >= status.keys()
        lab.host.delete(path, force=True)


def _controller(lab: Lab, home: str) -> Api:
    resources = [f"{each}/status" for each in ("services", "persistentvolumeclaims", "pods")]
    rules = (
        {"apiGroups": [""], "resources": resources, "verbs": ["patch"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses/status"], "verbs": ["patch"]},
    )
    account = accounts.service_account(lab.host, home, "controller", lab.directory)
    role = accounts.cluster_role("controller", *rules) | {"kind": "Role"}
    role["metadata"]["namespace"] = home
    lab.host.create(role)
    binding = accounts.role_binding(home, "controller", accounts.subject(home, "controller"))
    binding["roleRef"]["kind"] = "Role"
    lab.host.create(binding)
    return account
