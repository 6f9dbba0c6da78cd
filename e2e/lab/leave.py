"""`karmada-vc-agent leave`, as an administrator runs it."""

import subprocess
import sys
from pathlib import Path

from e2e.lab.agent import ROOT, clean_environment
from e2e.lab.lab import Lab


def leave(
    lab: Lab,
    *arguments: str,
    hub: Path | None = None,
    host: Path | None = None,
    agent_name: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run it for the first agent of a test, or for one of another name.

    hub, host: by which way they are reached.
    """
    agent = lab.agents[0]
    command = [sys.executable, "-m", "karmada_vc_agent", "leave", *arguments]
    command += ["--agent-name", agent_name or agent.name, "--agent-namespace", agent.namespace]
    command += ["--karmada-kubeconfig", str(hub or lab.hub.kubeconfig)]
    command += ["--kubeconfig", str(host or lab.host.kubeconfig)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=clean_environment(),
        timeout=240,
    )
