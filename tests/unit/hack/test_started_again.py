"""What panics is started again, and what ends otherwise is not."""

import subprocess
from pathlib import Path

import pytest

from control_planes.launch import AGAIN

END = 'n=$(cat "$1" 2>/dev/null || echo 0); echo $((n + 1)) >"$1"; [ "$n" = 0 ] && exit 2; exit $2'
"""Panics the first time, and ends with a code the next."""


@pytest.mark.parametrize("code", [0, 1])
def test_program_is_started_again_when_it_panicked(tmp_path: Path, code: int) -> None:
    counter = tmp_path / "starts"
    command = [*AGAIN, "/bin/sh", "-c", END, "sh", str(counter), str(code)]
    done = subprocess.run(  # noqa: S603 - as written above
        command, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == code
    assert counter.read_text().strip() == "2"
    assert "/bin/sh panicked; starting it again" in done.stdout
