"""The helper process that runs Lua scripts; started by script_runner only.

It reads frames from stdin and answers each on stdout until stdin ends. It is minimal: no asyncio,
no HTTP, no credentials, an empty environment. The worst a script can do is to end it. A frame is a
4-byte big-endian length, and that many bytes of JSON.
"""

import ctypes
import resource
import signal
import struct
import sys
from datetime import datetime
from typing import Any, BinaryIO

import orjson

from karmada_vc_agent.interpretation import lua
from karmada_vc_agent.interpretation.hook_errors import HookError

ADDRESS_SPACE_BYTES = 2**30
"""Limit behind lua.MEMORY_BYTES: what Python and the C library may allocate for a script."""
OPEN_FILES = 8
_LENGTH = struct.Struct(">I")
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def main() -> int:
    """Answer frames until stdin ends."""
    _confine()
    source, target = sys.stdin.buffer, sys.stdout.buffer
    _write(target, {"ready": True})
    while (frame := _read(source)) is not None:
        answer = _answer(frame)
        _write(target, answer)
        if answer.get("is_spent"):
            break
    return 0


def _confine() -> None:
    """Die with the agent; drop privileges; limit memory; open no more files."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent ends it by closing stdin
    # Load while files can still be opened: local time zone, codecs, regular expressions.
    datetime.now().astimezone().strftime("%Z %p")
    for kind, limit in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        resource.setrlimit(kind, (limit, limit))


def _answer(frame: Any) -> dict[str, Any]:
    """Return a `value` or an `error`; `is_spent` if this process exits after answering."""
    try:
        value = lua.run_script(frame["script"], frame["operation"], frame["objects"], _now)
    except lua.OutOfMemoryError as error:
        return {"error": str(error), "is_spent": True}
    except HookError as error:
        return {"error": str(error)}
    return {"value": value}


def _now() -> datetime:
    return datetime.now().astimezone()


def _read(source: BinaryIO) -> Any:
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return orjson.loads(source.read(_LENGTH.unpack(head)[0]))


def _write(target: BinaryIO, answer: dict[str, Any]) -> None:
    content = orjson.dumps(answer)
    target.write(_LENGTH.pack(len(content)) + content)
    target.flush()


if __name__ == "__main__":
    sys.exit(main())
