"""kubectl as a user runs it."""

import subprocess
from pathlib import Path

from control_planes import tools
from e2e.lab.agent import clean_environment

TIMEOUT_S = 240


def kubectl(
    kubeconfig: Path,
    *arguments: str,
    stdin: str = "",
    fails: bool = False,
    with_errors: bool = False,
) -> str:
    """Return what it writes. with_errors: also to its error output, as where it fails."""
    done = subprocess.run(
        [str(tools.program_paths()["kubectl"]), "--request-timeout=60s", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={
            **clean_environment(),
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(kubeconfig.parent),
        },
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode != 0) is fails, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout + (done.stderr if fails or with_errors else "")
