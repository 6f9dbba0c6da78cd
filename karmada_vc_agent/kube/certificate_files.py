"""A certificate in files, for a server that keeps serving when it is renewed."""

import asyncio
import hashlib
import logging
import ssl
from pathlib import Path

from karmada_vc_agent.kube.log_once import LogOnce

_log = logging.getLogger(__name__)

CHECK_S = 10.0
"""The period of the comparison; a mounted Secret takes the kubelet a minute or more."""


class ServingCertificate:
    """A TLS server context that takes over a certificate when its files change.

    Raises OSError, which ssl.SSLError is, where there is none that can be used.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = (certificate, key)
        self._once = LogOnce(_log)
        self._seen = self._digest()
        self.context = _server_context(*self._paths)

    async def run(self) -> None:
        """Compare now and then, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
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
