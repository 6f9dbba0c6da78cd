"""Runs Lua scripts in helper processes, each run with a deadline.

A script that overruns is killed with its process; the next one gets a new process. Processes start
with the first script and end with the agent. Virtual clusters share processes fairly, and
none may hold all, so slow scripts of one do not block the others.
"""

import asyncio
import os
import struct
import sys
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
_LENGTH = struct.Struct(">I")
_HELPER = "karmada_vc_agent.interpretation.script_helper"
_ROOT = str(Path(__file__).resolve().parents[2])


class ScriptRunner:
    """A small pool of helper processes, started on demand.

    on_taken: called for each run with the origin of its process, `pool` or `new`.
    on_given_back: called with its destination, `pool` or `destroyed`.
    """

    def __init__(
        self,
        processes: int = PROCESSES,
        deadline_s: float = DEADLINE_S,
        *,
        on_taken: Callable[[str], None] = lambda _: None,
        on_given_back: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._deadline_s = deadline_s
        self._on_taken = on_taken
        self._on_given_back = on_given_back
        self._slots = FairSlots(processes)
        self._idle: list[_Helper] = []
        self._all: set[_Helper] = set()

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
                    answer = await helper.exchange(orjson.dumps(frame))
                is_sound = not answer.get("is_spent")
            except TimeoutError as error:
                raise UnavailableError(
                    f"the script did not end within {self._deadline_s:g} s"
                ) from error
            except (EOFError, OSError) as error:
                raise HookError(
                    "the script crashed its process: it needs more memory or deeper "
                    "recursion than allowed"
                ) from error
            finally:
                if is_sound:
                    self._idle.append(helper)
                    self._on_given_back("pool")
                else:
                    self._on_given_back("destroyed")
                    await self._end(helper)
        if "error" in answer:
            raise HookError(answer["error"])
        return answer["value"]

    async def close(self) -> None:
        """End all helper processes."""
        for helper in list(self._all):
            await self._end(helper)
        self._idle.clear()

    async def _take(self) -> "_Helper":
        while self._idle:
            helper = self._idle.pop()
            if helper.is_running:
                self._on_taken("pool")
                return helper
            await self._end(helper)
        helper = await _Helper.start()
        self._on_taken("new")
        self._all.add(helper)
        return helper

    async def _end(self, helper: "_Helper") -> None:
        self._all.discard(helper)
        await helper.kill()


class _Helper:
    """One helper process, and frames to and from it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(cls) -> "_Helper":
        """Start a process and wait until it is ready. Raises HookError."""
        # Its own search path and time zone only: none of the agent's credentials.
        environment = {"PYTHONPATH": _ROOT, "LC_ALL": "C.UTF-8"}
        if "TZ" in os.environ:
            environment["TZ"] = os.environ["TZ"]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-s", "-B", "-m", _HELPER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            cwd="/",
        )
        helper = cls(process)
        try:
            async with asyncio.timeout(START_S):
                await helper._read()
        except (EOFError, OSError, TimeoutError) as error:
            await helper.kill()
            raise HookError("the helper process for scripts does not start") from error
        except BaseException:
            await helper.kill()
            raise
        return helper

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def exchange(self, frame: bytes) -> dict[str, Any]:
        """Send a frame and return the answer. Raises EOFError, OSError if the process ended."""
        self._stdin.write(_LENGTH.pack(len(frame)) + frame)
        await self._stdin.drain()
        return await self._read()

    async def _read(self) -> dict[str, Any]:
        length = _LENGTH.unpack(await self._stdout.readexactly(_LENGTH.size))[0]
        if length > ANSWER_BYTES:
            raise EOFError(f"an answer of {length} bytes")
        answer: dict[str, Any] = orjson.loads(await self._stdout.readexactly(length))
        return answer

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._stdin.close()
        await self._process.wait()
