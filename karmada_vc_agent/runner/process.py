"""Of a process, leading or not: signals that end it, and its settings file."""

import asyncio
import hashlib
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import is_allowed_by_rules
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, Need
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.model.user_text import read_small
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_ENDING = (signal.SIGTERM, signal.SIGINT)


def call_on(number: signal.Signals, call: Callable[[], object]) -> None:
    """Have a signal call something in the running loop, and nothing once that is closed."""
    loop = asyncio.get_running_loop()

    def handle(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends anyway
            loop.call_soon_threadsafe(call)

    signal.signal(number, handle)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set an event at the first signal to end; those that follow change nothing."""

    def end() -> None:
        for number in _ENDING:  # Python gives up its own handlers before it exits, but not this
            signal.signal(number, signal.SIG_IGN)
        stop.set()

    for number in _ENDING:
        call_on(number, end)


async def until(
    stop: asyncio.Event, work: Awaitable[None], is_serving: Callable[[], bool], patience_s: float
) -> None:
    """Run `work`; `stop` cancels it: at once until it serves, then after `patience_s`."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not task.done() and is_serving():
        await asyncio.wait((task,), timeout=patience_s)
    stopped.cancel()
    task.cancel()
    await asyncio.gather(stopped, return_exceptions=True)
    try:
        await task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise


_log = logging.getLogger(__name__)

CHECK_S = 2.0
"""Interval of comparisons of the file: a person who saved it waits for the result."""
SETTLES_S = 0.2
"""An editor may write a file in several parts."""

Check = Callable[[tuple[VirtualCluster, ...]], Awaitable[None]]
Read = Callable[[], tuple[AgentConfig, tuple[str, ...]]]
Use = Callable[[AgentConfig], None]


class SettingsFollower:
    """Follows the settings of the file that a running agent takes.

    digest: of the file, from before the settings in use were read. read: returns all settings, and
    the names of those that wait for a restart; raises ConfigError. check: raises ConfigError,
    KubeError.
    """

    def __init__(self, path: Path, digest: bytes, read: Read) -> None:
        self._path = path
        self._read = read
        self._seen = self._used = digest
        self._requested = asyncio.Event()
        self.problem: str | None = None
        """Why the settings in use are not those of the file, None where they are."""
        self._once = LogOnce(_log)

    def reload(self) -> None:
        self._seen = b""
        self._once.ended()
        self._requested.set()

    async def run(self, check: Check, use: Use) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_S):
                    await self._requested.wait()
            self._requested.clear()
            current = digest_of(self._path)
            if current == self._used == self._seen:
                self._complain(None)  # it is again what is in use, though another was not taken
            if current != self._seen:
                await asyncio.sleep(SETTLES_S)
                if current == digest_of(self._path):
                    await self._take(current, check, use)

    async def _take(self, digest: bytes, check: Check, use: Use) -> None:
        try:
            config, at_restart = self._read()
            if digest != digest_of(self._path):
                return  # it changed under the reader, and is read again
            await check(config.virtual_clusters)
        except ConfigError as error:
            self._seen = digest
            self._complain(str(error))
            return
        except KubeError as error:
            self._complain(f"cannot check the virtual clusters: {error}")
            return
        self._seen, self._used = digest, digest
        self._complain(None)
        _log.info(
            "Using the settings file", extra={"virtual_clusters": len(config.virtual_clusters)}
        )
        if at_restart:
            _log.warning(
                "Restart the agent to use the other settings that changed",
                extra={"settings": ",".join(at_restart)},
            )
        use(config)

    def _complain(self, problem: str | None) -> None:
        self.problem = problem
        if problem is None:
            self._once.ended()
        else:
            text = "Keeping the settings in use: the file is invalid"
            self._once.error(text, reason=problem)


def digest_of(path: Path) -> bytes:
    try:
        return hashlib.sha256(read_small(path)).digest()
    except OSError as error:
        return f"errno {error.errno}".encode()


LOOK_S = 10.0
"""Interval of reviews for those that wait; rights cannot be watched."""

Ask = Callable[[str], Awaitable[bool]]


async def has_rights(hub: ApiClient, name: str) -> bool:
    need = Need("patch", "cluster.karmada.io", "clusters/status", name=name)
    return await is_allowed_by_rules(hub, need)


class JoinedClusters:
    """Passes on the virtual clusters of the file that may be served.

    One without rights would be registered half; it waits, and is served soon after `join`. One that
    was registered before is admitted: the hub may be away.
    """

    def __init__(self, use: Callable[[Iterable[VirtualCluster]], None]) -> None:
        self._use = use
        self._declared: dict[str, VirtualCluster] = {}
        self._admitted: set[str] = set()
        self._refused: set[str] = set()
        self._ask: Ask | None = None
        self._is_registered: Callable[[str], bool] = lambda _: False

    @property
    def waiting(self) -> list[str]:
        return [name for name in self._declared if name in self._refused]

    def take(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Have these served; before start() all of them, for nothing is done with them yet."""
        self._declared = {vc.name: vc for vc in virtual_clusters}
        self._admitted &= self._declared.keys()
        self._refused &= self._declared.keys()
        self._pass_on()

    async def start(self, ask: Ask, is_registered: Callable[[str], bool]) -> None:
        """Review all there are. ask: whether there are rights for a name; raises KubeError."""
        self._ask, self._is_registered = ask, is_registered
        await self.look(self._declared.values())
        self._pass_on()

    async def look(self, virtual_clusters: Iterable[VirtualCluster]) -> None:
        """Determine which of these may be served; where the hub refuses the review, all of them."""
        if self._ask is None:
            return
        names = [vc.name for vc in virtual_clusters if vc.name not in self._admitted]
        await asyncio.gather(*(self._look_at(name, self._ask) for name in names))

    async def _look_at(self, name: str, ask: Ask) -> None:
        try:
            if not self._is_registered(name) and not await ask(name):
                if name not in self._refused:
                    self._refused.add(name)
                    text = "Waiting for rights on the hub; run karmada-vc-agent join"
                    _log.warning(text, extra={"virtual_cluster": name})
                return
        except ForbiddenError as error:
            _log.debug("Serving without a review of the rights", extra={"reason": str(error)})
        except KubeError:
            return
        self._admitted.add(name)
        self._refused.discard(name)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look(self._declared.values())
            self._pass_on()

    def _pass_on(self) -> None:
        declared = self._declared.items()
        self._use(vc for name, vc in declared if self._ask is None or name in self._admitted)
