"""The helper process that runs scripts: sandbox, conversions and frames, a line of JSON each.

Without asyncio, HTTP, credentials or environment: the worst a script can do is to end it. Each run
has a fresh virtual machine; only what was compiled is kept, which no script can change.
Source: contract 7.7; karmada pkg/resourceinterpreter/customized/declarative/luavm.
"""

import ctypes
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import orjson
from cachetools import LRUCache, cached
from lupa import lua51

from karmada_vc_agent.interpretation import lua_values
from karmada_vc_agent.interpretation.lua_values import empties, settle
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    HookError,
    Operation,
)
from karmada_vc_agent.model.objects import Object

MEMORY_BYTES = 64 * 2**20
"""Limit for the tables of one run; an object of 1.5 MB, the API server's limit, takes 15 MB."""

COMPILED_BYTES = 4 * 2**20
"""Cache of compiled scripts, about 3 times their text; a larger one is compiled for each run."""

_ENVIRONMENT = Path(__file__).with_name("environment.lua").read_bytes()
"""The program that prepares a machine; read while the process may still open files."""


class OutOfMemoryError(HookError):
    """A script exceeded its memory limit; the process that ran it must not continue."""


_FUNCTIONS: dict[Operation, tuple[str, str]] = {
    RETAIN: ("Retain", "table"),
    INTERPRET_STATUS: ("ReflectStatus", "table"),
    INTERPRET_HEALTH: ("InterpretHealth", "boolean"),
}
"""Operation -> the function of the script, and the type of its result."""


def run_script(
    script: str, operation: Operation, objects: list[Object], now: Callable[[], datetime]
) -> Any:
    """Run one script; return the object, the status or the health it computes.

    operation: `Retain` (objects: desired, live), `InterpretStatus` or `InterpretHealth` (objects:
    live). now: the local time, with its zone. Raises HookError.
    """
    function, result_type = _FUNCTIONS[operation]
    code = script.encode()
    if code.startswith(b"\x1b"):
        raise HookError("the script is compiled code, not text")
    try:
        machine = _new_machine()
        prepare: Any = machine.compile(_environment())
        run: Any = prepare(machine.table_from(_functions(now)))
        arguments = [machine.table_from(_to_lua(obj), recursive=True) for obj in objects]
        done, result = run(_compiled(code), function.encode(), result_type.encode(), *arguments)
    except lua51.LuaMemoryError as error:
        raise OutOfMemoryError(f"more than {MEMORY_BYTES >> 20} MiB of memory") from error
    except (lua51.LuaError, RecursionError) as error:
        raise HookError(str(error) or type(error).__name__) from error
    if not done:
        text = _text(result)
        raise (OutOfMemoryError if text == "not enough memory" else HookError)(text)
    if result_type == "boolean":
        return result
    return _converted(operation, orjson.loads(_text(result)), objects)


@cache
def _environment() -> bytes:
    return _compile(_ENVIRONMENT, b"<python>")


@cached(LRUCache(COMPILED_BYTES, getsizeof=len))
def _compiled(script: bytes) -> bytes:
    return _compile(script, b"=<string>")


def _compile(program: bytes, name: bytes) -> bytes:
    """Return a program in the form that machines load fastest; as it is if it does not compile."""
    dump = b"local main = loadstring(...) return main and string.dump(main)"
    try:
        compiled: bytes | None = _new_machine().execute(dump, program, name)
    except lua51.LuaError:
        return program  # it fails where it is run, and says why
    return compiled or program


def _new_machine() -> Any:
    return lua51.LuaRuntime(
        encoding=None,  # bytes: a script may create texts that are not UTF-8
        register_eval=False,
        register_builtins=False,
        unpack_returned_tuples=True,
        attribute_filter=_refuse_attribute,
        max_memory=MEMORY_BYTES,
    )


def _refuse_attribute(_obj: object, _name: object, _is_setting: object) -> NoReturn:
    raise AttributeError("Python objects are not available to scripts")


