"""An image built by podman or docker, from the Containerfile."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from oci_image.platforms import ImageError, Platform

ROOT = Path(__file__).parents[2]
ENGINES = ("podman", "docker")
FILE = ROOT / "Containerfile"


def find(wanted: str) -> str | None:
    """Return the engine to use, None for none of them. wanted: `auto`, `none` or its name.

    Raises ImageError.
    """
    if wanted == "none":
        return None
    for engine in ENGINES:
        if wanted in ("auto", engine) and _answers(engine):
            return engine
    if wanted != "auto":
        raise ImageError(f"{wanted} is missing or does not answer; use another --engine")
    return None


def build(engine: str, name: str, platform: Platform, arguments: Mapping[str, str]) -> None:
    """Build the image. arguments: those of the build. Raises ImageError."""
    command = [engine, "build", "--platform", platform.name, "--tag", name, "--file", str(FILE)]
    for key, value in arguments.items():
        command += ["--build-arg", f"{key}={value}"]
    if subprocess.run([*command, str(ROOT)], check=False).returncode != 0:
        raise ImageError(f"{engine} build failed; --engine none builds without it")


def save(engine: str, name: str, path: Path) -> None:
    """Write the image to a file. Raises ImageError."""
    form = ["--format", "oci-archive"] if engine == "podman" else []
    path.unlink(missing_ok=True)
    if subprocess.run([engine, "save", *form, "-o", str(path), name], check=False).returncode != 0:
        raise ImageError(f"{engine} save failed")


def image_id(engine: str, name: str) -> str:
    """Return the id of an image."""
    command = [engine, "image", "inspect", "--format", "{{.Id}}", name]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return found if found.startswith("sha256:") else f"sha256:{found}"


def base_image() -> str:
    """Return the base image that the Containerfile names."""
    match = re.search(r"^ARG PYTHON=(\S+)$", FILE.read_text(), re.MULTILINE)
    if match is None:
        raise ImageError(f"{FILE} names no base image by ARG PYTHON")
    return match[1]


def _answers(engine: str) -> bool:
    if shutil.which(engine) is None:
        return False
    return subprocess.run([engine, "info"], capture_output=True, check=False).returncode == 0
