"""An agent writes no file: the file system of its container is read-only."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PROGRAM = f"""
import asyncio, sys
from tests.fuzz.served_ways import field

written = []

def hook(event, arguments):
    if event == "open" and arguments[2] & {WRITING} and arguments[0] != "/dev/null":
        written.append(str(arguments[0]))
    elif event in ("os.mkdir", "os.rename", "os.remove", "tempfile.mkstemp", "tempfile.mkdtemp"):
        written.append(event)

async def serve():
    sys.addaudithook(hook)
    async with field() as running:
        await asyncio.sleep(1.0)
    running.task.result()

asyncio.run(serve())
print(*written)
"""


async def test_agent_that_serves_writes_no_file() -> None:
    command = [sys.executable, "-B", "-c", _PROGRAM]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
