"""Bytes of clients, good and bad, against the real listener over TLS; what reaches the handler."""

import asyncio
import random
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import orjson
import pytest

from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.server import connections
from karmada_vc_agent.features.gateway.server.connections import Exchange, Listener
from karmada_vc_agent.kube.https import ServingCertificate
from tests.fakes.bursts import burst, still_open
from tests.fakes.gateway_lab import read_reply
from tests.fakes.tls import trusting, write_certificate

GET = b"GET /virtualclusters/a/api HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\n"
LAST = GET + b"Connection: close\r\n\r\n"
SMUGGLED = b"GET /virtualclusters/b/secret HTTP/1.1\r\nHost: x\r\n\r\n"


async def _reserve_nothing() -> None:
    """Wait for nothing."""


@pytest.fixture(autouse=True)
def lingers_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LINGER_S", 0.05)


class Server:
    """A listener whose handler notes what it is given, and echoes bodies."""

    def __init__(self, folder: Path, waiting: int = 64) -> None:
        paths = write_certificate(folder)
        self.certificate = ServingCertificate(*paths)
        self.listener = Listener(self.certificate.context, self._handle, waiting)
        self.trust = trusting(paths[0])
        self.seen: list[tuple[str, str, bytes]] = []
        self.release = asyncio.Event()
        self.port = 0

    async def _handle(self, exchange: Exchange) -> None:
        head = exchange.head
        try:
            body = await exchange.body(_reserve_nothing)
        except RefusalError as error:
            await exchange.refuse(error)
            return
        self.seen.append((head.cluster, head.path, body))
        if head.path == "/wait":
            await self.release.wait()
        if head.path == "/stream":
            await exchange.begin(200, [("Content-Type", "application/json")], is_long=True)
            await exchange.send(b"{}\n")
            await exchange.disconnected()
            return
        await exchange.answer(200, [("Content-Type", "text/plain")], body or b"ok")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def say(self, data: bytes) -> bytes:
        """Send bytes and return all that comes back until the server closes."""
        async with self.client() as (reader, writer):
            writer.write(data)
            parts = []
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(20):
                    while part := await reader.read(65536):
                        parts.append(part)
            return b"".join(parts)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    found = Server(tmp_path)
    found.port = await found.listener.start("127.0.0.1", 0)
    yield found
    found.release.set()
    await found.listener.stop(1.0, lambda: None)


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)


def _codes(answers: bytes) -> list[int]:
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", answers)]


async def test_requests_of_a_connection_are_answered_one_after_the_other(server: Server) -> None:
    answers = await server.say((GET + b"\r\n") * 2 + LAST)
    assert _codes(answers) == [200, 200, 200]
    assert len(server.seen) == 3


