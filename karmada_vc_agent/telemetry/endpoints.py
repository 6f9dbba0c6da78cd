"""HTTP endpoints: /healthz, /livez and /readyz at one address, /metrics at another."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from karmada_vc_agent.telemetry.health import Checks, answer

NOWHERE = ("", "0")
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[web.Request], Awaitable[web.Response]]
Routes = dict[str, Handler]


def health_routes(live: Checks, ready: Checks) -> Routes:
    """Return /healthz, /livez, /readyz and their single checks."""
    routes: Routes = {}
    for endpoint, checks in (("healthz", live), ("livez", live), ("readyz", ready)):
        handler = _checked(endpoint, checks)
        routes |= {f"/{endpoint}": handler, f"/{endpoint}/{{check}}": handler}
    return routes


def metrics_routes(text: Callable[[], bytes]) -> Routes:
    """Return /metrics; text: what it answers."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=text(), headers={"Content-Type": _METRICS_TYPE})

    return {"/metrics": metrics}


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


async def serve(address: str, routes: Routes) -> web.AppRunner | None:
    """Answer at `host:port` or `:port`; "0" = nowhere, None. Who calls cleans the runner up.

    Raises OSError where the address cannot be had, ValueError where it is none.
    """
    if address in NOWHERE:
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f'"{address}" is no address; write host:port, :port, or 0 for none')
    app = web.Application()
    app.add_routes([web.get(path, handler) for path, handler in routes.items()])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
    except BaseException:
        await runner.cleanup()
        raise
    return runner
