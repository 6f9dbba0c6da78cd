"""Users of the hub at a terminal: `kubectl-karmada`, and kubectl against clusters/NAME/proxy."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.kind.installed import Installed

PROTOCOLS = {"websocket": "true", "spdy": "false"}
"""What kubectl is told of WebSockets: used where the server has them, or not at all."""
WAYS = ("kubectl-karmada", "kubectl")
_MEMBERS = "--operation-scope=members"
_TARGETS = {
    "get": (_MEMBERS, "--clusters={}"),
    "top": ("--clusters={}",),
    "logs": ("--cluster={}",),
    "promote": ("--cluster={}",),
}
"""How a command of kubectl-karmada is told its Cluster, where it is not as for all others."""
_CLUSTERS = "apis/cluster.karmada.io/v1alpha1/clusters"
_SWITCHES = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
_TIMEOUT_S = 120


@dataclass(frozen=True)
class HubUser:
    """Somebody with an account on the hub. name: "" = the administrator. home: for caches."""

    kind: Installed
    home: Path
    name: str = ""
    protocol: str = "websocket"

    def speaking(self, protocol: str) -> "HubUser":
        """Return the same user, whose streams are by one of PROTOCOLS."""
        return HubUser(self.kind, self.home, self.name, protocol)

    def command(self, way: str, cluster: str, verb: str, *arguments: str) -> list[str]:
        """Return a command on a Cluster, by one of WAYS."""
        return (
            self._karmada(cluster, verb, *arguments)
            if way == WAYS[0]
            else self.kubectl(cluster, verb, *arguments)
        )

    def kubectl(self, cluster: str, *arguments: str) -> list[str]:
        """Return a command of kubectl that takes a Cluster for its API server."""
        server = f"--server={self.kind.hub.server}/{_CLUSTERS}/{cluster}/proxy"
        return self._command("kubectl", server, *arguments)

    def _karmada(self, cluster: str, verb: str, *arguments: str) -> list[str]:
        targets = _TARGETS.get(verb, (_MEMBERS, "--cluster={}"))
        named = [target.format(cluster) for target in targets]
        words = 2 if verb == "top" else 1  # a command of its own: `top pod`
        told = [verb, *arguments]
        return self._command("kubectl-karmada", *told[:words], *named, *told[words:])

    def run(self, command: Sequence[str], stdin: bytes = b"") -> bytes:
        """Run a command that succeeds; return what it wrote to standard output."""
        done = self.ended(command, stdin)
        assert done.returncode == 0, _told(command, done)
        return done.stdout

    def refused(self, command: Sequence[str], stdin: bytes = b"") -> str:
        """Run a command that fails; return what it said."""
        done = self.ended(command, stdin)
        assert done.returncode != 0, _told(command, done)
        return (done.stdout + done.stderr).decode(errors="replace")

    def ended(
        self, command: Sequence[str], stdin: bytes = b""
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command to its end."""
        return subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            check=False,
            env=self.environment,
            timeout=_TIMEOUT_S,
        )

    @contextmanager
    def running(self, command: Sequence[str], at: int = subprocess.PIPE) -> Iterator[Any]:
        """Run a command that does not end by itself; its errors come with its output.

        at: a terminal.
        """
        with subprocess.Popen(
            command,
            stdin=at,
            stdout=at,
            stderr=subprocess.STDOUT,
            env=self.environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def environment(self) -> dict[str, str]:
        switches = dict.fromkeys(_SWITCHES, PROTOCOLS[self.protocol])
        return {"HOME": str(self.home), "PATH": os.defpath, **switches}

    def _command(self, program: str, *arguments: str) -> list[str]:
        path = str(self.kind.directory / "bin" / program)
        return [path, "--kubeconfig", str(self._kubeconfig()), *arguments]

    def _kubeconfig(self) -> Path:
        """Return a kubeconfig of this user; kubectl-karmada has no `--as`."""
        if not self.name:
            return self.kind.hub.kubeconfig
        path = self.home / f"{self.name}.kubeconfig"
        if not path.exists():
            document = yaml.safe_load(self.kind.hub.kubeconfig.read_text())
            for entry in document["users"]:
                entry["user"]["as"] = self.name
            path.write_text(yaml.safe_dump(document))
        return path


def _told(command: Sequence[str], done: "subprocess.CompletedProcess[bytes]") -> str:
    said = (done.stdout + done.stderr)[-2000:].decode(errors="replace")
    return f"{' '.join(command)}: exit code {done.returncode}\n{said}"
