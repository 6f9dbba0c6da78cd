"""A wire between agent and API server that can be cut, fall silent, be slow, thin or far.

A thin wire is one for all connections, as an uplink is: what is sent waits for what was sent
before, by whichever connection, and arrives half a round trip later. Bytes are counted.
"""

import contextlib
import queue
import random
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import yaml

CHUNK = 65536
SOON_S = 0.2
DRIP_S = 0.1


_AT_ONCE = struct.pack("ii", 1, 0)
"""Of SO_LINGER: a close is a reset."""
SEGMENT = 1400
"""What connections send in turns over a thin wire."""
IN_FLIGHT = 64


class Way:
    """One direction of a wire: so many bits a second for all connections together, and a delay."""

    def __init__(self) -> None:
        self.bits_a_second = 0
        self.delay_s = 0.0
        self.bytes = 0
        self._free_at = 0.0
        self._lock = threading.Lock()

    @property
    def is_thin(self) -> bool:
        return bool(self.bits_a_second or self.delay_s)

    def send(self, size: int) -> float:
        """Wait for the turn of so many bytes, count them, and return when they arrive."""
        with self._lock:
            self.bytes += size
            now = time.monotonic()
            takes_s = size * 8 / self.bits_a_second if self.bits_a_second else 0.0
            self._free_at = max(now, self._free_at) + takes_s
            free_at = self._free_at
        time.sleep(max(0.0, free_at - now))
        return free_at + self.delay_s


