"""A real karmada-agent, as a process that joins a whole host."""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
import yaml

from e2e.lab.agent import LOG_TAIL, clean_environment
from e2e.lab.api import Api


class RealAgent:
    """One karmada-agent; its log is in `directory`. It runs inside `with`."""

    def __init__(
        self,
        program: str,
        hub: Api,
        host: Api,
        cluster: str,
        namespace: str,
        directory: Path,
        *flags: str,
    ) -> None:
        self.name = cluster
        self._log = directory / f"{cluster}.log"
        self._host = host
        context = yaml.safe_load(hub.kubeconfig.read_text())["current-context"]
        self._command = [
            *(program, "--karmada-kubeconfig", str(hub.kubeconfig), "--karmada-context", context),
            *("--cluster-name", cluster, "--cluster-namespace", namespace),
            *("--report-secrets", "None", "--leader-elect=false"),
            *("--health-probe-bind-address", "0", "--metrics-bind-address", "0"),
            *("--cluster-status-update-frequency", "2s", *flags),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = clean_environment() | {"KUBECONFIG": str(self._host.kubeconfig)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_exit(self, timeout_s: float = 60.0) -> int:
        """Wait until it ends by itself; return its exit code."""
        assert self._process is not None
        return self._process.wait(timeout=timeout_s)

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def log_tail(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_TAIL:])


def program_of(config: pytest.Config) -> str:
    """Return the program that --karmada-agent names; skip the test where none is given."""
    path = config.getoption("--karmada-agent")
    if not path:
        pytest.skip("no real karmada-agent: give its program with --karmada-agent")
    if not os.access(path, os.X_OK):
        pytest.fail(f"--karmada-agent {path} is no program")
    return str(path)
