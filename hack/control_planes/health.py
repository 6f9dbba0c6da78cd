"""Ask a component whether it is healthy."""

import http.client
import ssl
import urllib.parse
from functools import cache

TIMEOUT_S = 2.0


def find_problem(url: str, ca: str) -> str:
    """Ask a health URL once; return "" when it answers 200, else what is wrong.

    ca: file with the authority that an https URL must be signed by; "" for plain http.
    """
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    connection: http.client.HTTPConnection
    try:
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                host, port, context=_context(ca), timeout=TIMEOUT_S
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", parts.path)
            response = connection.getresponse()
            response.read()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return f"no answer from {url}: {error}"
    return "" if response.status == 200 else f"{url} answers {response.status}"


@cache
def _context(ca: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)
