"""ServiceAccounts of the host, and what they may do, as clients of their own."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.lab.api import Api, Object, collection, path_of
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


def token_of(account: Api) -> str:
    """Return the token of a client that service_account() made."""
    (entry,) = yaml.safe_load(account.kubeconfig.read_text())["users"]
    token: str = entry["user"]["token"]
    return token


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


@dataclass(frozen=True)
class Who:
    """Somebody of whom an API server is asked; {vc} and {ns} stand for names on the host."""

    user: str = "somebody"
    groups: tuple[str, ...] = ()

    def named(self, **names: str) -> "Who":
        """Return this one with names for the placeholders."""
        groups = tuple(group.format(**names) for group in self.groups)
        return Who(self.user.format(**names), groups)


def may(host: Api, who: Who, verb: str, resource: str, namespace: str = "", name: str = "") -> bool:
    """Ask the server whether somebody may do something (SubjectAccessReview).

    resource: `<plural>[.<group>][/<subresource>]`.
    """
    plural_group, _, subresource = resource.partition("/")
    plural, _, group = plural_group.partition(".")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": who.user,
            "groups": list(who.groups),
            "resourceAttributes": attributes,
        },
    }
    return bool(host.create(review)["status"]["allowed"])


class HubAccount:
    """A ServiceAccount of the hub with all rights, which can be revoked and given again.

    From then on the hub answers its requests by 401; what it watches already goes on.
    """

    def __init__(self, hub: Api, namespace: str, directory: Path) -> None:
        self._hub = hub
        self._namespace = namespace
        self._directory = directory
        self._directory.mkdir(parents=True, exist_ok=True)
        self._binding = hub.create(
            {
                **cluster_role_binding(f"{namespace}-agent", subject(namespace, "agent")),
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            }
        )
        self.kubeconfig = self.renew()

    def renew(self) -> Path:
        """Make it, and put a token of it into its kubeconfig."""
        account = service_account(self._hub, self._namespace, "agent", self._directory)
        return account.kubeconfig

    def revoke(self) -> None:
        """Remove it, and with it the worth of its token."""
        self._hub.delete(f"{collection('v1', 'ServiceAccount', self._namespace)}/agent")

    def remove(self) -> None:
        """Remove what is left of it beside its namespace."""
        self._hub.delete(path_of(self._binding))
