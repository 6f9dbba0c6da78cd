"""A server on loopback that breaks TCP, TLS, HTTP and JSON in every way we could think of.

Runs in threads with blocking sockets, so that it can do what no HTTP library lets it. As a
program (`python -m tests.fakes.hostile_server SEED`) it prints its port and serves until killed.
"""

import contextlib
import gzip
import itertools
import random
import select
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from tests.fakes.authority import Authority

OBJECT = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","resourceVersion":"7"}}'
LIST = b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}'
EVENT = b'{"type":"MODIFIED","object":' + OBJECT + b"}\n"
STALL_S = 1.5
"""Longer than the patience of the clients under test."""
QUIET_S = 20.0
"""After so long without a byte a thread of this server ends."""

Socket = socket.socket


def head(length: int, *lines: str, status: str = "200 OK") -> bytes:
    fields = [f"HTTP/1.1 {status}", "Content-Type: application/json", *lines]
    if length >= 0:
        fields.append(f"Content-Length: {length}")
    return ("\r\n".join(fields) + "\r\n\r\n").encode()


def answer(body: bytes, *lines: str, status: str = "200 OK") -> bytes:
    return head(len(body), *lines, status=status) + body


def chunked(*chunks: bytes) -> bytes:
    parts = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head(-1, "Transfer-Encoding: chunked") + parts


ZIPPED = gzip.compress(OBJECT * 50)

