"""A kubeconfig that somebody changes is used without a restart."""

import asyncio
import hashlib
import logging
from collections.abc import Callable

from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.kubeconfig import KubeconfigError, files_of, read_kubeconfig

_log = logging.getLogger(__name__)

LOOK_S = 10.0
"""A mounted Secret takes the kubelet a minute or more; ten seconds on top do not matter."""


class CredentialsFollower:
    """Reads the kubeconfig of some clients again whenever it, or a file it names, changes.

    use: told of the new credentials. Compared is the file with what it was before, not with
    what is used: a mounted Secret that is still to catch up changes nothing.
    """

    def __init__(
        self, name: str, credentials: Credentials, use: Callable[[Credentials], None]
    ) -> None:
        self._name = name
        self._path = credentials.kubeconfig
        self._context = credentials.context
        self._use = use
        self._seen = self._digest()

    async def run(self) -> None:
        """Look now and then until cancelled; ends at once where there is no file to look at."""
        while self._path is not None:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Use what the file says if it changed; one that cannot be used leaves all as it is."""
        found = self._digest()
        if self._path is None or found == self._seen:
            return
        self._seen = found
        try:
            credentials = read_kubeconfig(self._path, self._context)
        except KubeconfigError as error:
            extra = {"server": self._name, "reason": str(error)}
            _log.warning("Keeping the old credentials: the kubeconfig changed for the worse", extra)
            return
        _log.info(
            "Using changed credentials", extra={"server": self._name, "url": credentials.server}
        )
        self._use(credentials)

    def _digest(self) -> bytes:
        content = hashlib.sha256()
        for path in files_of(self._path) if self._path is not None else ():
            try:
                content.update(path.read_bytes())
            except OSError:
                content.update(b"\0")
        return content.digest()
