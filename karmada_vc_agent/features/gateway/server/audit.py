"""One line of JSON for each request; never a token, a query or a body (G-25)."""

import sys
import time
from datetime import UTC, datetime

import msgspec
import orjson

from karmada_vc_agent.features.gateway.identity import Caller


class Record(msgspec.Struct):
    """One request while it is answered, and what is reported of it at its end."""

    method: str = ""
    cluster: str = ""
    path: str = ""
    verb: str = ""
    host_path: str = ""
    who: Caller | None = None
    code: int = 0
    bytes_out: int = 0
    rejected: str = ""
    is_long: bool = False
    started: float = msgspec.field(default_factory=time.monotonic)

    @property
    def took_s(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self.started


def line_of(record: Record) -> bytes:
    """Return the line of a request that has ended, with its end."""
    who = record.who
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "audit": True,
        "vc": record.cluster,
        "kind": who.kind if who is not None else "",
        "user": who.user if who is not None else "",
        **({"account": who.account} if who is not None and who.account else {}),
        "groups": who.groups if who is not None else (),
        "verb": record.verb or record.method.lower(),
        "path": record.path,
        "hostPath": record.host_path,
        "code": record.code,
        "bytes": record.bytes_out,
        "ms": round(record.took_s * 1000, 1),
        **({"rejected": record.rejected} if record.rejected else {}),
    }
    return orjson.dumps(line) + b"\n"


def to_stdout(line: bytes) -> None:
    """Write a line to standard output."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