BYTES: dict[str, bytes] = {
    "no HTTP at all": b"\x00\xff\x16garbage" * 20,
    "HTTP 0.9": OBJECT,
    "status without a number": b"HTTP/1.1 abc\r\n\r\n",
    "status that is unknown": answer(b"", status="999 \xff"),
    "header without a colon": b"HTTP/1.1 200 OK\r\nwhat is this\r\n\r\n",
    "header with bytes of no charset": b"HTTP/1.1 200 OK\r\nX-\xff\xfe: \xff\x00\r\n\r\n",
    "ETag of no charset": b"HTTP/1.1 200 OK\r\nETag: \xff\xed\xa0\r\nContent-Length: 2\r\n\r\n{}",
    "huge header": answer(OBJECT, "X-Huge: " + "x" * 100_000),
    "ten thousand headers": answer(OBJECT, *(f"X-{n}: {n}" for n in range(10_000))),
    "length that is too large": head(len(OBJECT) + 500) + OBJECT,
    "length that is too small": head(5) + OBJECT,
    "length below zero": head(-1, "Content-Length: -5") + OBJECT,
    "length of no number": head(-1, "Content-Length: many") + OBJECT,
    "two lengths": head(3, "Content-Length: 9") + OBJECT,
    "length and chunks": head(3, "Transfer-Encoding: chunked") + OBJECT,
    "unknown transfer encoding": head(-1, "Transfer-Encoding: banana") + OBJECT,
    "chunks that break off": chunked(OBJECT[:20]),
    "chunk of no size": head(-1, "Transfer-Encoding: chunked") + b"zz\r\n" + OBJECT,
    "chunk of an endless size": head(-1, "Transfer-Encoding: chunked") + b"f" * 10_000,
    "redirect to itself": answer(b"", "Location: /api/v1/configmaps", status="302 Found"),
    "redirect to nowhere": answer(b"", "Location: http://[::1", status="307 Temporary Redirect"),
    "redirect to a file": answer(b"", "Location: file:///etc/passwd", status="301 Moved"),
    "redirect without an address": answer(b"", status="308 Permanent Redirect"),
    "a thousand interim answers": head(-1, status="103 Early Hints") * 1000 + answer(OBJECT),
    "only an interim answer": head(-1, status="100 Continue"),
    "another protocol": head(-1, "Upgrade: h2c", "Connection: Upgrade", status="101 Switching"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "empty content": answer(b""),
    "garbage that claims gzip": answer(b"no gzip" * 9, "Content-Encoding: gzip"),
    "gzip that breaks off": answer(ZIPPED[:30], "Content-Encoding: gzip"),
    "garbage that claims deflate": answer(b"\x78\x9c\xff\xff", "Content-Encoding: deflate"),
    "deflate with a wrong sum": answer(
        zlib.compress(OBJECT)[:-4] + b"abcd", "Content-Encoding: deflate"
    ),
    "unknown encoding": answer(OBJECT, "Content-Encoding: banana"),
    "unknown charset": answer(OBJECT, "Content-Type: application/json; charset=\xff"),
    "cookies of no kind": answer(OBJECT, "Set-Cookie: \x01=;;;=\xff", "Set-Cookie: a=b; expires=0"),
    "HTML": answer(b"<html>log in here</html>"),
    "JSON that breaks off": answer(OBJECT[:-9]),
    "JSON that is a list": answer(b"[1,2]"),
    "JSON that is null": answer(b"null"),
    "JSON that is text": answer(b'"text"'),
    "JSON of no charset": answer(b'{"a":"\xff\xfe"}'),
    "JSON with a lone surrogate": answer(b'{"a":"\\ud800"}'),
    "JSON nested deep": answer(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "refusal that is text": answer(b"\xff\x00no", status="500 \xfe"),
    "refusal that is a list": answer(b"[[]]", status="409 Conflict"),
    "refusal of odd types": answer(b'{"message":7,"reason":{},"code":"x"}', status="403 Forbidden"),
    "refusal that breaks off": head(900, status="503 Unavailable") + b"{",
    "not known": answer(b"{}", status="401 Unauthorized"),
    "patience without an end": answer(b"{}", "Retry-After: 1e400", status="429 Too Many"),
    "patience of no number": answer(b"{}", "Retry-After: nan", status="429 Too Many"),
    "patience below zero": answer(b"{}", "Retry-After: -1e9", status="429 Too Many"),
    "not changed": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "watch of garbage": chunked(EVENT, b"\xff\x00garbage\n", b"\n\n", b"[]\n"),
    "watch that breaks off in a line": chunked(EVENT, EVENT[:30]),
    "watch with an error": chunked(b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}\n'),
    "answer to no question": answer(OBJECT) + answer(OBJECT) + b"HTTP/1.1 5",
}
"""What is sent instead of an answer; the connection is closed afterwards."""


def reset(raw: Socket, _: Socket) -> None:
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def reset_in_a_body(raw: Socket, connection: Socket) -> None:
    connection.sendall(head(500) + OBJECT)
    reset(raw, connection)


def close(_: Socket, __: Socket) -> None:
    """Say nothing, and close."""


def stall(_: Socket, connection: Socket) -> None:
    select.select([connection], [], [], STALL_S)


def stall_in_a_body(raw: Socket, connection: Socket) -> None:
    connection.sendall(head(500) + OBJECT)
    stall(raw, connection)


def half_close(raw: Socket, connection: Socket) -> None:
    connection.sendall(head(500) + OBJECT)
    raw.shutdown(socket.SHUT_WR)
    stall(raw, connection)


def end_of_tls_only(raw: Socket, connection: Socket) -> None:
    """Say within TLS that this is all, in the middle of a body."""
    connection.sendall(head(500) + OBJECT)
    if isinstance(connection, ssl.SSLSocket):
        connection.settimeout(STALL_S)
        connection.unwrap()
    stall(raw, connection)


def garbage_below_tls(raw: Socket, connection: Socket) -> None:
    connection.sendall(head(500) + OBJECT)
    with socket.socket(fileno=socket.dup(raw.fileno())) as below:
        below.sendall(b"\x17\x03\x03\x00\x05hello\xff" * 9)
    stall(raw, connection)


def drip(_: Socket, connection: Socket) -> None:
    for byte in answer(OBJECT)[:40]:
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


def watch_that_stalls(raw: Socket, connection: Socket) -> None:
    connection.sendall(chunked(EVENT, EVENT))
    stall(raw, connection)


ACTS: dict[str, Callable[[Socket, Socket], None]] = {
    act.__name__.replace("_", " "): act
    for act in (
        reset,
        reset_in_a_body,
        close,
        stall,
        stall_in_a_body,
        half_close,
        end_of_tls_only,
        garbage_below_tls,
        drip,
        watch_that_stalls,
    )
}
"""What is done to a connection after a request; it is closed afterwards."""

DOORS = (
    "reset before TLS",
    "closed before TLS",
    "silent before TLS",
    "garbage before TLS",
    "slow TLS",
)
"""How a connection may be met; most are let in."""

EVILS = (*BYTES, *ACTS)


def server_context() -> ssl.SSLContext:
    start = datetime.now(UTC) - timedelta(days=1)
    pair = Authority().pair(start=start, lifetime=timedelta(days=2))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "server.pem")
        path.write_bytes(b"".join(pair))
        context.load_cert_chain(path)
    return context


class HostileServer:
    """Serves HTTPS; each request meets one of `evils`, or a good answer.

    evils: names from EVILS; goodness: how often, of 1, an answer is as it should be.
    doors: whether connections are also ill-treated before the first request.
    met: how often each evil was done.
    """

    def __init__(
        self,
        seed: int = 0,
        evils: tuple[str, ...] = EVILS,
        goodness: float = 0.4,
        *,
        doors: bool = True,
    ) -> None:
        self.evils = evils
        self.goodness = goodness
        self.doors = doors
        self.met: Counter[str] = Counter()
        self._random = random.Random(seed)  # noqa: S311 - a test
        self._turns = itertools.cycle(self._random.sample(evils, len(evils)))
        self._door_turns = itertools.cycle(DOORS)
        self._tls = server_context()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[Socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        self._end_all()
        for thread in self._threads:
            thread.join()

    def behave(self) -> None:
        """Answer as a server should from now on, on new connections."""
        self.goodness, self.doors = 1.0, False
        self._break_connections()

    def restart(self, pause_s: float) -> None:
        """Break all connections, refuse new ones for a while, and listen again."""
        self._end_all()
        time.sleep(pause_s)
        with self._lock:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)

    def _end_all(self) -> None:
        with self._lock:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self._break_connections()

    def _break_connections(self) -> None:
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _start(self, run: Callable[..., None], *arguments: Socket) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                raw, _ = self._listener.accept()
            except OSError:  # restarting
                time.sleep(0.01)
                continue
            self._start(self._serve, raw)

    def _serve(self, raw: Socket) -> None:
        with self._lock:
            self._connections.add(raw)
        try:
            with raw, contextlib.suppress(OSError, ValueError):
                raw.settimeout(QUIET_S)
                if self._let_in(raw):
                    self._talk(raw)
        finally:
            with self._lock:
                self._connections.discard(raw)

    def _let_in(self, raw: Socket) -> bool:
        if not self.doors or self._random.random() < 0.8:
            return True
        door = next(self._door_turns)
        self.met[door] += 1
        match door:
            case "reset before TLS":
                reset(raw, raw)
            case "silent before TLS":
                stall(raw, raw)
            case "garbage before TLS":
                raw.sendall(b"\x15\xff garbage" * 9)
            case "slow TLS":
                time.sleep(STALL_S / 2)
                return True
        return False

    def _talk(self, raw: Socket) -> None:
        """Serve one connection through a copy of its socket, so that `raw` stays below TLS."""
        below = raw.dup()
        below.settimeout(QUIET_S)
        with self._tls.wrap_socket(
            below, server_side=True, do_handshake_on_connect=False
        ) as connection:
            connection.do_handshake()
            received = b""
            while True:
                while b"\r\n\r\n" not in received:
                    chunk = connection.recv(65536)
                    if not chunk:
                        return
                    received += chunk
                request, _, received = received.partition(b"\r\n\r\n")
                received = _without_body(request, received, connection)
                if not self._answer(raw, connection, request):
                    return

    def _answer(self, raw: Socket, connection: Socket, request: bytes) -> bool:
        """Answer one request, well or not; return whether the connection goes on."""
        if self._random.random() >= self.goodness and self.evils:
            evil = next(self._turns)
            self.met[evil] += 1
            if evil in BYTES:
                connection.sendall(BYTES[evil])
            else:
                ACTS[evil](raw, connection)
            return False
        self.met["good"] += 1
        if b"watch=true" in request:
            connection.sendall(chunked(EVENT, EVENT) + b"0\r\n\r\n")
        else:
            connection.sendall(answer(LIST if b"limit=" in request else OBJECT))
        return True


def _without_body(request: bytes, received: bytes, connection: Socket) -> bytes:
    """Read the body of a request, or what came of it; return what came after it."""
    for line in request.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
            while len(received) < length:
                chunk = connection.recv(65536)
                if not chunk:
                    return b""  # the client is gone, as it may be at any byte
                received += chunk
            return received[length:]
    return received


if __name__ == "__main__":
    with HostileServer(int(sys.argv[1])) as server:
        print(server.port, flush=True)  # noqa: T201 - its answer
        while True:
            time.sleep(1.0)
            server.restart(0.1)
