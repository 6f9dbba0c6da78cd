"""ServiceAccounts of the host, and what they may do, as clients of their own."""

from pathlib import Path

import yaml

from e2e.lab.api import Api, Object, collection
from e2e.lab.wait import eventually

RBAC = "rbac.authorization.k8s.io"


def service_account(host: Api, namespace: str, name: str, directory: Path) -> Api:
    """Make a ServiceAccount and return a client with its token."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }
    host.create(account)
    path = f"{collection('v1', 'ServiceAccount', namespace)}/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = eventually(host.post, path, request)["status"]["token"]
    content = yaml.safe_load(host.kubeconfig.read_text())
    content["users"] = [
        {"name": entry["name"], "user": {"token": token}} for entry in content["users"]
    ]
    kubeconfig = directory / f"{namespace}-{name}.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(content))
    return Api(kubeconfig)


def subject(namespace: str, name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def role_binding(namespace: str, cluster_role: str, *subjects: Object) -> Object:
    """Return a RoleBinding to a ClusterRole, named after it."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": cluster_role, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": cluster_role},
        "subjects": list(subjects),
    }


def cluster_role(name: str, *rules: Object) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def cluster_role_binding(name: str, *subjects: Object) -> Object:
    """Return a ClusterRoleBinding to the ClusterRole of the same name."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": list(subjects),
    }
