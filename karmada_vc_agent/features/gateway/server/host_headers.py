"""Headers to the host, and those of its answers that go on to the client."""

from collections.abc import Callable

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping.asked import Forward
from karmada_vc_agent.features.gateway.mapping.exchange import ResponseKind
from karmada_vc_agent.features.gateway.server.heads import PASSED_ON, UPGRADE_HEADERS, Head, Headers
from karmada_vc_agent.features.gateway.server.statuses import JSON

_CONDITIONAL = frozenset({b"if-none-match", b"if-modified-since", b"range"})
"""What depends on the bytes of the host: passed on where those are untouched."""
_OF_THE_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"date",
    }
)
_OF_THE_HOST = frozenset({b"audit-id", b"set-cookie", b"server", b"alt-svc"})
_FLOW_CONTROL = b"x-kubernetes-pf-"
_OF_MAPPED = frozenset({b"content-type", b"cache-control", b"retry-after"})
"""What still holds once a body was mapped."""
_WARNING, _LOCATION = b"warning", b"location"

MapText = Callable[[str], str]


def to_host(head: Head, forward: Forward, who: Caller) -> Headers:
    """Return the headers of a request to the host, all but Host, length and our own token."""
    is_opaque = forward.response.kind is ResponseKind.OPAQUE
    accept = forward.accept or ("*/*" if is_opaque else JSON)
    headers: Headers = [(b"accept", accept.encode("latin-1")), (b"accept-encoding", b"identity")]
    if forward.content_type:
        headers.append((b"content-type", forward.content_type.encode("latin-1")))
    passed = PASSED_ON if is_opaque else PASSED_ON - _CONDITIONAL
    if head.is_upgrade:
        passed |= UPGRADE_HEADERS
        headers.append((b"connection", b"Upgrade"))
    headers += [(name, value) for name, value in head.headers if name in passed]
    if not forward.as_gateway:
        headers += impersonating(who)
    return headers


def impersonating(who: Caller) -> Headers:
    """Return the headers by which the host takes a request for the client's."""
    groups = [(b"impersonate-group", group.encode()) for group in who.host_groups]
    return [(b"impersonate-user", who.host_user.encode()), *groups]


def to_client(headers: Headers, map_text: MapText, *, is_mapped: bool) -> list[tuple[str, str]]:
    """Return the headers of an answer. map_text: maps names of the host in texts (G-48)."""
    passed = []
    for name, raw in headers:
        if name in _OF_THE_CONNECTION or name in _OF_THE_HOST or name.startswith(_FLOW_CONTROL):
            continue
        value = raw.decode("latin-1")
        if name in (_WARNING, _LOCATION):
            value = map_text(value)
        elif is_mapped and name not in _OF_MAPPED:
            continue
        passed.append((name.decode().title(), value))
    return passed
