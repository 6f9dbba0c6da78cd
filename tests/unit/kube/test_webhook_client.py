"""HTTPS to webhooks: who is trusted, what counts as an answer."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from karmada_vc_agent.kube import flows, https
from karmada_vc_agent.kube.https import WebhookClient, WebhookError

SERVICE = "hook.ops.svc"


@dataclass
class Webhook:
    """A server that answers what the test says; its last request."""

    port: int = 0
    ca_bundle: bytes = b""
    status: int = 200
    body: bytes = b"{}"
    delay_s: float = 0.0
    host: str = ""
    received: bytes = b""
    slow: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/interpret"

    async def answer(self, request: web.Request) -> web.Response:
        self.host, self.received = request.host, await request.read()
        await asyncio.sleep(self.delay_s)
        if self.received == b"slow":
            self.slow += 1
            await self.released.wait()
        headers = {"Location": "https://127.0.0.1:1/elsewhere"} if self.status == 307 else {}
        return web.Response(status=self.status, body=self.body, headers=headers)


def certificate(directory: Path) -> Path:
    """Write a certificate that is its own CA, and its key, into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    names = [x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName(SERVICE)]
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = directory / "webhook.pem"
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, form, plain))
    (directory / "ca.pem").write_bytes(made.public_bytes(pem))
    return path


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    webhook = Webhook(ca_bundle=(tmp_path / "ca.pem").read_bytes())
    app = web.Application()
    app.router.add_post("/interpret", webhook.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    webhook.port = runner.addresses[0][1]
    yield webhook
    await runner.cleanup()


@pytest.fixture
async def client() -> AsyncIterator[WebhookClient]:
    client = WebhookClient()
    yield client
    await client.close()


async def test_the_body_is_posted_and_the_answer_returned(
    client: WebhookClient, webhook: Webhook
) -> None:
    webhook.body = b'{"a": 1}'
    endpoint = (webhook.url, webhook.ca_bundle, None)
    assert await client.post(endpoint, b"asked", 30.0) == b'{"a": 1}'
    assert webhook.received == b"asked"
    assert webhook.host == f"127.0.0.1:{webhook.port}"


async def test_service_is_called_by_its_own_name(client: WebhookClient, webhook: Webhook) -> None:
    await client.post((webhook.url, webhook.ca_bundle, SERVICE), b"", 30.0)
    assert webhook.host == SERVICE


@pytest.mark.parametrize("host", ["other.ops.svc", "hook.ops"])
async def test_a_certificate_for_another_name_is_refused(
    client: WebhookClient, webhook: Webhook, host: str
) -> None:
    with pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        await client.post((webhook.url, webhook.ca_bundle, host), b"", 30.0)
    assert webhook.host == ""


async def test_certificate_of_an_unknown_authority_is_refused(
    client: WebhookClient, webhook: Webhook
) -> None:
    with pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        await client.post((webhook.url, b"", None), b"", 30.0)


@pytest.mark.parametrize("status", [301, 307, 404, 500])
async def test_all_but_a_success_is_an_error(
    client: WebhookClient, webhook: Webhook, status: int
) -> None:
    webhook.status = status
    with pytest.raises(WebhookError, match=f"unexpected status {status}"):
        await client.post((webhook.url, webhook.ca_bundle, None), b"", 30.0)


async def test_an_answer_that_is_late_is_an_error_of_its_own(
    client: WebhookClient, webhook: Webhook
) -> None:
    webhook.delay_s = 3600.0
    with pytest.raises(TimeoutError, match="no response within 2 s"):
        await client.post((webhook.url, webhook.ca_bundle, None), b"", 2.0)


async def test_an_answer_that_is_too_large_is_an_error(
    client: WebhookClient, webhook: Webhook
) -> None:
    webhook.body = b"x" * (https.WEBHOOK_ANSWER_BYTES + 1)
    with pytest.raises(WebhookError, match="larger than 16 MiB"):
        await client.post((webhook.url, webhook.ca_bundle, None), b"", 30.0)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "", "ftp://x"])
async def test_anything_but_https_is_refused(client: WebhookClient, url: str) -> None:
    with pytest.raises(WebhookError, match="not an https URL"):
        await client.post((url, b"", None), b"", 30.0)


@pytest.mark.parametrize("bundle", [b"nonsense", b"\xff\xfe"])
async def test_a_bundle_without_certificates_is_an_error(
    client: WebhookClient, bundle: bytes
) -> None:
    with pytest.raises(WebhookError, match="caBundle contains no certificate"):
        await client.post(("https://127.0.0.1:1/x", bundle, None), b"", 30.0)


async def test_a_webhook_that_is_away_is_an_error(client: WebhookClient) -> None:
    with pytest.raises(ConnectionError, match=r"https://127\.0\.0\.1:1/x"):
        await client.post(("https://127.0.0.1:1/x", b"", None), b"", 30.0)


async def test_calls_of_one_virtual_cluster_that_hang_hold_up_no_other(webhook: Webhook) -> None:
    client = WebhookClient(8)
    endpoint = (webhook.url, webhook.ca_bundle, None)
    hanging = [
        asyncio.ensure_future(flows.run(cluster, partial(client.post, endpoint, b"slow", 30.0)))
        for cluster in "abc"
        for _ in range(20)
    ]
    await asyncio.sleep(10.0)
    assert webhook.slow == 7
    async with asyncio.timeout(5.0):
        await flows.run("d", partial(client.post, endpoint, b"asked", 30.0))
    assert not any(task.done() for task in hanging)
    webhook.released.set()
    await asyncio.gather(*hanging)
    await client.close()


async def test_trust_of_bundles_that_rotate_is_not_kept_for_ever(
    client: WebhookClient, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https, "BUNDLES_KEPT", 2)
    client = WebhookClient()
    for number in range(4):
        bundle = webhook.ca_bundle + b"#" * number
        assert await client.post((webhook.url, bundle, None), b"", 30.0) == webhook.body
    assert len(client._contexts) == 2
    await client.close()
