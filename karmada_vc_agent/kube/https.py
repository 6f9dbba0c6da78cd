"""HTTPS with others: a client of webhooks, and a served certificate renewed in files."""

import asyncio
import hashlib
import logging
import ssl
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import aiohttp
from cachetools import LRUCache
from yarl import URL

from karmada_vc_agent.kube.errors import TooLargeError
from karmada_vc_agent.kube.flows import FairSlots, LogOnce
from karmada_vc_agent.kube.transport import Resolver, read_body, trusting

WEBHOOK_CONNECTIONS = 64
RESOLVED_WITHIN_S = 30.0
"""As long as Karmada waits for a webhook; each has a shorter time-out of its own."""
WEBHOOK_ANSWER_BYTES = 16 * 2**20
BUNDLES_KEPT = 256
"""Trust of webhooks that were called last, 17 to 830 KB each; bundles rotate without end."""


class WebhookError(Exception):
    """The webhook failed, or its address or response is invalid; `str()` says how."""


Endpoint = tuple[str, bytes, str | None]
"""URL of a webhook, caBundle in PEM ("" = what this machine trusts), name if not of the URL."""


class WebhookClient:
    """Posts to webhooks. connections: of all, divided fairly among flows."""

    def __init__(
        self, connections: int = WEBHOOK_CONNECTIONS, is_shared: Callable[[], bool] = lambda: True
    ) -> None:
        self._slots = FairSlots(connections, is_shared)
        self._contexts: LRUCache[bytes, ssl.SSLContext] = LRUCache(BUNDLES_KEPT)

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            # Slots are the limit; a connection is held no longer than a slot.
            connector=aiohttp.TCPConnector(limit=0, resolver=Resolver(RESOLVED_WITHIN_S)),
            timeout=aiohttp.ClientTimeout(),  # each call has its own
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def post(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:
        """Return the body of a 2xx response. Raises TimeoutError, ConnectionError, WebhookError."""
        address, ca_bundle, host = endpoint
        url = URL(address)
        if url.scheme != "https":
            raise WebhookError(f"{address} is not an https URL")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if host:
            headers["Host"] = host
        try:
            async with (
                self._slots.hold(),
                asyncio.timeout(timeout_s),
                self._session.post(
                    url,
                    data=body,
                    headers=headers,
                    ssl=self._context(ca_bundle),
                    server_hostname=host,
                    allow_redirects=False,
                ) as response,
            ):
                answer = await read_body(response, WEBHOOK_ANSWER_BYTES)
                status = response.status
        except TooLargeError as error:
            raise WebhookError(str(error)) from error
        except TimeoutError as error:
            raise TimeoutError(f"no response within {timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionError(f"{address}: {error or type(error).__name__}") from error
        if not 200 <= status < 300:
            raise WebhookError(f"{address}: unexpected status {status}")
        return answer

    async def close(self) -> None:
        if "_session" in vars(self):  # it connects on demand
            await self._session.close()
            del self._session

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(ca_bundle)
        if context is None:
            try:
                context = self._contexts[ca_bundle] = trusting(ca_bundle.decode() or None)
            except (ssl.SSLError, ValueError) as error:
                raise WebhookError("its caBundle contains no certificate") from error
        return context


_log = logging.getLogger(__name__)

CERTIFICATE_CHECK_S = 10.0
"""The period of the comparison; a mounted Secret takes the kubelet a minute or more."""


class ServingCertificate:
    """A TLS server context that takes over a certificate when its files change. Raises OSError."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = (certificate, key)
        self._once = LogOnce(_log)
        self._seen = self._digest()
        self.context = _server_context(*self._paths)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CERTIFICATE_CHECK_S)
            self.check()

    def check(self) -> bool:
        """Use the files if they changed and go together; return whether they are used now."""
        try:
            digest = self._digest()
            if digest == self._seen:
                return False
            _server_context(*self._paths)  # what is not valid must not reach the one in use
            self.context.load_cert_chain(*self._paths)
        except OSError as error:
            self._once.warning("Keeping the certificate in use", reason=str(error))
            return False
        self._seen = digest
        self._once.ended()
        _log.info("Using a changed certificate", extra={"file": str(self._paths[0])})
        return True

    def _digest(self) -> bytes:
        return hashlib.sha256(b"\0".join(path.read_bytes() for path in self._paths)).digest()


def _server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    return context
