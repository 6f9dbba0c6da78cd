"""What is answered instead of an API server: by proxies, load balancers, and half a server."""

from typing import NamedTuple

import orjson

from tests.fakes.storage import StatusError


class PageFault(NamedTuple):
    """A response to every request. body: of it; code: its HTTP status."""

    code: int
    body: bytes


def _status(code: int, reason: str, *named: str) -> bytes:
    return orjson.dumps(StatusError(code, reason, "as the test wants", *named).status)


PAGES: dict[str, PageFault] = {
    "404 plain": PageFault(404, b"default backend - 404"),
    "404 page not found": PageFault(404, b"404 page not found\n"),
    "404 JSON": PageFault(404, b'{"message": "no Route matched with those values"}'),
    "404 Status": PageFault(404, _status(404, "NotFound")),
    "404 Status of a cluster": PageFault(404, _status(404, "NotFound", "hub-1", "clusters")),
    "401 Status": PageFault(401, _status(401, "Unauthorized")),
    "401 page": PageFault(401, b"<html>sign in</html>"),
    "403 Status": PageFault(403, _status(403, "Forbidden")),
    "403 page": PageFault(403, b"<html>denied</html>"),
    "500 Status": PageFault(500, _status(500, "InternalError")),
    "502 page": PageFault(502, b"<html>bad gateway</html>"),
    "503 plain": PageFault(503, b"service unavailable"),
    "200 HTML": PageFault(200, b"<html>welcome</html>"),
    "200 JSON": PageFault(200, b"{}"),
    "200 list without version": PageFault(200, b'{"kind":"List","metadata":{},"items":[]}'),
    "200 list of version 0": PageFault(
        200, b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"0"},"items":[]}'
    ),
    "200 cut JSON": PageFault(
        200, b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":['
    ),
}
"""All are outages: nothing of them is a statement about an object or a kind."""
