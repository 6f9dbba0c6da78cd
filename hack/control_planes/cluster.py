"""One API server of a set, with its certificates and kubeconfigs."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from control_planes import kubeconfig, pki
from control_planes.api import ApiServer
from control_planes.component import LOOPBACK, Component, component_kubeconfig
from control_planes.directory import Directory
from control_planes.launch import Launcher

_AUDITED = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
        {
            "level": "Metadata",
            "verbs": ["watch"],
            "resources": [{"group": "work.karmada.io", "resources": ["works"]}],
        },
        {"level": "None"},
    ],
}


@dataclass(slots=True)
class Cluster:
    """A control plane by name; `server` is known once its API server has a port.

    audited: whether its API server logs each write, and watches of Works.
    """

    name: str
    directory: Directory
    pki: pki.ClusterPki
    server: str = field(default="")
    audited: bool = False

    async def start_api_server(
        self, launcher: Launcher, parts: dict[str, Component], clients: Iterable[str]
    ) -> ApiServer:
        """Start the API server, write kubeconfigs for admin and clients, return admin's access."""
        part = parts[f"{self.name}-kube-apiserver"]
        port = await launcher.launch(self._audited(part) if self.audited else part)
        self.server = f"https://{LOOPBACK}:{port}"
        for name in (f"{self.name}-kube-controller-manager", *clients):
            # Karmada and kube-controller-manager are in system:masters in Karmada's deployment too
            self._write_kubeconfig(name, f"system:karmada:{name}")
        admin = self._access(*pki.ADMIN)
        kubeconfig.write(self.directory.kubeconfig(self.name), self.name, admin)
        return ApiServer(admin)

    def _audited(self, part: Component) -> Component:
        policy = self.directory.data / f"{self.name}-audit.json"
        policy.parent.mkdir(parents=True, exist_ok=True)
        policy.write_text(json.dumps(_AUDITED))
        log = self.directory.log(f"{self.name}-audit")
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
        # Readers have an offset in one file, so it is not rotated, as it would be at 100 MB.
        return replace(part, arguments=(*part.arguments, *flags, f"--audit-log-maxsize={2**20}"))

    def _access(self, user: str, group: str) -> kubeconfig.Access:
        client = self.pki.authority.issue_client(user, group)
        return kubeconfig.Access(self.server, self.pki.ca.read_bytes(), client)

    def _write_kubeconfig(self, component: str, user: str) -> None:
        path = component_kubeconfig(self.pki, component)
        kubeconfig.write(path, component, self._access(user, "system:masters"))


def create_cluster(name: str, directory: Directory, *, audited: bool = False) -> Cluster:
    made = pki.create_cluster_pki(directory.pki / name, name)
    return Cluster(name, directory, made, audited=audited)
