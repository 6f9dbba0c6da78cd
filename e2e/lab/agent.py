"""The agent under test, as a process that can be stopped, killed and started again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from e2e.lab import access, step
from e2e.lab.access import Kubeconfigs
from e2e.lab.step import Step
from e2e.lab.wait import eventually
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.feature_list import CONFIG

ROOT = Path(__file__).resolve().parents[2]
STOP_S = 30.0
"""What a Pod is given to end. On an idle machine it takes at most 5."""
EXIT_S = 60.0
"""How long one may take that ends by itself."""
LOG_TAIL = 60


class Agent:
    """One `karmada-vc-agent run`; its settings file and log are in `directory`.

    Each start gives it the rights of `karmada-vc-agent join` for its settings, and no others.
    settings: content of the settings file, without apiVersion and kind. kubeconfigs: how it
    reaches hub and host. administrator: who gives the rights; None = it runs as `kubeconfigs` do.
    certificate_s: for how long its certificate for the hub is asked. source: the tree that has
    its program.
    """

    def __init__(
        self,
        directory: Path,
        kubeconfigs: Kubeconfigs,
        settings: dict[str, Any],
        *flags: str,
        administrator: Kubeconfigs | None,
        certificate_s: int = access.LIFETIME_S,
        source: Path = ROOT,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name: str = settings["agentName"]
        self.namespace: str = settings["agentNamespace"]
        self.settings = settings
        self.extra_names: list[str] = []
        """Virtual clusters that get rights beside those of the settings: `join --name`."""
        self.flags = list(flags)
        self._directory = directory
        self._config = directory / "agent.yaml"
        self._log = directory / "agent.log"
        self._kubeconfigs = kubeconfigs
        self._administrator = administrator
        self._certificate_s = certificate_s
        self._source = source
        self._process: subprocess.Popen[bytes] | None = None
        self.dies_at: Step | None = None
        """Where it kills itself, from its next start on."""
        self.open_files = 0
        """How many files it may have open from its next start on; 0 = as many as the test."""

    @property
    def account(self) -> str:
        """Name of its user on the host, "" where it runs as who gave it the kubeconfig."""
        if self._administrator is None:
            return ""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def start(self, *extra_flags: str, content: str = "", keeps_rights: bool = False) -> "Agent":
        """Start it with the settings as they are now.

        content: of the settings file, if that says otherwise than what it joins with.
        keeps_rights: use those that it was given before; saves a second.
        """
        assert self._process is None, "the agent runs already"
        self._config.write_text(yaml.safe_dump(settings_file(self.settings)))
        used = self._given if keeps_rights else self.join()
        if content:
            self._config.write_text(content)
        environment = clean_environment()
        program = step.program_for(self.dies_at, environment)
        command = [
            *(sys.executable, "-m", program, "run", "--config", str(self._config)),
            *("--karmada-kubeconfig", str(used.hub), "--kubeconfig", str(used.host)),
            *("--health-probe-bind-address", "0", "--metrics-bind-address", "0"),
            *(*self.flags, *extra_flags),
        ]
        if self.open_files:
            limit = f'ulimit -n {self.open_files} && exec "$@"'
            command = ["sh", "-c", limit, "sh", *command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._source, env=environment
            )
        return self

    @property
    def _given(self) -> Kubeconfigs:
        return Kubeconfigs(self.hub_kubeconfig, self.host_kubeconfig)

    @property
    def config(self) -> Path:
        """The file with its settings."""
        return self._config

    @property
    def hub_kubeconfig(self) -> Path:
        """The file by which it reaches the hub with rights of its own."""
        return self._directory / access.HUB_FILE

    @property
    def host_kubeconfig(self) -> Path:
        """The file by which it reaches the host with rights of its own."""
        return self._directory / access.HOST_FILE

    def reload(self) -> None:
        """Give it the rights for its settings as they are now, then put these into its file.

        It has to notice that by itself.
        """
        new = self._config.with_suffix(".new.yaml")
        new.write_text(yaml.safe_dump(settings_file(self.settings)))
        self._join(new, keeps_certificate=True)
        new.rename(self._config)

    def write_settings(self, text: str) -> None:
        """Put any text into its settings file."""
        self._config.write_text(text)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None, "the agent does not run"
        self._process.send_signal(number)

    def join(self, *, keeps_certificate: bool = True) -> Kubeconfigs:
        """Give it its rights; return the kubeconfigs to run with."""
        self._config.write_text(yaml.safe_dump(settings_file(self.settings)))
        return self._join(self._config, keeps_certificate=keeps_certificate)

    def _join(self, config: Path, *, keeps_certificate: bool) -> Kubeconfigs:
        if self._administrator is None:
            return self._kubeconfigs
        return access.join(
            self._administrator,
            self._kubeconfigs,
            self._directory,
            load_config(CONFIG, config, {}),
            tuple(self.extra_names),
            works_cluster_wide="--works-cluster-wide" in self.flags,
            lifetime_s=self._certificate_s,
            keeps_certificate=keeps_certificate,
        )

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def terminate(self) -> None:
        """Ask it to end; it must do so in time and say that all is well."""
        assert self._process is not None, "the agent does not run"
        eventually(_may_end, self._process)
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout=EXIT_S)
        took_s = time.monotonic() - started
        self._process = None
        assert code == 0, f"exit code {code} after SIGTERM\n{self.log_tail()}"
        assert took_s < STOP_S, f"it took {took_s:.1f} s to end after SIGTERM\n{self.log_tail()}"

    def restart(self, *extra_flags: str) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start(*extra_flags)

    @property
    def process_id(self) -> int:
        assert self._process is not None, "the agent does not run"
        return self._process.pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_exit(self) -> int:
        """Wait until it ends by itself; return its exit code."""
        assert self._process is not None
        code = self._process.wait(timeout=EXIT_S)
        self._process = None
        return code

    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def log_tail(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_TAIL:])


def _may_end(process: "subprocess.Popen[bytes]") -> None:
    """Check that a process handles SIGTERM: until Python runs the program, it ends by it."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    assert process.poll() is not None or caught >> (signal.SIGTERM - 1) & 1


def settings_file(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the whole content of a settings file."""
    header = {
        "apiVersion": "config.virtualcluster.kubeedge.io/v1alpha1",
        "kind": "AgentConfig",
    }
    return header | settings


def run_command(
    *arguments: str, stdin: str = "", timeout_s: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run `karmada-vc-agent` with these arguments to its end."""
    return subprocess.run(
        [sys.executable, "-m", "karmada_vc_agent", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=clean_environment(),
        timeout=timeout_s,
    )


def clean_environment() -> dict[str, str]:
    """Return the environment without settings of whoever runs the tests."""
    foreign = ("KARMADA_VC_AGENT_", "KUBECONFIG", "KUBERNETES_SERVICE_")
    return {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
