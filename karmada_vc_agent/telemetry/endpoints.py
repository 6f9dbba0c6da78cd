"""HTTP endpoints for health checks and /metrics; logging."""

import asyncio
import ipaddress
import json
import logging
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import cast

from aiohttp import web

from karmada_vc_agent.kube import flows


class Note(str):
    """A note of a check that passes; shown by verbose."""

    __slots__ = ()


Checks = Callable[[], Mapping[str, str | None]]
"""Returns the current checks: name -> None or a Note if it passes, else the reason."""

PING = "ping"
"""Passes whenever there is an answer at all: a stuck event loop gives none."""


def health_response(
    endpoint: str,
    checks: Mapping[str, str | None],
    *,
    only: str = "",
    exclude: Collection[str] = (),
    verbose: bool = False,
) -> tuple[int, str]:
    """Return 200, 500, or 404 for an unknown check, and a text with failures. only: one check."""
    named = {PING: None, **checks}
    if only:
        if only not in named:
            return 404, f"unknown check {only}; must be one of {', '.join(named)}\n"
        named = {only: named[only]}
    left = {name: reason for name, reason in named.items() if name not in exclude}
    is_well = not any(_is_failed(reason) for reason in left.values())
    if is_well and not verbose:
        return 200, "ok"
    lines = [
        f"[+]{name} excluded: ok" if name not in left else _line(name, reason)
        for name, reason in named.items()
    ]
    lines.append(f"{endpoint} check {'passed' if is_well else 'failed'}")
    return (200 if is_well else 500), "\n".join(lines) + "\n"


def _line(name: str, reason: str | None) -> str:
    if _is_failed(reason):
        return f"[-]{name} failed: {reason}"
    return f"[+]{name} ok: {reason}" if reason else f"[+]{name} ok"


def _is_failed(reason: str | None) -> bool:
    return bool(reason) and not isinstance(reason, Note)


IDLE_S = 60.0
"""How long a connection may wait for a request; longer than most scrape intervals."""
HANDSHAKE_S = 10.0


class _BoundedSite(web.TCPSite):
    """Has so many connections; one above the bound replaces the oldest. tls: None = in the clear.

    A client may open connections, send nothing, and leave the agent without files for its own.
    """

    def __init__(
        self, runner: web.AppRunner, host: str | None, port: int, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(runner, host, port)
        self._tls = tls
        self._there: list[asyncio.Transport] = []
        self._shaking: set[asyncio.Task[asyncio.Transport | None]] = set()

    async def start(self) -> None:
        await web.BaseSite.start(self)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Door(self._enter), self._host, self._port)

    async def stop(self) -> None:
        await super().stop()
        for transport in self._there:
            transport.abort()

    def _enter(self, transport: asyncio.Transport) -> None:
        self._there = [each for each in self._there if not each.is_closing()]
        if len(self._there) >= flows.ENDPOINT_CONNECTIONS:
            self._there.pop(0).abort()
        self._there.append(transport)
        assert self._runner.server is not None  # noqa: S101 - set up before there is a site
        connection = self._runner.server()
        if self._tls is None:
            transport.set_protocol(connection)
            connection.connection_made(transport)
        else:
            transport.pause_reading()
            task = asyncio.create_task(shake_hands(transport, connection, self._tls))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)


async def shake_hands(
    transport: asyncio.Transport, protocol: asyncio.Protocol, tls: ssl.SSLContext
) -> asyncio.Transport | None:
    """Return the secured transport, connected to a protocol; None if the client speaks no TLS."""
    if transport.is_closing():
        return None  # others arrived in the same round of the loop
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        secured = await loop.start_tls(
            transport, protocol, tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
        )
        if secured is not None:
            protocol.connection_made(secured)
        return secured
    return None


class Door(asyncio.Protocol):
    def __init__(self, enter: Callable[[asyncio.Transport], None]) -> None:
        self._enter = enter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._enter(cast(asyncio.Transport, transport))


NOWHERE = ("", "0")
METRICS_PATH = "/metrics"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[web.Request], Awaitable[web.Response]]
Text = Callable[[], Awaitable[bytes]]
Routes = dict[str, Handler]
Admission = Callable[[str], Awaitable[tuple[int, str] | None]]
"""Header Authorization -> status and text of a rejection, or None."""


def health_routes(live: Checks, ready: Checks) -> Routes:
    routes: Routes = {}
    for endpoint, checks in (("healthz", live), ("livez", live), ("readyz", ready)):

        async def handle(
            request: web.Request, endpoint: str = endpoint, checks: Checks = checks
        ) -> web.Response:
            status, text = health_response(
                endpoint,
                checks(),
                only=request.match_info.get("check", ""),
                exclude=request.query.getall("exclude", []),
                verbose="verbose" in request.query,
            )
            return web.Response(text=text, status=status)

        routes |= {f"/{endpoint}": handle, f"/{endpoint}/{{check}}": handle}
    return routes


def metrics_routes(text: Text, admission: Admission | None = None) -> Routes:
    """Return /metrics; text: returns its content. admission: refuses a caller; None = no one."""

    async def metrics(request: web.Request) -> web.Response:
        if admission and (refusal := await admission(request.headers.get("Authorization", ""))):
            status, why = refusal
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            return web.Response(status=status, text=f"{why}\n", headers=headers)
        return web.Response(body=await text(), headers={"Content-Type": _METRICS_TYPE})

    return {METRICS_PATH: metrics}


def is_local(address: str) -> bool:
    """Return whether an address is reachable from this machine only, or disabled."""
    if address in NOWHERE:
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen_failure(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)  # asyncio's own text has the address as a tuple


async def serve(
    address: str, routes: Routes, tls: ssl.SSLContext | None = None
) -> web.AppRunner | None:
    """Answer at `host:port` or `:port`; "0" = nowhere, None. The caller cleans the runner up.

    address: as model/user_text.py checks it. tls: None = answer in the clear. Raises OSError.
    """
    if address in NOWHERE:
        return None
    host, _, port = address.rpartition(":")
    app = web.Application()
    app.add_routes([web.get(path, handler) for path, handler in routes.items()])
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=0.2, keepalive_timeout=IDLE_S, lingering_time=1.0
    )
    await runner.setup()
    try:
        await _BoundedSite(runner, host.strip("[]") or None, int(port), tls).start()
    except BaseException:
        await runner.cleanup()
        raise
    return runner


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN, _NO_JSON = (str, int, float), ("nan", "inf", "-inf")


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        pairs = (f"{key}={_quoted(value)}" for key, value in _extra(record).items())
        text = " | ".join(filter(None, (record.getMessage(), " ".join(pairs))))
        line = f"{stamp[:-4]}Z {record.levelname:<7} {text}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | float] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
        }
        extra = _extra(record).items()  # what is no text or number may be no JSON
        plain = {k: v for k, v in extra if isinstance(v, _PLAIN) and str(v) not in _NO_JSON}
        line |= {k: str(v) for k, v in extra} | plain | line
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c in ' "=\n' for c in text) else text


def start_logging(level: str, log_format: str) -> None:
    """Send all logs to stderr. level: debug ... error; log_format: text or json."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [stream]
    logging.captureWarnings(capture=True)
    root.setLevel(level.upper())
    if level != "debug":
        logging.getLogger("asyncio").setLevel(logging.ERROR)
