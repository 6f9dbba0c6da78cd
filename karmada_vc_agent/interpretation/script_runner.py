"""Runs Lua scripts in helper processes, each run with a deadline.

A script that overruns is killed with its process. Virtual clusters share processes fairly, and none
may hold all.
"""

import asyncio
import os
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from karmada_vc_agent.interpretation.user_hooks import HookError, Operation, UnavailableError
from karmada_vc_agent.kube.flows import FairSlots
from karmada_vc_agent.model.objects import Object

PROCESSES = 3
DEADLINE_S = 1.0
"""Deadline of one script, as in Karmada."""
START_S = 30.0
"""How long a helper process may take to start Python, on a slow machine."""
ANSWER_BYTES = 32 * 2**20
"""Limit of a line: frames, there and back, are JSON in a line each."""
_HELPER = "karmada_vc_agent.interpretation.script_helper"
_ROOT = str(Path(__file__).resolve().parents[2])


class ScriptRunner:
    """A small pool of helper processes, started on demand.

    count: called for each run with `get` and the origin of its process, `pool` or `new`, then with
    `put` and its destination, `pool` or `destroyed`.
    """

    def __init__(
        self,
        processes: int = PROCESSES,
        deadline_s: float = DEADLINE_S,
        *,
        count: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._deadline_s = deadline_s
        self._count = count
        self._slots = FairSlots(processes)
        self._idle: list[Process] = []
        self._all: set[Process] = set()

    async def run(
        self, cluster: Hashable, script: str, operation: Operation, objects: Sequence[Object]
    ) -> Any:
        """Run one script; return the object, the status or the health it computes.

        cluster: the virtual cluster; its runs wait for each other first. objects: desired and
        live for Retain, otherwise live. Raises HookError; UnavailableError after the deadline.
        """
        async with self._slots.hold(cluster):
            helper = await self._take()
            frame = {"script": script, "operation": operation, "objects": objects}
            is_sound = False
            try:
                async with asyncio.timeout(self._deadline_s):
                    answer = await _exchange(helper, frame)
                is_sound = not answer.get("is_spent")
            except TimeoutError as error:
                detail = f"the script did not end within {self._deadline_s:g} s"
                raise UnavailableError(detail) from error
            except (ValueError, OSError) as error:
                detail = "the script crashed its process: it needs more memory, or recurses deeper"
                raise HookError(detail) from error
            finally:
                self._count("put", "pool" if is_sound else "destroyed")
                if is_sound:
                    self._idle.append(helper)
                else:
                    await self._end(helper)
        if "error" in answer:
            raise HookError(answer["error"])
        return answer["value"]

    async def close(self) -> None:
        """End all helper processes."""
        for helper in list(self._all):
            await self._end(helper)
        self._idle.clear()

    async def _take(self) -> Process:
        while self._idle:
            helper = self._idle.pop()
            if helper.returncode is None:
                self._count("get", "pool")
                return helper
            await self._end(helper)
        helper = await _start()
        self._count("get", "new")
        self._all.add(helper)
        return helper

    async def _end(self, helper: Process) -> None:
        self._all.discard(helper)
        await _kill(helper)


async def _start() -> Process:
    # Its own search path and time zone only: none of the agent's credentials.
    environment = {"PYTHONPATH": _ROOT, "LC_ALL": "C.UTF-8"}
    if "TZ" in os.environ:
        environment["TZ"] = os.environ["TZ"]
    helper = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-s", "-B", "-m", _HELPER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=ANSWER_BYTES,
        env=environment,
        cwd="/",
    )
    try:
        async with asyncio.timeout(START_S):
            await _read(helper)
    except BaseException as error:
        await _kill(helper)
        if isinstance(error, ValueError | OSError | TimeoutError):
            raise HookError("the helper process for scripts does not start") from error
        raise
    return helper


async def _exchange(helper: Process, frame: Any) -> dict[str, Any]:
    """Send a frame and return the answer. Raises ValueError, OSError if the process ended."""
    assert helper.stdin is not None  # noqa: S101 - a pipe
    helper.stdin.write(orjson.dumps(frame) + b"\n")
    await helper.stdin.drain()
    return await _read(helper)


async def _read(helper: Process) -> dict[str, Any]:
    assert helper.stdout is not None  # noqa: S101 - a pipe
    answer: dict[str, Any] = orjson.loads(await helper.stdout.readline())
    return answer


async def _kill(helper: Process) -> None:
    with suppress(ProcessLookupError):
        helper.kill()
    if helper.stdin is not None:
        helper.stdin.close()
    await helper.wait()
