"""The head of a request as a client sent it, and what is taken from it.

Nothing of it is passed on as it is, but those headers that `passed_on` names.
"""

import base64
import binascii
import re
from collections.abc import Iterable

import h11
import msgspec

from karmada_vc_agent.features.gateway.identity import Impersonation
from karmada_vc_agent.features.gateway.server.http_messages import HEAD_BYTES
from karmada_vc_agent.features.gateway.server.statuses import RefusalError

Headers = list[tuple[bytes, bytes]]
"""Lower-case name -> value, in the order of the message."""

PREFIX = "/virtualclusters/"
"""What each path begins with; then follows the name of a virtual cluster, and a slash."""
_CLUSTER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TARGET = re.compile(rb"/[\x21\x22\x24-\x7e]*")
"""A path with its query: no scheme, no host, no fragment, nothing that is no visible ASCII."""
_IMPERSONATE = b"impersonate-"
_USER, _GROUP = b"impersonate-user", b"impersonate-group"
_PROTOCOLS = b"sec-websocket-protocol"
_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."  # noqa: S105 - a name, no secret
PASSED_ON = frozenset({b"user-agent", b"if-none-match", b"if-modified-since", b"range"})
"""Headers of a request that are passed on, beside those that a VirtualRequest has."""
UPGRADE_HEADERS = frozenset(
    {
        b"upgrade",
        b"x-stream-protocol-version",
        b"origin",
        b"sec-websocket-key",
        b"sec-websocket-version",
        b"sec-websocket-extensions",
        b"sec-websocket-protocol",
    }
)
"""Headers that are passed on with an upgrade (G-61), repeated ones too."""


class Head(msgspec.Struct, frozen=True):
    """The head of a request. path: of the virtual cluster, percent-encoded as received."""

    method: str
    cluster: str
    path: str
    query: str
    headers: Headers
    token: str
    is_upgrade: bool

    def value(self, name: bytes) -> str:
        """Return a header that may occur several times, its values joined as HTTP says."""
        return ", ".join(value.decode("latin-1") for key, value in self.headers if key == name)


def head_of(request: h11.Request) -> Head:
    """Return what a request says. Raises RefusalError: what no client of Kubernetes sends."""
    headers = list(request.headers)
    if len(request.target) + sum(len(n) + len(v) + 4 for n, v in headers) > HEAD_BYTES:
        raise RefusalError(431, "the head of the request is too large")
    _check_framing(headers)
    if not _TARGET.fullmatch(request.target):
        raise RefusalError(400, "the request needs an absolute path")
    target, _, query = request.target.decode("ascii").partition("?")
    cluster, path = _split(target)
    token, headers = _without_token_protocol(headers)
    return Head(
        method=request.method.decode("ascii"),
        cluster=cluster,
        path=path,
        query=query,
        headers=headers,
        token=_bearer(headers) or token,
        is_upgrade=_is_upgrade(headers),
    )


def impersonation_of(headers: Iterable[tuple[bytes, bytes]]) -> Impersonation:
    """Return the headers Impersonate-* of a request. Raises RefusalError if one is no text."""
    users, groups, others = [], [], []
    for name, value in headers:
        if not name.startswith(_IMPERSONATE):
            continue
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            raise RefusalError(400, f"the header {name.decode()} is not UTF-8") from error
        if name == _USER:
            users.append(text)
        elif name == _GROUP:
            groups.append(text)
        else:
            others.append(name.decode().title())
    return Impersonation(tuple(users), tuple(groups), tuple(others))


def _check_framing(headers: Headers) -> None:
    """Refuse what two readers may take for two different messages.

    h11 has refused other transfer encodings than chunked and lengths that differ.
    """
    names = [name for name, _ in headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise RefusalError(400, "the request has both a length and a transfer encoding")
    if names.count(b"authorization") > 1:
        raise RefusalError(400, "the request has several headers Authorization")


def _split(target: str) -> tuple[str, str]:
    """Return the virtual cluster, "" for what names none, and the path below it."""
    rest = target.removeprefix(PREFIX)
    if rest == target:
        return "", target
    cluster, slash, path = rest.partition("/")
    if not _CLUSTER.fullmatch(cluster):
        return "", target
    return cluster, slash + path or "/"


def _bearer(headers: Headers) -> str:
    """Return the token of the header Authorization; Karmada writes its scheme in lower case."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if scheme.lower() == "bearer" else ""
    return ""


def _is_upgrade(headers: Headers) -> bool:
    """Whether `upgrade` is among the options of Connection, in any case (G-60)."""
    options = (
        option.strip().lower()
        for name, value in headers
        if name == b"connection"
        for option in value.split(b",")
    )
    return b"upgrade" in options


def _without_token_protocol(headers: Headers) -> tuple[str, Headers]:
    """Take a token out of the protocols of a WebSocket, where browsers put it (G-11)."""
    token, kept = "", []
    for name, value in headers:
        if name != _PROTOCOLS:
            kept.append((name, value))
            continue
        protocols = [part.strip() for part in value.decode("latin-1").split(",")]
        left = [part for part in protocols if not part.startswith(_TOKEN_PROTOCOL)]
        for part in protocols:
            if part.startswith(_TOKEN_PROTOCOL):
                token = _decoded(part.removeprefix(_TOKEN_PROTOCOL))
        if left:
            kept.append((name, ", ".join(left).encode("latin-1")))
    return token, kept


def _decoded(text: str) -> str:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return raw.decode("ascii")
    except (binascii.Error, ValueError):
        return ""