def _to_lua(value: Any) -> Any:
    if isinstance(value, dict):
        return {key.encode(): _to_lua(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_to_lua(item) for item in value if item is not None]
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bool) else float(value)


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _functions(now: Callable[[], datetime]) -> dict[bytes, Callable[..., Any]]:
    """Return the functions behind the environment; none of them refers to the machine."""

    def date(text: str, moment: float | None) -> Any:
        local = now()
        if text.startswith("!"):
            text, local = text.lstrip("!"), local.astimezone(UTC)
        if moment is not None:
            local = datetime.fromtimestamp(int(moment), UTC).astimezone(now().tzinfo)
        if not text.startswith("*t"):
            return lua_values.date_text(text, local)
        fields = (local.year, local.month, local.day, local.hour, local.minute, local.second)
        return (True, *map(float, fields), float(local.isoweekday() % 7 + 1))

    functions: dict[str, Callable[..., Any]] = {
        "now": lambda: float(int(now().timestamp())),
        "time_of": lambda *fields: _time_of(fields, now()),
        "date": date,
        "lower": str.lower,
        "upper": str.upper,
        "number_text": lua_values.number_text,
        "format": lambda template, *values: lua_values.format_text(template, values),
        "resource_add": lambda *texts: lua_values.resource_add(texts),
        "resource_quantity": lua_values.resource_quantity,
    }
    return {name.encode(): _callable(function) for name, function in functions.items()}


def _callable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function for Lua: it returns `true` and the result, or `false` and an error text."""

    def call(*arguments: Any) -> Any:
        try:
            result = function(*map(_plain, arguments))
        except Exception as error:  # noqa: BLE001 - the script gets any error as a text
            return False, (str(error) or type(error).__name__).encode()
        if isinstance(result, tuple):
            return (True, *result)
        return True, result.encode() if isinstance(result, str) else result

    return call


def _plain(value: Any) -> lua_values.LuaValue:
    if isinstance(value, bytes):
        return _text(value)
    return value if value is None or isinstance(value, bool) else float(value)


def _time_of(fields: Iterable[float], now: datetime) -> float:
    """Return the time of a date whose fields may be out of range; Go normalises them."""
    year, month, day, hour, minute, second = (int(field) for field in fields)
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    if not 1 <= year <= 9999:
        # Absent fields are -1: the day of year -1 that Go computes is before Python's first.
        # The calendar repeats every 400 years; whole cycles are subtracted and added back.
        cycles = (year - 2000) // 400
        shifted = _time_of((year - 400 * cycles, month, day, hour, minute, second), now)
        return shifted + cycles * 146097 * 86400.0
    start = datetime(year, month, 1, tzinfo=now.tzinfo)
    moment = start + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second)
    return float(int(moment.timestamp()))


def _converted(operation: Operation, result: Any, objects: list[Object]) -> Any:
    """Convert a result; decide for each empty table whether it is a map, a list, or omitted."""
    references = objects if operation == RETAIN else ()
    result = {} if result == [] else settle(result, *empties(references))
    if operation == RETAIN and not (isinstance(result, dict) and result.get("kind")):
        raise HookError("Retain returned no object: it has no kind")
    if not isinstance(result, dict):
        raise HookError("ReflectStatus returned a list, not an object")
    return result


ADDRESS_SPACE_BYTES = 2**30
"""Limit behind lua.MEMORY_BYTES: what Python and the C library may allocate for a script."""
OPEN_FILES = 8
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def main() -> int:
    """Answer frames until stdin ends."""
    _confine()
    _write({"ready": True})
    for frame in sys.stdin.buffer:
        answer = _answer(orjson.loads(frame))
        _write(answer)
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
        value = run_script(frame["script"], frame["operation"], frame["objects"], _now)
    except OutOfMemoryError as error:
        return {"error": str(error), "is_spent": True}
    except HookError as error:
        return {"error": str(error)}
    return {"value": value}


def _now() -> datetime:
    return datetime.now().astimezone()


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
