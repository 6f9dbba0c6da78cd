"""A resolver as pods have one, and a real CoreDNS for it to ask."""

import random
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

from e2e.lab.api import Object
from e2e.lab.wait import eventually

DOMAIN = "cluster.local"
RULES = "virtual-clusters.override"
_A, _IN = 1, 1
_NAME_ERROR = 3
_ANSWER_S = 5.0
_PORT_ATTEMPTS = 5
_COREFILE = """{domain}:{port} {{
    bind 127.0.0.1
    errors
    import {rules}/*.override
    kubernetes {domain} {{
        kubeconfig {kubeconfig}
    }}
    reload 2s 1s
}}
"""


class CoreDns:
    """CoreDNS for one host cluster; `take_over` is what the kubelet does with a ConfigMap."""

    def __init__(self, program: Path, directory: Path, kubeconfig: Path) -> None:
        self._rules = directory / "rules"
        self._rules.mkdir(parents=True)
        self._log = directory / "coredns.log"
        self.take_over({"data": {RULES: ""}})
        self._process = self._start(program, directory / "Corefile", kubeconfig)

    def _start(self, program: Path, corefile: Path, kubeconfig: Path) -> subprocess.Popen[bytes]:
        """Start it on a free port; on another one where somebody took that port meanwhile."""
        for _ in range(_PORT_ATTEMPTS):
            self.port = _free_port()
            corefile.write_text(
                _COREFILE.format(
                    domain=DOMAIN, port=self.port, rules=self._rules, kubeconfig=kubeconfig
                )
            )
            with self._log.open("wb") as log:
                process = subprocess.Popen(
                    [program, "-conf", corefile], stdout=log, stderr=log, cwd=corefile.parent
                )
            try:
                eventually(self._serves, process)
            except BaseException:
                process.kill()
                process.wait()
                raise
            if process.poll() is None:
                return process
        raise AssertionError(f"CoreDNS does not start: {self.log()}")

    def _serves(self, process: subprocess.Popen[bytes]) -> None:
        """Pass once it serves, or has ended because its port was taken."""
        if process.poll() is not None:
            assert "address already in use" in self.log(), f"CoreDNS has ended: {self.log()}"
        else:
            assert "CoreDNS-" in self.log(), f"CoreDNS starts: {self.log()}"  # it says so then

    def take_over(self, config_map: Object) -> None:
        for name, content in config_map["data"].items():
            (self._rules / name).write_text(content)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def address_of(self, name: str) -> str | None:
        """Ask for one whole name; None where there is none of it."""
        number = random.randrange(2**16)  # noqa: S311 - no secret
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(_ANSWER_S)
            sock.sendto(_question(number, name), ("127.0.0.1", self.port))
            try:
                return _read_answer(number, name, sock.recv(4096))
            except OSError as error:
                code = self._process.poll()
                state = "runs" if code is None else f"has ended with code {code}: {self.log()}"
                raise AssertionError(f"no answer to {name} ({error}); CoreDNS {state}") from error

    def resolve(self, name: str, pod_spec: Object, namespace: str) -> str | None:
        """Look a name up as the resolver of a pod does: search domains first, then as it is."""
        searches, ndots = _resolver_settings(pod_spec, namespace)
        if name.endswith("."):
            return self.address_of(name)
        whole = f"{name}."
        candidates = [f"{name}.{domain}." for domain in searches]
        order = [*candidates, whole] if name.count(".") < ndots else [whole, *candidates]
        found = (self.address_of(candidate) for candidate in order)
        return next((address for address in found if address), None)


def _resolver_settings(pod_spec: Object, namespace: str) -> tuple[list[str], int]:
    """Return searches and ndots as the kubelet writes them into the pod."""
    config = pod_spec.get("dnsConfig") or {}
    options = {option["name"]: option.get("value") for option in config.get("options") or []}
    searches = list(config.get("searches") or [])
    if pod_spec.get("dnsPolicy", "ClusterFirst") == "ClusterFirst":
        searches = [f"{namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN, *searches]
        options.setdefault("ndots", "5")
    return searches, int(options.get("ndots") or 1)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _question(number: int, name: str) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.rstrip(".").split("."))
    header = struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0)
    return header + labels + b"\0" + struct.pack(">HH", _A, _IN)


def _read_answer(number: int, name: str, message: bytes) -> str | None:
    """Return the first address; an answer that is about another name counts as an error."""
    own_number, flags, questions, answers = struct.unpack_from(">HHHH", message)
    assert (own_number, questions) == (number, 1)
    if flags & 0xF == _NAME_ERROR or not answers:
        return None
    assert flags & 0xF == 0, f"{name}: the server answers with code {flags & 0xF}"
    _, offset = _name_at(message, 12)
    offset += 4
    for _ in range(answers):
        owner, offset = _name_at(message, offset)
        kind, _, _, length = struct.unpack_from(">HHIH", message, offset)
        offset += 10
        if kind == _A:
            assert owner == name, f"asked for {name}, the answer is about {owner}"
            return socket.inet_ntoa(message[offset : offset + length])
        offset += length
    return None


def _name_at(message: bytes, offset: int) -> tuple[str, int]:
    """Return the name at an offset, and where it ends; pointers are followed."""
    labels: list[str] = []
    end: Any = None
    while message[offset]:
        length = message[offset]
        if length >= 0xC0:
            end = end or offset + 2
            offset = struct.unpack_from(">H", message, offset)[0] & 0x3FFF
            continue
        labels.append(message[offset + 1 : offset + 1 + length].decode())
        offset += 1 + length
    return ".".join(labels) + ".", end or offset + 1
