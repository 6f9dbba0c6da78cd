"""A wire between agent and API server that can be cut, fall silent or be slow."""

import contextlib
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import yaml

CHUNK = 65536
SOON_S = 0.2
DRIP_S = 0.1


class Proxy:
    """Forwards TCP to the server of a kubeconfig; `kubeconfig` is a copy that leads here."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = _current_cluster(content)
        server = urlsplit(cluster["server"])
        self._target = (server.hostname or "", server.port or 443)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self.server = f"https://127.0.0.1:{self._port}"
        cluster["server"] = self.server
        directory.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = directory / f"proxied-{kubeconfig.name}"
        self.kubeconfig.write_text(yaml.safe_dump(content))
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._is_cut = False
        self._flows = threading.Event()
        self._flows.set()
        self._bytes_a_drip = CHUNK

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed.set()
        self._flows.set()
        self.cut()

    def cut(self) -> None:
        """Break all connections, and refuse new ones until `restore`."""
        with self._lock:
            self._is_cut = True
            for connection in (self._listener, *self._connections):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def silence(self) -> None:
        """Keep all connections and accept new ones, but let nothing through until `restore`."""
        self._flows.clear()

    def slow(self, bytes_a_second: int) -> None:
        """Let so much of the server's answers through on each connection until `restore`."""
        self._bytes_a_drip = int(bytes_a_second * DRIP_S)

    def restore(self) -> None:
        """Let connections through again, at the same port."""
        self._flows.set()
        self._bytes_a_drip = CHUNK
        with self._lock:
            if self._is_cut:
                self._listener = socket.create_server(("127.0.0.1", self._port))
                self._is_cut = False

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:  # the wire is cut
                self._is_closed.wait(SOON_S)
                continue
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        """Connect one client, and forward both ways until either side ends."""
        with client, contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            both = {client, server}
            with self._lock:
                if self._is_cut:
                    return
                self._connections |= both
            back = threading.Thread(target=self._answer, args=(server, client), daemon=True)
            back.start()
            self._forward(client, server)
            back.join()
            with self._lock:
                self._connections -= both

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK):
                self._flows.wait()
                target.sendall(chunk)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        """Forward what the server says, as slowly as the wire is."""
        with contextlib.suppress(OSError):
            while chunk := server.recv(self._bytes_a_drip):
                self._flows.wait()
                client.sendall(chunk)
                if self._bytes_a_drip < CHUNK:
                    time.sleep(DRIP_S)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)


def _current_cluster(kubeconfig: dict[str, object]) -> dict[str, str]:
    """Return the cluster entry of the current context; a reference into `kubeconfig`."""
    contexts = _by_name(kubeconfig["contexts"])
    name = contexts[str(kubeconfig["current-context"])]["context"]["cluster"]
    found: dict[str, str] = _by_name(kubeconfig["clusters"])[name]["cluster"]
    return found


def _by_name(entries: object) -> dict[str, dict[str, dict[str, str]]]:
    assert isinstance(entries, list)
    return {entry["name"]: entry for entry in entries}
