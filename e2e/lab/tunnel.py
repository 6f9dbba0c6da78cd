"""An HTTP proxy that does CONNECT, as between a site and the world."""

import contextlib
import socket
import threading
from typing import Self

CHUNK = 65536
_MADE = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REFUSED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"


class Tunnel:
    """Connects clients to where they say; refuses: answers them 502. tunnels: how many it made."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.refuses = False
        self.tunnels = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.end_all()

    def end_all(self) -> None:
        """End all connections there are."""
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ValueError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (chunk := client.recv(CHUNK)):
                    return
                head += chunk
            if self.refuses:
                client.sendall(_REFUSED)
                return
            host, _, port = head.split()[1].decode().rpartition(":")
            with socket.create_connection((host, int(port))) as server:
                self._join(client, server)

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        both = {client, server}
        with self._lock:
            self._open |= both
            self.tunnels += 1
        client.sendall(_MADE)
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server)
        back.join()
        with self._lock:
            self._open -= both


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
