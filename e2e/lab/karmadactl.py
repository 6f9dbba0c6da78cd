"""`kubectl-karmada` and `kubectl` as a user of the hub runs them."""

import os
import subprocess
from pathlib import Path

from control_planes import tools
from e2e.lab.interpret import cached_program

TIMEOUT_S = 240
_CLUSTERS = "apis/cluster.karmada.io/v1alpha1/clusters"


class User:
    """A user of the hub. kubeconfig: of the hub. program: kubectl-karmada, None = the cached."""

    def __init__(self, kubeconfig: Path, home: Path, program: str | None = None) -> None:
        self._program = program or str(cached_program())
        self._kubectl = str(tools.program_paths()["kubectl"])
        self._kubeconfig = kubeconfig
        self._environment = {"HOME": str(home), "PATH": os.defpath}

    def karmada(self, *arguments: str, fails: bool = False) -> str:
        """Run kubectl-karmada; return its output, or its errors if it is to fail."""
        return self._run(self._program, *arguments, fails=fails)

    def raw(self, cluster: str, path: str, *, fails: bool = False) -> str:
        """GET a path of a member cluster through the hub's aggregated API."""
        url = f"/{_CLUSTERS}/{cluster}/proxy/{path}"
        return self._run(self._kubectl, "get", "--raw", url, fails=fails)

    def kubectl(self, server: str, cluster: str, *arguments: str, fails: bool = False) -> str:
        """Run kubectl against a member cluster through the hub; server: URL of the hub."""
        url = f"{server}/{_CLUSTERS}/{cluster}/proxy"
        return self._run(self._kubectl, f"--server={url}", *arguments, fails=fails)

    def _run(self, program: str, *arguments: str, fails: bool) -> str:
        done = subprocess.run(
            [program, "--kubeconfig", str(self._kubeconfig), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        told = f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert (done.returncode != 0) == fails, told
        return done.stderr if fails else done.stdout
