"""HTTP endpoints: /healthz, /livez and /readyz at one address, /metrics at another."""

import ipaddress
import os
import socket
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from karmada_vc_agent.telemetry.bounded_site import IDLE_S, BoundedSite
from karmada_vc_agent.telemetry.health import Checks, answer

NOWHERE = ("", "0")
_LAST_PORT = 65_535
METRICS_PATH = "/metrics"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[web.Request], Awaitable[web.Response]]
Routes = dict[str, Handler]
Admission = Callable[[str], Awaitable[tuple[int, str] | None]]
"""Header Authorization -> status and text of a rejection, or None."""


def health_routes(live: Checks, ready: Checks) -> Routes:
    """Return /healthz, /livez, /readyz and their individual checks."""
    routes: Routes = {}
    for endpoint, checks in (("healthz", live), ("livez", live), ("readyz", ready)):
        handler = _checked(endpoint, checks)
        routes |= {f"/{endpoint}": handler, f"/{endpoint}/{{check}}": handler}
    return routes


def metrics_routes(text: Callable[[], bytes], admission: Admission | None = None) -> Routes:
    """Return /metrics; text: returns its content. admission: refuses a caller; None = no one."""

    async def metrics(request: web.Request) -> web.Response:
        if admission is not None:
            refusal = await admission(request.headers.get("Authorization", ""))
            if refusal is not None:
                status, why = refusal
                headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
                return web.Response(status=status, text=f"{why}\n", headers=headers)
        return web.Response(body=text(), headers={"Content-Type": _METRICS_TYPE})

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


def listen_failure(error: OSError | ValueError) -> str:
    """Return why an address cannot be listened on."""
    if not isinstance(error, OSError):
        return str(error)
    if isinstance(error, socket.gaierror) or not error.errno:
        return error.strerror or str(error)
    return os.strerror(error.errno)  # asyncio's own text has the address as a tuple


def _checked(endpoint: str, checks: Checks) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        status, text = answer(
            endpoint,
            checks(),
            only=request.match_info.get("check", ""),
            exclude=request.query.getall("exclude", []),
            verbose="verbose" in request.query,
        )
        return web.Response(text=text, status=status)

    return handle


async def serve(
    address: str, routes: Routes, tls: ssl.SSLContext | None = None
) -> web.AppRunner | None:
    """Answer at `host:port` or `:port`; "0" = nowhere, None. The caller cleans the runner up.

    tls: None = answer in the clear.
    Raises OSError where the address cannot be had, ValueError where it is none.
    """
    if address in NOWHERE:
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > _LAST_PORT:
        advice = "write host:port, :port, or 0 for none"
        raise ValueError(f'"{address}" is not a valid address; {advice}')
    app = web.Application()
    app.add_routes([web.get(path, handler) for path, handler in routes.items()])
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=0.2, keepalive_timeout=IDLE_S, lingering_time=1.0
    )
    await runner.setup()
    try:
        await BoundedSite(runner, (host.strip("[]") or None, int(port)), tls).start()
    except BaseException:
        await runner.cleanup()
        raise
    return runner