class Proxy:
    """Forwards TCP to the server of a kubeconfig; `kubeconfig` is a copy that leads here."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self.server = f"https://127.0.0.1:{self._port}"
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.kubeconfig = self.lead_to(kubeconfig)
        self._connections: set[socket.socket] = set()
        self._clients: set[socket.socket] = set()
        self._broken: set[socket.socket] = set()
        self._counts: dict[socket.socket, list[int]] = {}
        self._loss = 0.0
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._is_cut = False
        self._flows = threading.Event()
        self._flows.set()
        self._tells = threading.Event()
        self._tells.set()
        self._most_told = 0
        self._bytes_a_drip = CHUNK
        self.up, self.down = Way(), Way()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        self._flows.set()
        self._tells.set()
        self.cut()

    def cut(self) -> None:
        """Break all connections, and refuse new ones until `restore`."""
        with self._lock:
            self._is_cut = True
            for connection in (self._listener, *self._connections):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def reset(self) -> None:
        """Reset all connections there are; new ones are accepted."""
        with self._lock:
            for connection in self._connections:
                self._reset(connection)

    def end_all(self) -> None:
        """End all connections there are; new ones are accepted."""
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def half_close(self) -> None:
        """End what the server says on all connections there are, and go on listening to clients."""
        with self._lock:
            for client in self._clients:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_WR)

    def lose(self, share: float) -> None:
        """Reset a connection with each piece of this share of what is sent, until `restore`."""
        self._loss = share

    def _reset(self, connection: socket.socket) -> None:
        self._broken.add(connection)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            connection.shutdown(socket.SHUT_RD)

    def silence(self) -> None:
        """Keep all connections and accept new ones, but let nothing through until `restore`."""
        self._flows.clear()

    def stall(self, after_bytes: int) -> None:
        """Let so much more of all answers through on each connection, until `restore` nothing.

        New connections get as much: whoever asks for more hears half of an answer.
        """
        self._most_told = after_bytes
        self._tells.clear()

    def slow(self, bytes_a_second: int) -> None:
        """Let so much of the server's answers through on each connection until `restore`."""
        self._bytes_a_drip = int(bytes_a_second * DRIP_S)

    def thin(self, bits_a_second: int, round_trip_s: float) -> None:
        """Have all connections share so much in each direction, with a delay, until `restore`."""
        for way in (self.up, self.down):
            way.bits_a_second, way.delay_s = bits_a_second, round_trip_s / 2

    def count(self) -> tuple[int, int]:
        """Return the bytes since the last count: to the server, and from it."""
        found = self.up.bytes, self.down.bytes
        self.up.bytes = self.down.bytes = 0
        return found

    def count_of_requests(self) -> tuple[int, int]:
        """Return what `count` does, without connections on which nothing is asked: watches."""
        with self._lock:
            found = [tuple(counts) for counts in self._counts.values() if counts[0]]
            for counts in self._counts.values():
                counts[:] = [0, 0]
        return sum(up for up, _ in found), sum(down for _, down in found)

    def restore(self) -> None:
        """Let connections through again, at the same port."""
        self.thin(0, 0.0)
        self._loss = 0.0
        self._tells.set()
        self._flows.set()
        self._bytes_a_drip = CHUNK
        with self._lock:
            if self._is_cut:
                self._listener = socket.create_server(("127.0.0.1", self._port))
                self._is_cut = False

    def lead_to(self, kubeconfig: Path) -> Path:
        """Connect to the server of another kubeconfig from now on; return a copy that leads here.

        So another server has the address that one had before.
        """
        content = yaml.safe_load(kubeconfig.read_text())
        cluster = _current_cluster(content)
        server = urlsplit(cluster["server"])
        self._target = (server.hostname or "", server.port or 443)
        cluster["server"] = self.server
        copy = self._directory / f"proxied-{kubeconfig.name}"
        copy.write_text(yaml.safe_dump(content))
        return copy

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
        time.sleep(self.up.delay_s + self.down.delay_s)  # of a connection's first packets
        with client, contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            both = {client, server}
            with self._lock:
                if self._is_cut:
                    return
                self._connections |= both
                self._clients.add(client)
                self._counts[client] = [0, 0]
            back = threading.Thread(target=self._answer, args=(server, client), daemon=True)
            back.start()
            self._forward(client, server)
            back.join()
            with self._lock:
                self._connections -= both
                self._clients.discard(client)
                self._counts.pop(client, None)
                self._broken -= both

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        self._carry(source, target, self.up, CHUNK)  # source: the client

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        """Forward what the server says, as slowly as the wire is."""
        self._carry(server, client, self.down, None)

    def _carry(
        self, source: socket.socket, target: socket.socket, way: Way, most: int | None
    ) -> None:
        """Forward one direction; most: bytes at once, None = as slowly as the wire is."""
        arriving: queue.Queue[tuple[float, bytes]] = queue.Queue(IN_FLIGHT)
        arrival = threading.Thread(target=self._arrive, args=(arriving, target), daemon=True)
        arrival.start()
        told = 0
        with contextlib.suppress(OSError):
            while chunk := source.recv(SEGMENT if way.is_thin else most or self._bytes_a_drip):
                self._flows.wait()
                if self._loss and random.random() < self._loss:  # noqa: S311 - no secret
                    with self._lock:
                        self._reset(source)
                        self._reset(target)
                    break
                counts = self._counts.get(source if way is self.up else target, [0, 0])
                counts[way is self.down] += len(chunk)
                told = 0 if self._tells.is_set() or way is self.up else told + len(chunk)
                if told > self._most_told:
                    self._tells.wait()
                arriving.put((way.send(len(chunk)), chunk))
                if most is None and self._bytes_a_drip < CHUNK:
                    time.sleep(DRIP_S)
        arriving.put((0.0, b""))
        arrival.join()

    def _arrive(self, arriving: "queue.Queue[tuple[float, bytes]]", target: socket.socket) -> None:
        """Send each piece on when it arrives; what cannot be sent is lost."""
        while True:
            at, chunk = arriving.get()
            if not chunk:
                break
            time.sleep(max(0.0, at - time.monotonic()))
            with contextlib.suppress(OSError):
                target.sendall(chunk)
        if target not in self._broken:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)


def _current_cluster(kubeconfig: dict[str, object]) -> dict[str, str]:
    """Return the cluster entry of the current context; a reference into `kubeconfig`."""
    contexts = _by_name(kubeconfig["contexts"])
    name = contexts[str(kubeconfig["current-context"])]["context"]["cluster"]
    found: dict[str, str] = _by_name(kubeconfig["clusters"])[name]["cluster"]
    return found


def _by_name(entries: object) -> dict[str, dict[str, dict[str, str]]]:
    assert isinstance(entries, list)
    return {entry["name"]: entry for entry in entries}
