"""Credentials of one API server: address, trust, and identity."""

import base64
import os
import re
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TOKEN_REREAD_S = 60.0
"""Kubelets renew a mounted token long before it expires; a minute's delay is fine."""
TOKEN_RETRY_S = 1.0
_TOKEN = re.compile(rb"[ -~]+")
"""Characters allowed in a header."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """An API server and the identity to use; created by kubeconfig.py.

    server: URL without a trailing slash. token: returns the bearer token, or None.
    source: the file or account, for messages. kubeconfig, context: the file and its context, to
    read them again. suspect: called when the server rejects the credential. is_outdated: whether to
    read them again although the file is the same. certificate: the client certificate of the file
    with its chain, in PEM.
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
    suspect: Callable[[], None] = lambda: None
    is_outdated: Callable[[], bool] = lambda: False
    certificate: bytes | None = None

    def authorization(self) -> dict[str, str]:
        """Return the header that authenticates us; none where a certificate does."""
        if token := self.token():
            return {"Authorization": f"Bearer {token}"}
        if self.basic_auth:
            password = base64.b64encode(":".join(self.basic_auth).encode())
            return {"Authorization": f"Basic {password.decode()}"}
        return {}


class TokenFile:
    """A bearer token in a file that is renewed by another writer."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_after = float("-inf")

    def __call__(self) -> str:
        """Return the token, read again once a minute; the last valid one if there is none now.

        Raises OSError if none was ever read.
        """
        now = self._clock()
        if now >= self._read_after:
            try:
                self._token = self._read()
                self._read_after = now + TOKEN_REREAD_S
            except OSError:
                self._read_after = now + TOKEN_RETRY_S
                if not self._token:
                    raise
        return self._token

    def suspect(self) -> None:
        """Read the token again soon: the server rejected it."""
        self._read_after = min(self._read_after, self._clock() + TOKEN_RETRY_S)

    def _read(self) -> str:
        content = self._path.read_bytes().strip()
        if not _TOKEN.fullmatch(content):
            # Most of the time it is just being written.
            raise OSError(f"{self._path} contains no token")
        return content.decode()


def make_ssl_context(
    ca_pem: str | None, certificate: tuple[bytes, bytes] | None, *, verify: bool
) -> ssl.SSLContext:
    """Return a client context; certificate = (chain, key) in PEM.

    Raises ssl.SSLError for invalid material.
    """
    context = ssl.create_default_context(cadata=ca_pem)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        # The ssl module reads key material from files only.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "client.pem")
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(b"\n".join(certificate))
            context.load_cert_chain(path)
    return context


def decode_base64(text: str) -> bytes:
    """Decode a `*-data` field. Raises ValueError for invalid base64."""
    return base64.b64decode(text, validate=True)