async def test_a_body_is_read_by_its_length_or_in_chunks(server: Server) -> None:
    post = b"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\n"
    post += b"Connection: close\r\n"
    await server.say(post + b"Content-Length: 3\r\n\r\nabc")
    await server.say(post + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert [body for *_, body in server.seen] == [b"abc", b"abc"]


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_head_of_many_lines_is_refused(server: Server, *, is_first: bool) -> None:
    """Each costs as much as a kilobyte; also where it comes behind another request."""
    async with server.client() as (reader, writer):
        many = b"GET /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 5000 + b"\r\n"
        one = b"GET /virtualclusters/a/y HTTP/1.1\r\nHost: x\r\n\r\n"
        writer.write(many if is_first else one + many)
        if not is_first:
            assert (await read_reply(reader)).code == 200
        assert (await read_reply(reader)).code == 431
    assert [path for _, path, _ in server.seen] == ([] if is_first else ["/y"])


async def test_a_body_of_many_lines_is_no_head(server: Server) -> None:
    body = b"a: b\n" * 5000
    head = f"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    async with server.client() as (reader, writer):
        writer.write(head.encode() + body)
        assert (await read_reply(reader)).body == body


async def test_a_body_of_tiny_chunks_is_refused(server: Server) -> None:
    head = b"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with server.client() as (reader, writer):
        writer.write(head + b"1\r\nx\r\n" * 3000 + b"0\r\n\r\n")
        assert (await read_reply(reader)).code == 400


async def test_client_that_expects_100_is_sent_continue(server: Server) -> None:
    post = b"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
    async with server.client() as (reader, writer):
        writer.write(post + b"Content-Length: 3\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 100")
        writer.write(b"abc")
        assert await reader.readline() == b"\r\n"
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_body_announced_too_large_is_refused_before_it_arrives(
    server: Server,
) -> None:
    post = b"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
    async with server.client() as (reader, writer):
        writer.write(post + b"Content-Length: 3145729\r\n\r\n")
        async with asyncio.timeout(5):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    assert server.seen == []


async def test_client_that_requests_close_is_closed_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Karmada sends each request on a connection of its own."""
    monkeypatch.setattr(connections, "LINGER_S", 60.0)
    async with server.client() as (reader, writer):
        writer.write(LAST)
        async with asyncio.timeout(30):
            assert _codes(await reader.read()) == [200]


async def test_client_that_disconnects_ends_a_long_request(server: Server) -> None:
    async with server.client() as (reader, writer):
        writer.write(b"GET /virtualclusters/a/stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"{}\n")
        assert server.listener.count() == 1
    await _until(lambda: not server.listener.count())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (GET + b"X: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (
            b"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n"
            + b"x" * 4_000_000,
            413,
        ),
        (b"GET http://127.0.0.1/virtualclusters/a/api HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /virtualclusters/a/api HTTP/1.1\r\n\r\n", 400),
        (GET + b"Host: y\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01garbage\r\n\r\n", 400),
    ],
    ids=[
        *("head", "body", "absolute", "connect", "star", "space", "no-host", "hosts", "http2"),
        "garbage",
    ],
)
async def test_what_is_no_request_is_answered_with_a_status(
    server: Server, sent: bytes, code: int
) -> None:
    answers = await server.say(sent)
    assert _codes(answers) == [code]
    status = orjson.loads(answers.partition(b"\r\n\r\n")[2])
    assert (status["kind"], status["code"]) == ("Status", code)
    assert server.seen == []


FRAMINGS = {
    "both": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG" + SMUGGLED,
    "both the other way": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n"
    + SMUGGLED,
    "two lengths": b"Content-Length: 0\r\nContent-Length: 50\r\n\r\n" + SMUGGLED,
    "a list of lengths": b"Content-Length: 0, 50\r\n\r\n" + SMUGGLED,
    "a sign": b"Content-Length: +3\r\n\r\nabc" + SMUGGLED,
    "negative": b"Content-Length: -1\r\n\r\n" + SMUGGLED,
    "hexadecimal": b"Content-Length: 0x10\r\n\r\n" + SMUGGLED,
    "other encoding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two encodings": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a vertical tab": b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a bad chunk size": b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n" + SMUGGLED,
    "a chunk that is longer": b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("name", FRAMINGS)
async def test_a_request_does_not_hide_in_another_ones_body(server: Server, name: str) -> None:
    post = b"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\n"
    codes = _codes(await server.say(post + FRAMINGS[name]))
    assert codes
    assert all(code >= 400 for code in codes), codes
    assert [seen for seen in server.seen if seen[0] == "b"] == []


async def test_random_bytes_are_routed_only_by_what_they_say(server: Server) -> None:
    """Cuts, doubles and changes good requests; whatever is answered is a good request or 4xx."""
    chance = random.Random(7)  # noqa: S311 - no secret
    good = [
        GET + b"\r\n",
        b"POST /virtualclusters/a/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ]
    for _ in range(60):
        data = bytearray(chance.choice(good) + chance.choice(good))
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(data))
            change = chance.choice(("cut", "byte", "line", "double"))
            if change == "cut":
                del data[at : at + chance.randrange(1, 9)]
            elif change == "byte":
                data[at] = chance.randrange(256)
            elif change == "line":
                data[at:at] = chance.choice((b"\r\n", b"\n", b"\r", b"\0", b": ", b" "))
            else:
                data[at:at] = data[at : at + 20]
        async with server.client() as (reader, writer):
            writer.write(bytes(data))
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(0.05):
                    await reader.read()
    assert len(server.seen) >= 10
    assert _codes(await server.say(LAST)) == [200]


async def test_idle_connections_free_slots_for_new_ones(tmp_path: Path) -> None:
    server = Server(tmp_path, waiting=4)
    server.port = await server.listener.start("127.0.0.1", 0)
    async with server.client() as busy:
        busy[1].write(b"GET /virtualclusters/a/wait HTTP/1.1\r\nHost: x\r\n\r\n")
        idle = [
            await asyncio.open_connection("127.0.0.1", server.port, ssl=server.trust)
            for _ in range(8)
        ]
        plain = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(8)]
        assert _codes(await server.say(LAST)) == [200]
        assert server.listener.count() < 8
        server.release.set()
        assert (await busy[0].readline()).startswith(b"HTTP/1.1 200")
        for _, writer in (*idle, *plain):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    await server.listener.stop(1.0, lambda: None)


async def test_simultaneous_connections_free_slots_too(tmp_path: Path) -> None:
    server = Server(tmp_path, waiting=8)
    server.port = await server.listener.start("127.0.0.1", 0)
    with burst(server.port, 60) as opened:
        assert await still_open(opened) <= 8
        assert server.listener.count() <= 8
        assert _codes(await server.say(LAST)) == [200]
    await server.listener.stop(1.0, lambda: None)


async def test_only_tls_1_3_is_spoken_and_http_1_1_agreed_on(server: Server) -> None:
    old = ssl.create_default_context()
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", server.port, ssl=old)
    server.trust.set_alpn_protocols(["h2", "http/1.1"])
    async with server.client() as (_, writer):
        secured = writer.get_extra_info("ssl_object")
        assert secured.version() == "TLSv1.3"
        assert secured.selected_alpn_protocol() == "http/1.1"


async def test_a_changed_certificate_is_used_and_a_broken_one_is_not(
    server: Server, tmp_path: Path
) -> None:
    certificate, key = write_certificate(tmp_path, "second")
    assert server.certificate.check()
    server.trust = trusting(certificate)
    assert _codes(await server.say(LAST)) == [200]
    key.write_text("no key")
    assert not server.certificate.check()
    assert _codes(await server.say(LAST)) == [200]


async def test_the_end_lets_a_request_in_progress_be_answered(server: Server) -> None:
    async with server.client() as (reader, writer):
        writer.write(b"GET /virtualclusters/a/wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await _until(lambda: bool(server.seen))
        end = asyncio.create_task(server.listener.stop(5.0, server.release.set))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await end
    assert server.listener.count() == 0


async def test_the_end_waits_for_no_idle_client(server: Server) -> None:
    def idle() -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", server.port))
        client = server.trust.wrap_socket(plain, server_hostname="127.0.0.1")
        client.sendall(GET + b"\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        return client

    with await asyncio.to_thread(idle):  # it does not read, as the pools of many clients
        async with asyncio.timeout(20):
            await server.listener.stop(60.0, lambda: None)
    assert server.listener.count() == 0


async def test_the_end_lets_an_answer_be_read_by_a_slow_client(server: Server) -> None:
    assert server.listener._server is not None
    server.listener._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    body = b"x" * 80_000
    head = POST + b"Content-Length: %d\r\n\r\n" % len(body)

    def request() -> ssl.SSLSocket:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", server.port))
        client = server.trust.wrap_socket(plain, server_hostname="127.0.0.1")
        client.sendall(head + body)
        return client

    def read(client: ssl.SSLSocket) -> bytes:
        got = b""
        with suppress(OSError), client:
            while more := client.recv(4096):
                got += more
        return got

    client = await asyncio.to_thread(request)
    await _until(lambda: bool(server.seen and server.listener._waiting))
    assert any(each.has_unsent for each in server.listener._waiting)
    end = asyncio.create_task(server.listener.stop(60.0, lambda: None))
    await asyncio.sleep(0)
    assert (await asyncio.to_thread(read, client)).endswith(b"\r\n\r\n" + body)
    await end
    assert server.listener.count() == 0
