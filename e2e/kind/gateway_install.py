"""The gateway as an administrator installs it: by docs/gateway.md, in the clusters of the story.

The hub reaches the host through apiserver-network-proxy alone, as where the host is behind NAT.
"""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from control_planes import tools
from control_planes.pki import Authority, KeyPair
from e2e.kind.installed import AGENT, ROOT, Installed
from e2e.lab.api import Object
from kind_clusters import archives

PORT = 8443
HOST = f"{AGENT}-gateway.{AGENT}.svc"
"""The gateway's name, as the agent of the proxy resolves it."""
HUB_NAMESPACE = "karmada-system"
SERVER = f"konnectivity-server.{HUB_NAMESPACE}.svc"
SETTINGS: Object = {"enabled": True, "host": HOST, "proxyURL": f"https://{SERVER}:8090"}
_PROXY_MODULE = next(each for each in tools.ACCESS_MODULES if each.name == "konnectivity")
_METRICS_API: Object = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1beta1.metrics.k8s.io"},
}
_KUSTOMIZATION: Object = {
    "apiVersion": "kustomize.config.k8s.io/v1beta1",
    "kind": "Kustomization",
}


def build() -> dict[str, Path]:
    """Return the programs that are installed; those that are not there are built."""
    return tools.build_missing((_PROXY_MODULE, tools.METRICS_SERVER))


class GatewayInstall:
    """Installs it step by step. folder: for files of its own."""

    def __init__(self, kind: Installed, folder: Path) -> None:
        self._kind, self._folder = kind, folder
        self._authority = Authority("kind-story")
        self._address = urlsplit(kind.karmada_server).hostname or ""
        self._metrics_api = Path()

    def certificates(self) -> None:
        """Make the Secrets that docs/gateway.md lists."""
        issue = self._authority.issue_server
        server = issue((SERVER,), self._address)
        client = self._authority.issue_client("konnectivity-agent")
        self._secret("host", AGENT, f"{AGENT}-gateway-tls", issue((HOST,)))
        self._secret("hub-pods", HUB_NAMESPACE, "konnectivity-server", server)
        self._secret("host", AGENT, "konnectivity-agent", client)

    def proxy(self) -> None:
        """Install apiserver-network-proxy: its server beside Karmada, its agent on the host."""
        programs = build()
        self._image("hub", "proxy-server:v0.34.0", programs["proxy-server"])
        self._image("host", "proxy-agent:v0.34.0", programs["proxy-agent"])
        address = {"op": "add", "path": "/spec/externalIPs", "value": [self._address]}
        self._apply(
            "hub-pods",
            "konnectivity",
            resources=[self._relative(ROOT / "manifests/konnectivity", "konnectivity")],
            patches=[
                {
                    "target": {"kind": "Service", "name": "konnectivity-server-agents"},
                    "patch": yaml.safe_dump([address]),
                }
            ],
        )
        literals = [f"PROXY_SERVER_HOST={self._address}", f"GATEWAY_HOST={HOST}"]
        self._apply(
            "host",
            "konnectivity-agent",
            components=[
                self._relative(ROOT / "manifests/components/konnectivity", "konnectivity-agent")
            ],
            configMapGenerator=[
                {"name": "konnectivity-agent", "namespace": AGENT, "literals": literals}
            ],
        )

    def metrics_server(self) -> None:
        """Begin to install metrics-server, with an image of what was built here."""
        module = tools.METRICS_SERVER
        self._image("host", "metrics-server:kind", build()["metrics-server"])
        source = tools.module_directory(module.name, "sigs.k8s.io/metrics-server")
        base = source / "manifests" / "base"
        found = yaml.safe_load((base / "deployment.yaml").read_text())
        image = found["spec"]["template"]["spec"]["containers"][0]["image"]
        insecure = {  # kind's kubelets sign their own certificates
            "op": "add",
            "path": "/spec/template/spec/containers/0/args/-",
            "value": "--kubelet-insecure-tls",
        }
        target = {"kind": "Deployment", "name": "metrics-server"}
        api = {"$patch": "delete", **_METRICS_API}
        self._apply(
            "host",
            "metrics-server",
            resources=[self._relative(base, "metrics-server")],
            images=[
                {"name": image.rpartition(":")[0], "newName": "metrics-server", "newTag": "kind"}
            ],
            patches=[
                {"target": target, "patch": yaml.safe_dump([insecure])},
                {"patch": yaml.safe_dump(api)},
            ],
        )
        self._metrics_api = base / "apiservice.yaml"

    def metrics_api(self) -> None:
        """Let the API server ask metrics-server once it answers.

        An API server that asks earlier, before the address of the Service leads anywhere, may be
        answered by somebody else, and keeps that connection.
        """
        kubectl = self._kind.kubectl
        rollout = ("rollout", "status", "deployment/metrics-server", "--timeout=180s")
        kubectl("-n", "kube-system", *rollout)
        kubectl("apply", "-f", str(self._metrics_api))
        name = f"apiservice/{_METRICS_API['metadata']['name']}"
        kubectl("wait", name, "--for=condition=Available", "--timeout=120s")

    def _image(self, cluster: str, image: str, program: Path) -> None:
        """Give a cluster an image of one program."""
        archive = archives.write(f"docker.io/library/{image}", program, self._folder)
        self._kind.load(archive, cluster)
        archive.unlink()

    def _secret(self, cluster: str, namespace: str, name: str, pair: KeyPair) -> None:
        authority = self._authority.key_pair.certificate
        files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority}
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "stringData": {key: content.decode() for key, content in files.items()},
        }
        content = yaml.safe_dump(manifest)
        self._kind.kubectl("apply", "-f", "-", cluster=cluster, content=content)

    def _apply(self, cluster: str, name: str, **fields: Any) -> None:
        folder = self._folder / name
        folder.mkdir()
        document = yaml.safe_dump(_KUSTOMIZATION | fields)
        (folder / "kustomization.yaml").write_text(document)
        self._kind.kubectl("apply", "-k", str(folder), cluster=cluster)

    def _relative(self, path: Path, name: str) -> str:
        """Return a path as the kustomization of a name has to say it."""
        return os.path.relpath(path, self._folder / name)


if __name__ == "__main__":
    build()
