"""Logging: one line for each message: constant text, then key=value; or JSON."""

import json
import logging
import sys
from datetime import UTC, datetime

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
    """Send all logs to stderr. level: debug ... error; log_format: text or json."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [stream]
    root.setLevel(level.upper())
    if level != "debug":
        logging.getLogger("asyncio").setLevel(logging.ERROR)
