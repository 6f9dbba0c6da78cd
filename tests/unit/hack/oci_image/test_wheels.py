"""The agent as it is put into an image without an engine."""

import subprocess
import sys
from pathlib import Path

from oci_image import wheels
from oci_image.layers import directory_entries, layer


def test_agent_is_installed_as_it_is_released_and_the_same_each_time(tmp_path: Path) -> None:
    layers = []
    for name in ("first", "second"):
        wheels.install_agent(tmp_path / name)
        layers.append(layer(directory_entries(tmp_path / name, "app"), 0))
    assert layers[0] == layers[1]
    there = {path.name for path in (tmp_path / "first").iterdir()}
    assert "karmada_vc_agent" in there
    assert all(name.startswith("karmada_vc_agent") for name in there), "no tests, no tools"
    command = [sys.executable, "-I", "-c", _LOOK.format(target=tmp_path / "first")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/first/karmada_vc_agent\n"), done


_LOOK = """
import sys
sys.path.insert(0, "{target}")
from importlib import metadata
import karmada_vc_agent.cli
assert metadata.distribution("karmada-vc-agent").version
print(karmada_vc_agent.__path__[0])
"""
