"""HTTPS to webhooks: one POST of JSON, one answer."""

import asyncio
import ssl
from dataclasses import dataclass

import aiohttp
from yarl import URL

ANSWER_BYTES = 16 * 2**20


class WebhookError(Exception):
    """The webhook could not be asked, or said no; `str()` says what happened."""


class WebhookTimeoutError(WebhookError):
    """No answer came in time."""


class WebhookAwayError(WebhookError):
    """There was no answer at all: no connection, or one that broke off."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a webhook is, and who it has to be.

    host: name of its certificate and of the Host header where that is not the one of the URL.
    ca_bundle: PEM; empty for the certificates this machine trusts.
    """

    url: str
    ca_bundle: bytes
    host: str | None = None


class WebhookClient:
    """Posts to webhooks; no connection is opened before the first one is called."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def post(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:
        """Send a body and return that of a 2xx answer. Raises WebhookError."""
        url = URL(endpoint.url)
        if url.scheme != "https":
            raise WebhookError(f"{endpoint.url} is no https URL")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if endpoint.host:
            headers["Host"] = endpoint.host
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._open().post(
                    url,
                    data=body,
                    headers=headers,
                    ssl=self._context(endpoint.ca_bundle),
                    server_hostname=endpoint.host,
                    allow_redirects=False,
                ) as response,
            ):
                answer = bytearray()
                async for chunk in response.content.iter_any():
                    answer += chunk
                    if len(answer) > ANSWER_BYTES:
                        raise WebhookError(f"its answer is larger than {ANSWER_BYTES >> 20} MiB")
                status = response.status
        except TimeoutError as error:
            raise WebhookTimeoutError(f"no answer within {timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise WebhookAwayError(f"{endpoint.url}: {error or type(error).__name__}") from error
        if not 200 <= status < 300:
            raise WebhookError(f"{endpoint.url}: it answered {status}")
        return bytes(answer)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # callers are few, none waits for others
                timeout=aiohttp.ClientTimeout(),  # each call has its own
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        if ca_bundle not in self._contexts:
            try:
                context = ssl.create_default_context(cadata=ca_bundle.decode() or None)
            except (ssl.SSLError, ValueError) as error:
                raise WebhookError("its caBundle holds no certificate") from error
            # Python 3.13 asks of a CA what Go, for which these are made, does not.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            self._contexts[ca_bundle] = context
        return self._contexts[ca_bundle]
