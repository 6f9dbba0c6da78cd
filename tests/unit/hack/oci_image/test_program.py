"""The image has the agent's command in PATH, for `kubectl exec`."""

import subprocess
import sys
from pathlib import Path

from oci_image.__main__ import PROGRAM

ROOT = Path(__file__).parents[4]


def test_the_command_in_the_path_runs_the_agent(tmp_path: Path) -> None:
    script = tmp_path / "karmada-vc-agent"
    script.write_bytes(PROGRAM.content)
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, script, "status", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.startswith("Usage: karmada-vc-agent status")
    assert PROGRAM.name == "usr/bin/karmada-vc-agent"
    assert PROGRAM.mode & 0o111
