"""The helper process that runs Lua scripts; started by script_runner, never by hand.

It reads frames from stdin and answers on stdout, one by one, until stdin ends. It is lean: no
asyncio, no HTTP, no credentials, an empty environment. What a script could do to it at worst is
to end it. A frame is four bytes of length, most significant first, and so much JSON.
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
from karmada_vc_agent.interpretation.errors import HookError

ADDRESS_SPACE_BYTES = 2**30
"""Backstop behind lua.MEMORY_BYTES, for what Python and the C library take for a script."""
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
    """End with the agent, gain no rights, take no more memory, open no files."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent says when, by closing stdin
    # Read while files may still be opened: the zone of this machine, codecs, regular expressions.
    datetime.now().astimezone().strftime("%Z %p")
    for kind, limit in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
    ):
        resource.setrlimit(kind, (limit, limit))


def _answer(frame: Any) -> dict[str, Any]:
    """Return `value` or `error`; `is_spent` where this process ends after saying it."""
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
