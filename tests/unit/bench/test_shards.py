"""Processes that divide the virtual clusters are measured, and end, as one."""

import os
import time
from pathlib import Path

import pytest

from bench.lab import Lab
from bench.process import METRICS


def test_one_process_for_each_shard_runs_and_ends_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    command = ["sh", "-c", f'echo "$@" >> {said}; exec sleep 60', "agent", METRICS, "127.0.0.1:1"]
    monkeypatch.setattr(Lab, "our_command", lambda *_, **__: (command, dict(os.environ)))
    with Lab(tmp_path, 1).lone_agent({}, shards=2) as agent:
        deadline = time.monotonic() + 30.0
        while not (said.exists() and said.read_text().count("\n") == 2):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        pids = agent._pids()
        assert len(pids) == 3
    first, second = sorted(said.read_text().splitlines(), key=len)
    assert first == f"{METRICS} 127.0.0.1:1 --shard 0/2"
    assert second.startswith(f"{METRICS} 127.0.0.1:1 {METRICS} 0 ")
    assert second.endswith(" --shard 1/2")
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
