"""The files of a release; each is the same whenever it is made from the same commit."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oci_image import sbom
from oci_image.layers import Entry, digest, directory_entries, layer
from release_files import versions
from release_files.versions import ReleaseError

NAME = "karmada-vc-agent"
CHECKSUMS = "SHA256SUMS"
_WHEEL_NAME = NAME.replace("-", "_")
_BUILD = "import sys, setuptools.build_meta as build; build.{call}(sys.argv[1])"


@dataclass(frozen=True, slots=True)
class Release:
    """What is released. source: a clone at the commit. image: as installs name it, with its tag."""

    version: str
    source: Path
    output: Path
    image: str
    epoch_s: int

    @property
    def python_version(self) -> str:
        """The version as the names of Python's packages have it: 0.2.0rc1 for 0.2.0-rc.1."""
        return self.version.replace("-rc.", "rc").replace("-beta.", "b").replace("-alpha.", "a")


def packages(release: Release) -> None:
    """Write wheel, source distribution, and what the wheel needs as CycloneDX."""
    wheel = release.output / f"{_WHEEL_NAME}-{release.python_version}-py3-none-any.whl"
    source = release.output / f"{_WHEEL_NAME}-{release.python_version}.tar.gz"
    for call, path in (("build_sdist", source), ("build_wheel", wheel)):
        command = [sys.executable, "-c", _BUILD.format(call=call)]
        _run([*command, str(release.output)], release)
        if not path.exists():
            raise ReleaseError(f"setuptools made no {path.name}")
    _repack(source, release.epoch_s)
    sbom.write(
        release.output / f"{NAME}-{release.version}.cdx.json",
        release.version,
        f"{wheel.name}@{digest(wheel.read_bytes())}",
        sbom.of_requirements(),
        release.epoch_s,
        kind="application",
    )


def chart(release: Release) -> None:
    """Write the chart, as `helm package` names it, with the image of the release."""
    entries = {
        entry.name: entry
        for entry in directory_entries(release.source / "manifests" / "chart", NAME)
    }
    values = f"{NAME}/values.yaml"
    entries[values] = Entry(values, _with_image(entries[values].content, release.image))
    path = release.output / f"{NAME}-chart-{release.version}.tgz"
    path.write_bytes(layer(entries.values(), release.epoch_s, level=9).blob)


def install_manifest(release: Release) -> None:
    """Write one file that installs the agent, for virtual clusters as objects."""
    command = [sys.executable, "-m", "release_files.install_file", release.version, release.image]
    (release.output / "install.yaml").write_text(_run(command, release))


def images(release: Release, platforms: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Write an OCI archive and its CycloneDX for each platform."""
    for platform in platforms:
        say(f"image for {platform}")
        path = release.output / f"{NAME}-{release.version}-{platform.rpartition('/')[2]}.tar"
        command = [sys.executable, "-m", "oci_image", "--engine", "none", "--tag", release.image]
        _run([*command, "--platform", platform, "--output", str(path)], release)


def notes(release: Release, section: str) -> None:
    """Write a section of the changelog."""
    text = versions.notes((release.source / "CHANGELOG.md").read_text(), section)
    (release.output / "NOTES.md").write_text(text)


def checksums(release: Release) -> None:
    """Write SHA256SUMS over all files, for `sha256sum --check`."""
    lines = [
        f"{digest(path.read_bytes()).removeprefix('sha256:')}  {path.name}\n"
        for path in sorted(release.output.iterdir())
    ]
    (release.output / CHECKSUMS).write_text("".join(lines))


def _with_image(values: bytes, image: str) -> bytes:
    head, key, tail = values.partition(b"\nimage: ")
    if not key:
        raise ReleaseError("values.yaml of the chart names no image")
    return head + key + image.encode() + b"\n" + tail.partition(b"\n")[2]


def _repack(path: Path, epoch_s: int) -> None:
    """Write a tar.gz again, without the times, owners and order of the machine that made it."""
    with tarfile.open(path) as archive:
        entries = [
            Entry(member.name, content.read(), 0o755 if member.mode & 0o100 else 0o644)
            for member in archive.getmembers()
            if member.isfile() and (content := archive.extractfile(member)) is not None
        ]
    path.write_bytes(layer(entries, epoch_s, level=9).blob)


def _run(command: list[str], release: Release) -> str:
    """Run a program of the source, with what differs between machines fixed; return its output."""
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    environment |= {key: value for key, value in os.environ.items() if key.lower() in _PROXIES}
    environment |= {
        "PYTHONPATH": f"{release.source / 'hack'}:{release.source}",
        "SOURCE_DATE_EPOCH": str(release.epoch_s),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    done = subprocess.run(
        command,
        cwd=release.source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        output = (done.stderr or done.stdout)[-3000:].strip()
        raise ReleaseError(f"{' '.join(command[1:4])} failed:\n{output}")
    return done.stdout


_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "pip_index_url", "pip_config_file")
