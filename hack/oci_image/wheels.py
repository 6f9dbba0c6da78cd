"""The agent's wheel and what it needs, installed for a platform without running anything of it."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from oci_image.debian import PYTHON
from oci_image.platforms import ImageError, Platform

ROOT = Path(__file__).parents[2]
GLIBC = 36
"""Minor version of the glibc of Debian bookworm: newer wheels do not run on it."""
_OLDEST_GLIBC = 5
_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "karmada_vc_agent")


def install_requirements(platform: Platform, target: Path) -> None:
    """Install requirements/agent.txt into a directory: wheels only, by their hashes."""
    tags = [f"manylinux_2_{minor}_{platform.machine}" for minor in range(GLIBC, _OLDEST_GLIBC, -1)]
    tags += [f"manylinux2014_{platform.machine}"]
    _pip(
        "install",
        "--require-hashes",
        "--only-binary=:all:",
        "--no-deps",
        "--no-compile",
        f"--target={target}",
        f"--python-version={PYTHON}",
        "--implementation=cp",
        *(f"--platform={tag}" for tag in tags),
        f"--requirement={ROOT / 'requirements' / 'agent.txt'}",
    )
    shutil.rmtree(target / "bin", ignore_errors=True)


def install_agent(target: Path) -> None:
    """Build the agent's wheel with the build backend that is installed, and install it."""
    with tempfile.TemporaryDirectory() as folder:
        source, wheels = Path(folder, "source"), Path(folder, "wheels")
        source.mkdir()
        for name in _SOURCES:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, source / name)
        flags = ("--no-deps", "--no-index")
        _pip("wheel", *flags, "--no-build-isolation", f"--wheel-dir={wheels}", str(source))
        # By name: of a path, pip would note where that was.
        finding = ("--no-compile", f"--find-links={wheels}", f"--target={target}")
        _pip("install", *flags, *finding, "karmada-vc-agent")
    shutil.rmtree(target / "bin", ignore_errors=True)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(f"pip {arguments[0]} failed:\n{done.stderr.strip()}")
