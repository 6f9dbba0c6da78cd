"""Logging (one line a message, constant text, then key=value) and health endpoints."""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from aiohttp import web

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        pairs = " ".join(f"{key}={_quoted(value)}" for key, value in _extra(record).items())
        line = f"{stamp[:-4]}Z {record.levelname:<7} {record.getMessage()} {pairs}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c in ' "=\n' for c in text) else text


def start_logging(level: str, log_format: str) -> None:
    """Send all logs to standard error. level: debug ... error; log_format: text or json."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [stream]
    root.setLevel(level.upper())
    if level != "debug":
        logging.getLogger("asyncio").setLevel(logging.ERROR)


async def serve_health(address: str, not_ready: Callable[[], str | None]) -> web.AppRunner | None:
    """Answer /healthz and /readyz on `host:port` or `:port`; "0" = nowhere, None.

    not_ready: says why the agent is not ready, or None; asked at each request. Whoever calls
    this cleans the runner up. Raises OSError where the address cannot be had, ValueError
    where it is none.
    """
    if address in ("", "0"):
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f'"{address}" is no address; write host:port, :port, or 0 for none')

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        reason = not_ready()
        return web.Response(text=reason or "ok", status=503 if reason else 200)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
    return runner
