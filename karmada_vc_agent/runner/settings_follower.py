"""The settings file is read again when it changes, and on SIGHUP; a bad one changes nothing."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.reloading import Reloaded
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.model.small_files import read_small
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_log = logging.getLogger(__name__)

CHECK_S = 2.0
"""Interval of comparisons of the file: a person who saved it waits for the result."""
SETTLES_S = 0.2
"""An editor may write a file in several parts."""

Check = Callable[[tuple[VirtualCluster, ...]], Awaitable[None]]
Use = Callable[[Reloaded], None]


class SettingsFollower:
    """Follows the settings of the file that a running agent takes.

    digest: of the file, from before the settings in use were read: what changed since is seen.
    read: reads and checks all settings; raises ConfigError. check: checks the virtual clusters by
    what the host says; raises ConfigError, KubeError. use: takes the settings.
    """

    def __init__(self, path: Path, digest: bytes, read: Callable[[], Reloaded]) -> None:
        self._path = path
        self._read = read
        self._seen = self._used = digest
        self._requested = asyncio.Event()
        self.problem: str | None = None
        """Why the settings in use are not those of the file, None where they are."""
        self._once = LogOnce(_log)

    def reload(self) -> None:
        """Read the file now, changed or not."""
        self._seen = b""
        self._once.ended()
        self._requested.set()

    async def run(self, check: Check, use: Use) -> None:
        """Compare the file at intervals, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._requested.wait()
            self._requested.clear()
            current = digest_of(self._path)
            if current == self._used == self._seen:
                self._well()  # it is again what is in use, though another was not taken
            if current != self._seen:
                await asyncio.sleep(SETTLES_S)
                if current == digest_of(self._path):
                    await self._take(current, check, use)

    async def _take(self, digest: bytes, check: Check, use: Use) -> None:
        try:
            reloaded = self._read()
            if digest != digest_of(self._path):
                return  # it changed under the reader, and is read again
            await check(reloaded.virtual_clusters)
        except ConfigError as error:
            self._seen = digest
            self._complain(str(error))
            return
        except KubeError as error:
            self._complain(f"cannot check the virtual clusters: {error}")
            return
        self._seen, self._used = digest, digest
        self._well()
        _log.info(
            "Using the settings file", extra={"virtual_clusters": len(reloaded.virtual_clusters)}
        )
        if reloaded.at_restart:
            _log.warning(
                "Restart the agent to use the other settings that changed",
                extra={"settings": ",".join(reloaded.at_restart)},
            )
        use(reloaded)

    def _well(self) -> None:
        self.problem = None
        self._once.ended()

    def _complain(self, problem: str) -> None:
        self.problem = problem
        text = "Keeping the settings in use: the file is invalid"
        self._once.error(text, reason=problem)


def digest_of(path: Path) -> bytes:
    """Return a digest of the content of a file, or why it has none now."""
    try:
        return hashlib.sha256(read_small(path)).digest()
    except OSError as error:
        return f"errno {error.errno}".encode()
