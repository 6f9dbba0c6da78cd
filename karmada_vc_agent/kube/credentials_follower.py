"""Follows a kubeconfig, so that changes apply without a restart."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.daemon_threads import await_in_thread
from karmada_vc_agent.kube.kubeconfig import KubeconfigError, files_of, read_kubeconfig
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.model.small_files import read_small

_log = logging.getLogger(__name__)

CHECK_S = 10.0
"""A mounted Secret takes the kubelet a minute or more; ten more seconds do not matter."""
SOON_S = 1.0


class CredentialsFollower:
    """Reads the kubeconfig of some clients again when it, or a file it refers to, changes.

    use: called with the new credentials. The file is compared with its last valid content, not with
    what is in use: a mounted Secret that lags behind changes nothing.
    """

    def __init__(
        self, name: str, credentials: Credentials, use: Callable[[Credentials], None]
    ) -> None:
        self._name = name
        self._credentials = credentials
        self._path = credentials.kubeconfig
        self._use = use
        self._seen = self._digest()
        self._once = LogOnce(_log)
        self._is_suspect = asyncio.Event()

    async def run(self) -> None:
        """Check periodically, and soon after a 401, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._is_suspect.wait()
                await asyncio.sleep(SOON_S)
            self._is_suspect.clear()
            await self.check()

    def suspect(self) -> None:
        """Check soon: the server rejected the credential."""
        self._credentials.suspect()
        self._is_suspect.set()

    async def check(self) -> None:
        """Use the content of the file if it changed; retry later if it is invalid."""
        digest = self._digest()
        if self._path is None or digest is None:
            return
        if digest == self._seen and not self._credentials.is_outdated():
            return
        try:
            # Its plugin, if it has one, may take seconds.
            read = partial(read_kubeconfig, self._path, self._credentials.context)
            credentials = await await_in_thread(read, "kubeconfig")
        except KubeconfigError as error:
            self._complain(str(error))
            return
        self._seen = digest
        self._once.ended()
        self._credentials = credentials
        _log.info(
            "Using changed credentials", extra={"server": self._name, "url": credentials.server}
        )
        self._use(credentials)

    def _complain(self, reason: str) -> None:
        text = "Keeping the old credentials: the kubeconfig gives no others"
        self._once.warning(text, server=self._name, reason=reason)

    def _digest(self) -> bytes | None:
        """Return a digest of the content of the files; None if one of them has none now."""
        content = hashlib.sha256()
        for path in files_of(self._path) if self._path is not None else ():
            try:
                content.update(read_small(path))
            except OSError as error:
                self._complain(f"{path}: {error.strerror}")
                return None
        return content.digest()
