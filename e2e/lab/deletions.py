"""Decide on deletions that an agent holds, as an administrator of the site does."""

import subprocess
import sys

from e2e.lab.agent import ROOT, clean_environment
from e2e.lab.lab import Lab


def confirm_deletions(lab: Lab, cluster: str, *flags: str) -> str:
    """Run `confirm-deletions` for the first agent of a lab; return what it prints."""
    agent = lab.agents[0]
    command = [sys.executable, "-m", "karmada_vc_agent", "confirm-deletions", cluster]
    command += ["--agent-name", agent.name, "--agent-namespace", agent.namespace]
    command += ["--kubeconfig", str(lab.host.kubeconfig), "--yes", *flags]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=clean_environment(),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
