"""An agent as a process: started, measured through /proc, ended by its id."""

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STOP_S = 15.0
METRICS = "--metrics-bind-address"
"""The flag of both agents whose value is where an AgentProcess has its metrics from."""
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process and its children hold, in kB; PSS counts shared pages by share."""

    rss_kb: int
    pss_kb: int


class AgentProcess:
    """A running agent; children count as part of it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, command: Sequence[str]) -> None:
        self._process = process
        self._log = log
        self._metrics = f"http://{command[command.index(METRICS) + 1]}/metrics"
        self._began = time.monotonic()

    def age_s(self) -> float:
        """Return the seconds since its start."""
        return time.monotonic() - self._began

    def metrics(self) -> dict[str, float]:
        """Return its metrics by `name{labels}`; none while it does not serve them."""
        self.check()
        try:
            with urllib.request.urlopen(self._metrics, timeout=10) as answer:  # noqa: S310 - http
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        parted = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in parted}

    def check(self) -> None:
        """Raise RuntimeError with the end of the log where the process has ended."""
        if self._process.poll() is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"an agent ended, code {self._process.returncode}:\n{tail}")

    def cpu_s(self) -> float:
        """Return the CPU seconds used so far, user and system."""
        return sum(map(cpu_s, self._pids()))

    def memory(self) -> Memory:
        """Return what is held now."""
        pids = self._pids()
        rss = sum(map(rss_kb, pids))
        pss = sum(map(pss_kb, pids))
        return Memory(rss, pss)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it for the time of a block, as SIGSTOP does."""
        pids = self._pids()
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def peak_rss_kb(self) -> int:
        """Return the most that was ever held, in kB."""
        return sum(_field(Path(f"/proc/{pid}/status"), "VmHWM") for pid in self._pids())

    def _pids(self) -> list[int]:
        self.check()
        found = [self._process.pid]
        for pid in found:  # grows while it is walked: children of children
            children = Path(f"/proc/{pid}/task/{pid}/children")
            found += map(int, children.read_text().split()) if children.exists() else ()
        return found


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process used so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def pss_kb(pid: int) -> int:
    """Return what a process holds; shared pages by share."""
    return _field(Path(f"/proc/{pid}/smaps_rollup"), "Pss")


def rss_kb(pid: int) -> int:
    """Return what a process holds."""
    return _field(Path(f"/proc/{pid}/status"), "VmRSS")


@contextmanager
def running(
    command: Sequence[str], environment: dict[str, str], log: Path
) -> Iterator[AgentProcess]:
    """Run a command for the time of a block, then end it by its id."""
    # A session of its own: an interrupt of the terminal reaches us, and we end it in order.
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        yield AgentProcess(process, log, command)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _field(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(f"no {name} in {file}")
