"""Control planes of a test whose etcd can be put back to what it was, as from a backup."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from control_planes import health, processes
from control_planes.directory import Directory

HEALTHY_WITHIN_S = 120.0


class Restorable:
    """The processes of a directory; their etcd goes back in time when told to.

    Everything else is ended while the data changes and started again as it was, at the same
    ports, for that is what a restore by the book does.
    """

    def __init__(self, root: Path) -> None:
        self._directory = Directory(root)
        self._backup = root / "backup"

    def back_up(self) -> None:
        """Copy the data as it is now."""
        records = self._end()
        shutil.copytree(self._directory.data / "etcd", self._backup)
        self._start(records)

    def restore(self) -> None:
        """Put the data back to what was copied."""
        records = self._end()
        shutil.rmtree(self._directory.data / "etcd")
        shutil.copytree(self._backup, self._directory.data / "etcd")
        self._start(records)

    def _end(self) -> list[tuple[processes.ProcessRecord, list[str]]]:
        records = processes.read_records(self._directory.processes)
        commands = [_command(record.pid) for record in records]
        processes.stop(records)
        return list(zip(records, commands, strict=True))

    def _start(self, ended: list[tuple[processes.ProcessRecord, list[str]]]) -> None:
        """Start what was ended, oldest first, each when the one before it is healthy."""
        for record, command in ended:
            log = Path(record.log)
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._directory.data,
                    start_new_session=True,
                    env={"PATH": "/usr/bin:/bin", "HOME": str(self._directory.data)},
                )
            ticks = processes.start_ticks(process.pid)
            assert ticks is not None, f"{record.component} ended at once; its log is {log}"
            again = processes.ProcessRecord(
                component=record.component,
                pid=process.pid,
                start_ticks=ticks,
                program=record.program,
                health=record.health,
                ca=record.ca,
                log=record.log,
            )
            processes.write_record(self._directory.processes, again)
            _wait_healthy(again)
            process.returncode = 0  # it is ended by its record, not by who started it here


def _command(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def _wait_healthy(record: processes.ProcessRecord) -> None:
    deadline = time.monotonic() + HEALTHY_WITHIN_S
    while problem := health.find_problem(record.health, record.ca):
        if time.monotonic() > deadline:
            pytest.fail(f"{record.component} does not come back: {problem}; see {record.log}")
        time.sleep(0.1)
