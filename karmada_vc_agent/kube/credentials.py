"""How to reach one API server: address, trust, and who we are."""

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TOKEN_REREAD_S = 60.0
"""Kubelets renew a mounted token long before it ends; a minute late is early enough."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """An API server and the identity to use; made by kubeconfig.py.

    server: URL without a trailing slash. token: returns the bearer token, or None.
    source: where this came from, for messages. kubeconfig, context: the file and the context
    in it where it came from one, so that it can be read again.
    """

    server: str
    ssl_context: ssl.SSLContext | None
    source: str
    token: Callable[[], str | None] = lambda: None
    basic_auth: tuple[str, str] | None = None
    server_hostname: str | None = None
    proxy: str | None = None
    kubeconfig: Path | None = None
    context: str = ""


class TokenFile:
    """A bearer token on disk that somebody else renews."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""
        self._read_at = float("-inf")

    def __call__(self) -> str:
        """Return the token, read again at most once a minute; the last good one if unreadable."""
        if time.monotonic() - self._read_at > TOKEN_REREAD_S:
            try:
                self._token = self._read()
            except OSError:
                if not self._token:
                    raise
            self._read_at = time.monotonic()
        return self._token

    def _read(self) -> str:
        """Return what is in the file. Raises OSError, also where that cannot be a token."""
        token = self._path.read_bytes().strip()
        if not token.isascii() or not token.decode().isprintable():
            raise OSError(f"{self._path} holds no token")
        return token.decode()


def make_ssl_context(
    ca_pem: str | None, certificate: tuple[bytes, bytes] | None, *, verify: bool
) -> ssl.SSLContext:
    """Return a client context; certificate = (chain, key) in PEM.

    Raises ssl.SSLError for material that cannot be used.
    """
    context = ssl.create_default_context(cadata=ca_pem)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        # The ssl module reads key material from files only.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "client.pem")
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(b"\n".join(certificate))
            context.load_cert_chain(path)
    return context


def decode_base64(text: str) -> bytes:
    """Decode a `*-data` field; ValueError where it is no base64."""
    return base64.b64decode(text, validate=True)
