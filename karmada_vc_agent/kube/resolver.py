"""Resolves names of servers, each in one thread, however many requests wait for it.

The thread pool of the event loop has few threads, and a name server that does not answer holds one
for each request: so a hub whose name cannot be resolved would hold up everything else that uses
them, such as requests to the host.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from karmada_vc_agent.kube.daemon_threads import in_daemon_thread

NAMES_AT_ONCE = 16
"""Names that are resolved at the same time, each in a thread; a client has one, webhooks more."""

_Addresses = list[tuple[Any, ...]]
_Name = tuple[str, int, socket.AddressFamily]


class Resolver(AbstractResolver):
    """The resolver of one server. timeout_s: how long a request waits for an address."""

    def __init__(
        self, timeout_s: float, getaddrinfo: Callable[..., _Addresses] = socket.getaddrinfo
    ) -> None:
        self._timeout_s = timeout_s
        self._getaddrinfo = getaddrinfo
        self._running: dict[_Name, Future[_Addresses]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name. Raises OSError."""
        running = self._lookup((host, port, family))
        try:
            async with asyncio.timeout(self._timeout_s):
                # A thread cannot be stopped: after a time-out the next request waits for it.
                addresses = await asyncio.wrap_future(running)
        except TimeoutError as error:
            raise OSError(f"{host} was not resolved within {self._timeout_s:g} s") from error
        return [_result(host, *entry) for entry in addresses]

    async def close(self) -> None:
        """Do nothing: threads end with their names."""

    def _lookup(self, name: _Name) -> Future[_Addresses]:
        """Return the lookup of a name that is in progress, or start one. Raises OSError."""
        self._running = {each: task for each, task in self._running.items() if not task.done()}
        if name in self._running:
            return self._running[name]
        host, port, family = name
        if len(self._running) >= NAMES_AT_ONCE:
            raise OSError(f"{host} was not resolved: {NAMES_AT_ONCE} other names are in progress")
        options = {"type": socket.SOCK_STREAM, "family": family, "flags": socket.AI_ADDRCONFIG}
        look_up = partial(self._getaddrinfo, host, port, **options)
        try:
            self._running[name] = in_daemon_thread(look_up, f"resolve {host}")
        except RuntimeError as error:
            raise OSError(f"{host} was not resolved: {error}") from error
        return self._running[name]


def _result(host: str, family: int, _type: int, proto: int, _name: str, at: Any) -> ResolveResult:
    address, port = at[0], at[1]
    if family == socket.AF_INET6 and at[3]:  # the address is link-local
        address, port = socket.getnameinfo(at, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    return ResolveResult(
        hostname=host,
        host=address,
        port=int(port),
        family=family,
        proto=proto,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
