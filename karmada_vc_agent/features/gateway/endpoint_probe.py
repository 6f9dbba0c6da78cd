"""Asks whether an endpoint of the gateway works, by the way that the hub takes to it (G-3)."""

import asyncio
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

PROBE_S = 10.0
_PATH = "api/v1/namespaces/kube-system"
_FOLLOWED = ("http", "https")
"""Proxies that can be tried from here."""


@dataclass(frozen=True, slots=True)
class ProbedEndpoint:
    """An endpoint as a Cluster names it. authorities: PEM. proxy: URL, "" = none."""

    url: str
    token: str
    authorities: bytes
    proxy: str = ""


class _NoProxyError(Exception):
    """The proxy cannot be reached from here."""


async def probe(endpoint: ProbedEndpoint) -> str | None:
    """Return what is wrong with an endpoint, or None if it answers a request.

    A proxy that cannot be reached from the host says nothing about the hub: then the gateway is
    probed directly.
    """
    try:
        context = _context(endpoint.authorities)
    except (ssl.SSLError, ValueError):
        return "the file of gateway.caFile contains no certificate"
    if urlsplit(endpoint.proxy).scheme in _FOLLOWED:
        try:
            return await _ask(endpoint, context, endpoint.proxy)
        except _NoProxyError:
            pass
    return await _ask(endpoint, context, None)


async def _ask(endpoint: ProbedEndpoint, context: ssl.SSLContext, proxy: str | None) -> str | None:
    headers = {"Authorization": f"Bearer {endpoint.token}", "Accept": "application/json"}
    url = f"{endpoint.url}{_PATH}"
    by = f" through proxy {proxy}" if proxy else ""
    try:
        async with (
            asyncio.timeout(PROBE_S),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(
                url, headers=headers, ssl=context, proxy=proxy, allow_redirects=False
            ) as answer,
        ):
            await answer.read()
            if answer.status == 200:
                return None
            return f"GET {url}{by}: status {answer.status}"
    except aiohttp.ClientProxyConnectionError as error:
        raise _NoProxyError from error
    except aiohttp.ClientConnectorDNSError as error:
        if proxy:  # its own name: that of the endpoint is for the proxy to resolve
            raise _NoProxyError from error
        return f"GET {url}: {error.os_error}"
    except TimeoutError:
        return f"GET {url}{by}: no response within {PROBE_S:g} s"
    except aiohttp.ClientConnectorError as error:
        return f"GET {url}{by}: {error.os_error}"
    except (aiohttp.ClientError, OSError) as error:
        return f"GET {url}{by}: {error or type(error).__name__}"


def _context(authorities: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authorities.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # as the hub
    # Python 3.13 requires more of a CA certificate than Go, which these are made for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
