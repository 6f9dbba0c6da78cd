"""The agent can be told to end from the first moment on, also as process 1 of a container."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from karmada_vc_agent import cli

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
SLOW_TO_LOAD = ("asyncio", "click", "aiohttp", "karmada_vc_agent.cli")
_CAUGHT = "SigCgt:"


def test_nothing_slow_is_loaded_before_signals_are_handled() -> None:
    code = "import sys; import karmada_vc_agent.__main__; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: S603
    assert not set(SLOW_TO_LOAD) & set(done.stdout.decode().split())


def test_nothing_is_loaded_before_garbage_is_collected_seldom() -> None:
    code = """
import gc, sys, karmada_vc_agent.__main__ as program
class Looking:
    def find_spec(self, name, *_):
        if name == "karmada_vc_agent.cli":
            sys.exit(gc.get_threshold() != program.GC_THRESHOLDS)
sys.meta_path.insert(0, Looking())
program.main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)  # noqa: S603
    assert done.returncode == 0


_INTERRUPTED = """
import sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "karmada_vc_agent.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.argv = ["karmada-vc-agent", "join", "--help"]
from karmada_vc_agent.__main__ import main

main()
"""


def test_command_that_is_interrupted_while_it_loads_ends_with_a_word() -> None:
    command = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr.strip()) == (130, b"Aborted!")


def test_version_loads_no_command() -> None:
    script = _INTERRUPTED.replace('"join", "--help"', '"--version"')
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout.split()[0]) == (0, b"karmada-vc-agent")


def test_command_that_is_interrupted_has_the_exit_code_of_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> click.Command:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(cli.main), "get_command", interrupted)
    done = CliRunner().invoke(cli.main, ["status"])
    assert (done.exit_code, done.stderr.strip()) == (130, "Aborted!")


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Return what runs an agent whose hub and host never answer."""
    server = {"server": "https://127.0.0.1:1"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    settings = {
        "apiVersion": "config.virtualcluster.kubeedge.io/v1alpha1",
        "kind": "AgentConfig",
        "virtualClusters": [{"name": "branch-a", "nodeNames": ["n1"]}],
    }
    for name, content in (("kubeconfig", kubeconfig), ("agent.yaml", settings)):
        (tmp_path / name).write_text(yaml.safe_dump(content))
    file = str(tmp_path / "kubeconfig")
    return [
        *(sys.executable, "-m", "karmada_vc_agent", "run", "--kubeconfig", file),
        *("--karmada-kubeconfig", file, "--config", str(tmp_path / "agent.yaml")),
        *("--health-probe-bind-address", "0", "--metrics-bind-address", "0"),
    ]


@pytest.fixture
def start(command: list[str]) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []

    def run(*before: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([*before, *command], cwd=ROOT)  # noqa: S603
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def wait_handler(pid: int, number: signal.Signals) -> None:
    """Wait until a process handles a signal."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        mask = int(next(line for line in lines if line.startswith(_CAUGHT)).split()[1], 16)
        if mask >> (number - 1) & 1 and b"karmada_vc_agent" in _command_line(pid):
            return
        time.sleep(0.001)
    raise AssertionError(f"process {pid} never handled {number.name}")


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_agent_terminated_while_it_loads_exits_cleanly(
    start: Callable[..., "subprocess.Popen[bytes]"], number: signal.Signals
) -> None:
    process = start()
    wait_handler(process.pid, signal.SIGTERM)
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root makes process 1"
)
def test_process_1_terminated_while_it_loads_exits_cleanly(
    start: Callable[..., "subprocess.Popen[bytes]"],
) -> None:
    process = start("unshare", "--pid", "--fork", "--kill-child")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + PATIENCE_S
    while not (found := children.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.001)
    wait_handler(int(found[0]), signal.SIGTERM)
    os.kill(int(found[0]), signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
