"""`karmada-vc-agent leave`, as an administrator runs it."""

import subprocess
from pathlib import Path

from e2e.lab.agent import run_command
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
    return run_command(
        *("leave", *arguments),
        *("--agent-name", agent_name or agent.name, "--agent-namespace", agent.namespace),
        *("--karmada-kubeconfig", str(hub or lab.hub.kubeconfig)),
        *("--kubeconfig", str(host or lab.host.kubeconfig)),
    )
