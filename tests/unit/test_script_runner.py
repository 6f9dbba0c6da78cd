"""Scripts in helper processes: whatever a script does, the next one is answered."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from karmada_vc_agent.interpretation.script_runner import ScriptRunner
from karmada_vc_agent.interpretation.user_hooks import INTERPRET_STATUS, HookError, UnavailableError

ROOT = Path(__file__).resolve().parents[2]
ECHO = "function ReflectStatus(o) return o.spec end"
ENDLESS = "function ReflectStatus(o) while true do end end"
# Each character class backtracks into all before it: years, and inside one call of C.
PATHOLOGICAL = """
function ReflectStatus(o)
  local text = 'a' for i = 1, 12 do text = text .. text end
  return {at = string.find(text, '(.-)(.-)(.-)(.-)(.-)(.-)(.-)(.-)b')}
end
"""
# The matcher of C recurses once for each `?` and runs over the end of its stack.
STACK_EATER = """
function ReflectStatus(o)
  local text, pattern = 'a', 'a?'
  for i = 1, 18 do text, pattern = text .. text, pattern .. pattern end
  return {at = string.find(text, pattern)}
end
"""
BOMB = "function ReflectStatus(o) local t = {} while true do t[#t + 1] = {} end end"
STUBBORN = """
function ReflectStatus(o)
  while true do pcall(function() local t = {} while true do t[#t + 1] = {} end end) end
end
"""


@pytest.fixture
async def runner() -> AsyncIterator[ScriptRunner]:
    runner = ScriptRunner(processes=2)
    yield runner
    await runner.close()


async def run(runner: ScriptRunner, script: str, turn: str = "a", number: int = 1) -> object:
    return await runner.run(turn, script, INTERPRET_STATUS, [{"spec": {"n": number}}])


async def test_no_process_runs_before_the_first_script(runner: ScriptRunner) -> None:
    assert helpers() == []
    assert await run(runner, ECHO) == {"n": 1}
    assert len(helpers()) == 1


async def test_scripts_run_side_by_side_and_get_their_own_answers(runner: ScriptRunner) -> None:
    answers = await asyncio.gather(*(run(runner, ECHO, f"{i % 7}", i) for i in range(50)))
    assert answers == [{"n": i} for i in range(50)]
    assert len(helpers()) <= 2


@pytest.mark.parametrize(
    "script",
    [ENDLESS, PATHOLOGICAL, BOMB, STUBBORN, STACK_EATER],
    ids=["endless", "pathological", "bomb", "stubborn", "stack"],
)
async def test_failing_script_is_an_error_and_the_next_one_runs(
    runner: ScriptRunner, script: str
) -> None:
    started = time.monotonic()
    with pytest.raises(HookError):
        await run(runner, script)
    assert time.monotonic() - started < 10  # not the deadline: this machine may be busy
    assert await run(runner, ECHO) == {"n": 1}


async def test_script_over_its_time_is_distinguished_from_one_that_fails(
    runner: ScriptRunner,
) -> None:
    with pytest.raises(UnavailableError, match="did not end within 1 s"):
        await run(runner, ENDLESS)
    with pytest.raises(HookError, match="returned nil") as caught:
        await run(runner, "function ReflectStatus(o) end")
    assert not isinstance(caught.value, UnavailableError)


async def test_a_slow_script_leaves_a_process_to_the_others(runner: ScriptRunner) -> None:
    slow = [asyncio.create_task(run(runner, ENDLESS, "slow")) for _ in range(3)]
    await asyncio.sleep(0)
    assert await run(runner, ECHO, "other") == {"n": 1}
    assert not any(task.done() for task in slow[1:])
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert await run(runner, ECHO, "slow") == {"n": 1}


async def test_event_loop_continues_while_a_script_runs(runner: ScriptRunner) -> None:
    task = asyncio.create_task(run(runner, ENDLESS))
    turns = 0
    while not task.done():
        turns += 1
        await asyncio.sleep(0.01)
    assert turns > 10
    with pytest.raises(UnavailableError):
        task.result()


async def test_a_process_that_died_between_scripts_is_replaced(runner: ScriptRunner) -> None:
    await run(runner, ECHO)
    (process_id,) = helpers()
    os.kill(process_id, signal.SIGKILL)
    for _ in range(100):
        try:
            if await run(runner, ECHO) == {"n": 1}:
                break
        except HookError:
            continue
    assert process_id not in helpers()


async def test_close_ends_the_processes(runner: ScriptRunner) -> None:
    await run(runner, ECHO)
    (process_id,) = helpers()
    await runner.close()
    assert not is_alive(process_id)


async def test_runner_reports_origin_and_return_of_processes() -> None:
    places: dict[str, list[str]] = {"get": [], "put": []}
    runner = ScriptRunner(count=lambda operation, place: places[operation].append(place))
    try:
        await run(runner, ECHO)
        await run(runner, ECHO)
        with pytest.raises(HookError):
            await run(runner, BOMB)
        await run(runner, ECHO)
    finally:
        await runner.close()
    assert places["get"] == ["new", "pool", "pool", "new"]
    assert places["put"] == ["pool", "pool", "destroyed", "pool"]


def test_a_helper_ends_with_an_agent_that_is_killed() -> None:
    """Also one that is in the middle of an endless script."""
    program = f"""
import asyncio
from karmada_vc_agent.interpretation.script_runner import ScriptRunner
async def main():
    runner = ScriptRunner(deadline_s=600)
    await runner.run("a", {ECHO!r}, "InterpretStatus", [{{"spec": {{}}}}])
    print("runs", flush=True)
    await runner.run("a", {ENDLESS!r}, "InterpretStatus", [{{"spec": {{}}}}])
asyncio.run(main())
"""
    agent = subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert agent.stdout is not None
    with agent.stdout:
        agent.stdout.readline()
    (helper,) = helpers(agent.pid)
    agent.kill()
    agent.wait()
    deadline = time.monotonic() + 20
    while is_alive(helper) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(helper)


def is_alive(process_id: int) -> bool:
    return state_and_parent(process_id)[0] not in ("", "Z")


def helpers(parent: int | None = None) -> list[int]:
    """Return the helper processes of a process, of this one by default, that have not ended."""
    others = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    of_parent = str(parent or os.getpid())
    children = [one for one in others if state_and_parent(one)[1] == of_parent and is_alive(one)]
    return [one for one in children if b"script_helper" in command(one)]


def state_and_parent(process_id: int) -> tuple[str, str]:
    """Return both as the kernel tells them; empty where there is no such process."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return fields[0], fields[1]


def command(process_id: int) -> bytes:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
