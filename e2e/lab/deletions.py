"""Decide on deletions that an agent holds, as an administrator of the site does."""

from e2e.lab.agent import run_command
from e2e.lab.lab import Lab


def confirm_deletions(lab: Lab, *args: str) -> str:
    """Run `confirm-deletions` with args for the first agent of a lab; return what it prints."""
    agent = lab.agents[0]
    where = ("--agent-name", agent.name, "--agent-namespace", agent.namespace)
    host = ("--kubeconfig", str(lab.host.kubeconfig), "--yes")
    done = run_command("confirm-deletions", *where, *host, *args, timeout_s=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
