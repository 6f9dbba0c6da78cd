"""`karmada-vc-agent gateway` as a process, with certificates of its own and its own account."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from control_planes.launch import low_ports
from control_planes.pki import Authority, write_private
from e2e.lab.access import account_kubeconfig
from e2e.lab.agent import LOG_TAIL, ROOT, Agent, clean_environment
from e2e.lab.lab import Lab

HOST = "127.0.0.1"
"""Where the gateway is; the agent of the proxy beside the first host answers for it."""


class Way:
    """How the hub connects to gateways: directly, or through apiserver-network-proxy."""

    def __init__(self, planes: Path, *, by_proxy: bool) -> None:
        """planes: directory of the control planes. Raises FileNotFoundError."""
        self.proxy_url, self.authorities = "", b""
        if by_proxy:
            found = json.loads((planes / "access.json").read_text())
            self.proxy_url = str(found["proxyURL"])
            self.authorities = Path(found["ca"]).read_bytes()


class Gateway:
    """One gateway of an agent; its port is known before it starts."""

    def __init__(self, lab: Lab, way: Way) -> None:
        self._lab = lab
        self._directory = lab.directory / "gateway"
        self._directory.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = low_ports(1)[0]
        authority = Authority("gateway-ca")
        pair = authority.issue_server()
        self._file("tls.crt").write_bytes(pair.certificate)
        write_private(self._file("tls.key"), pair.key)
        self.authorities = authority.key_pair.certificate + way.authorities
        self._file("ca.crt").write_bytes(self.authorities)
        self.settings: dict[str, Any] = {
            "enabled": True,
            "host": HOST,
            "port": self.port,
            "bindAddress": f"{HOST}:{self.port}",
            "healthProbeBindAddress": "0",
            "metricsBindAddress": "0",
            "certFile": str(self._file("tls.crt")),
            "privateKeyFile": str(self._file("tls.key")),
            "caFile": str(self._file("ca.crt")),
        }
        lab.logs.append((f"the gateway of {lab.id}", self.log_tail))
        if way.proxy_url:
            self.settings["proxyURL"] = way.proxy_url

    def endpoint(self, cluster: str) -> str:
        """Return the URL of a virtual cluster."""
        return f"https://{HOST}:{self.port}/virtualclusters/{cluster}/"

    def kubeconfig(self, agent: Agent) -> Path:
        """Write a kubeconfig with a token of the gateway's account; the agent has joined."""
        name = f"{agent.name}-gateway"
        file = self._file("gateway.kubeconfig")
        return account_kubeconfig(self._lab.host.kubeconfig, agent.namespace, name, file)

    def start(self, agent: Agent, source: Path = ROOT) -> None:
        """Start it, unless it runs, with the settings of an agent that was started before.

        source: the tree that has its program.
        """
        if self._process is not None:
            return
        command = [
            *(sys.executable, "-m", "karmada_vc_agent", "gateway"),
            *("--config", str(agent.config), "--kubeconfig", str(self.kubeconfig(agent))),
        ]
        with self._file("gateway.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=source, env=clean_environment()
            )

    def stop(self) -> None:
        """End it; it may not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        path = self._file("gateway.log")
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-LOG_TAIL:])

    def _file(self, name: str) -> Path:
        return self._directory / name
