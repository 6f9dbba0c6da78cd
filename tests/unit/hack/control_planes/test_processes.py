"""Processes of the control planes for tests: remembered, recognised, ended."""

import dataclasses
import time
from pathlib import Path

import pytest

from control_planes import processes
from control_planes.launch import describe_end

SLEEP = "/bin/sleep"


@pytest.fixture(name="record")
def start_sleep(tmp_path: Path) -> processes.ProcessRecord:
    process = processes.spawn([SLEEP, "300"], tmp_path / "log", tmp_path)
    ticks = processes.start_ticks(process.pid)
    assert ticks is not None
    process.returncode = 0  # nobody waits for it here: keeps Popen from warning
    deadline = time.monotonic() + 20
    while not Path(f"/proc/{process.pid}/cmdline").read_bytes():  # as long as it is any program
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return processes.ProcessRecord("sleep", process.pid, ticks, SLEEP, "http://127.0.0.1:1", "", "")


def test_recorded_process_is_ended(record: processes.ProcessRecord) -> None:
    assert processes.is_running(record)

    assert processes.stop([record]) == 1

    assert not processes.is_running(record)
    assert processes.stop([record]) == 0


def test_process_that_only_has_the_same_pid_is_left_alone(record: processes.ProcessRecord) -> None:
    older = dataclasses.replace(record, start_ticks=record.start_ticks - 1)
    other = dataclasses.replace(record, program="/usr/bin/etcd")

    assert processes.stop([older, other]) == 0

    assert processes.is_running(record)
    processes.stop([record])


def test_records_come_back_oldest_first(tmp_path: Path) -> None:
    new = processes.ProcessRecord("a", 10, 500, SLEEP, "", "", "")
    old = processes.ProcessRecord("b", 11, 400, SLEEP, "", "", "")
    for record in (new, old):
        processes.write_record(tmp_path, record)

    assert processes.read_records(tmp_path) == [old, new]


@pytest.mark.parametrize(
    ("code", "words"), [(3, "ended with exit code 3"), (-11, "was ended by SIGSEGV")]
)
def test_end_of_a_process_is_put_into_words(code: int, words: str) -> None:
    assert describe_end(code) == words
