"""The command line of hack/image."""

import os
import platform as this_machine
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

import click

from oci_image import archive, debian, engine, sbom, wheels
from oci_image.bytecode import can_compile_for, with_bytecode
from oci_image.layers import Entry, directory_entries, layer
from oci_image.platforms import PLATFORMS, ImageError, Platform, own_platform

ROOT = Path(__file__).parents[2]
APP = "app"
HELP = """Build the agent's image, and write it to a file with its SBOM (CycloneDX) beside it.

With podman or docker: from the Containerfile. Without one, anywhere where Debian's apt is: an OCI
archive of the agent's wheel, what it needs by pinned hashes, and Debian's Python; that needs
neither root nor a registry, and gives the same archive for the same commit and packages.

\b
Examples:
  hack/image                                   # dist/karmada-vc-agent-0.1.0-amd64.tar
  hack/image --engine none --platform linux/arm64
  hack/image --tag karmada-vc-agent:dev
  kind load image-archive dist/karmada-vc-agent-dev-amd64.tar
"""


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(("auto", *engine.ENGINES, "none")),
    default="auto",
    show_default=True,
    help="What builds it; auto: the first of the others that answers, else none.",
)
@click.option(
    "--platform", "platform_name", type=click.Choice(tuple(PLATFORMS)), help="Default: this one."
)
@click.option("--tag", default="", help="Name and tag. Default: karmada-vc-agent:VERSION.")
@click.option("--output", type=click.Path(path_type=Path), help="File to write. Default: in dist/.")
@click.option("--mirror", default=debian.MIRROR, show_default=True, help="Mirror of Debian.")
def main(
    engine_name: str, platform_name: str | None, tag: str, output: Path | None, mirror: str
) -> None:
    version = str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    name = tag or f"karmada-vc-agent:{version}"
    platform = PLATFORMS[platform_name] if platform_name else own_platform(this_machine.machine())
    path = output or ROOT / "dist" / _file_name(name, platform)
    path.parent.mkdir(parents=True, exist_ok=True)
    program = engine.find(engine_name)
    labels = _labels(version)
    if program is not None:
        arguments = {"VERSION": version, "REVISION": labels["org.opencontainers.image.revision"]}
        engine.build(program, name, platform, arguments)
        engine.save(program, name, path)
        found, components = engine.image_id(program, name), sbom.of_base_image(engine.base_image())
    else:
        found, packages = _without_engine(name, platform, path, labels, mirror)
        components = sbom.of_debian(packages)
    bom = path.with_suffix(".cdx.json")
    sbom.write(bom, version, f"{name}@{found}", [*sbom.of_requirements(), *components], _epoch_s())
    click.echo(f"{path} ({path.stat().st_size / 1e6:.0f} MB, {found}), {bom.name}")


PROGRAM = Entry(
    "usr/bin/karmada-vc-agent",
    b"#!/usr/bin/python3\nfrom karmada_vc_agent.__main__ import main\n\nmain()\n",
    0o755,
)
"""What `kubectl exec` finds in PATH."""


def _without_engine(
    name: str, platform: Platform, path: Path, labels: dict[str, str], mirror: str
) -> tuple[str, list[debian.Package]]:
    epoch_s = _epoch_s()
    with tempfile.TemporaryDirectory() as folder:
        apt, needed, agent = (Path(folder, name) for name in ("apt", "needed", "agent"))
        apt.mkdir()
        packages = debian.fetch(platform, apt, mirror)
        wheels.install_requirements(platform, needed)
        wheels.install_agent(agent)
        parts: list[tuple[Iterable[Entry], str, str]] = [
            (debian.root(packages), debian.LIBRARY, f"Debian {debian.SUITE}: Python"),
            (directory_entries(needed, APP), APP, "requirements/agent.txt"),
            ([*directory_entries(agent, APP), PROGRAM], APP, "karmada-vc-agent"),
        ]
        compiles = can_compile_for(debian.PYTHON)
        layers = [
            (layer(with_bytecode(each, below) if compiles else each, epoch_s), made)
            for each, below, made in parts
        ]
    if not compiles:
        click.echo(f"no bytecode: Python {debian.PYTHON} would add it (PYTHON=...)", err=True)
    run = {
        "User": "65532:65532",
        "Entrypoint": ["/usr/bin/python3", "-m", "karmada_vc_agent"],
        "Env": [f"PYTHONPATH=/{APP}", "PYTHONDONTWRITEBYTECODE=1", "PATH=/usr/bin"],
        "WorkingDir": "/",
    }
    image = archive.Image(name, platform, layers, run, epoch_s, labels)
    return archive.write(image, path), packages


def _labels(version: str) -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "org.opencontainers.image.title": project["name"],
        "org.opencontainers.image.description": project["description"],
        "org.opencontainers.image.licenses": project["license"],
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.revision": _git("rev-parse", "HEAD"),
    }


def _epoch_s() -> int:
    """Return SOURCE_DATE_EPOCH, else when the commit was made."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0)


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def _file_name(name: str, platform: Platform) -> str:
    short = name.rpartition("/")[2].replace(":", "-")
    return f"{short}-{platform.architecture}.tar"


if __name__ == "__main__":
    try:
        main(prog_name="hack/image", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ImageError as error:
        print(f"hack/image: {error}", file=sys.stderr)
        sys.exit(1)
