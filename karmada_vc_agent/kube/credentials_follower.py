"""A kubeconfig that somebody changes is used without a restart."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress

from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.kubeconfig import KubeconfigError, files_of, read_kubeconfig

_log = logging.getLogger(__name__)

LOOK_S = 10.0
"""A mounted Secret takes the kubelet a minute or more; ten seconds on top do not matter."""
SOON_S = 1.0


class CredentialsFollower:
    """Reads the kubeconfig of some clients again whenever it, or a file it names, changes.

    use: told of the new credentials. Compared is the file with what it was when it was last
    read well, not with what is used: a mounted Secret that is still to catch up changes nothing.
    """

    def __init__(
        self, name: str, credentials: Credentials, use: Callable[[Credentials], None]
    ) -> None:
        self._name = name
        self._credentials = credentials
        self._path = credentials.kubeconfig
        self._use = use
        self._seen = self._digest()
        self._complaint = ""
        self._unknown = asyncio.Event()

    async def run(self) -> None:
        """Look now and then, and soon after the server did not know us, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._unknown.wait()
                await asyncio.sleep(SOON_S)
            self._unknown.clear()
            self.look()

    def suspect(self) -> None:
        """Look again soon: the server does not know the credentials any more."""
        self._credentials.suspect()
        self._unknown.set()

    def look(self) -> None:
        """Use what the file says if it changed; one that cannot be used is read again later."""
        found = self._digest()
        if self._path is None or found is None or found == self._seen:
            return
        try:
            credentials = read_kubeconfig(self._path, self._credentials.context)
        except KubeconfigError as error:
            self._complain(str(error))
            return
        self._seen, self._complaint = found, ""
        self._credentials = credentials
        _log.info(
            "Using changed credentials", extra={"server": self._name, "url": credentials.server}
        )
        self._use(credentials)

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:
            self._complaint = reason
            extra = {"server": self._name, "reason": reason}
            _log.warning(
                "Keeping the old credentials: the kubeconfig changed for the worse", extra=extra
            )

    def _digest(self) -> bytes | None:
        """Return what tells one content of the files from another; None where one has none now."""
        content = hashlib.sha256()
        for path in files_of(self._path) if self._path is not None else ():
            try:
                content.update(path.read_bytes())
            except OSError as error:
                self._complain(f"{path}: {error.strerror}")
                return None
        return content.digest()
