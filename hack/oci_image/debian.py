"""Python out of Debian packages, fetched by apt and never installed.

apt checks the signature of the archive and the hash of each package, in a directory of its own; so
packages of other architectures than this machine's will do.
"""

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from oci_image.layers import Entry
from oci_image.platforms import ImageError, Platform

SUITE = "bookworm"
PYTHON = "3.11"
"""The Python of SUITE."""
LIBRARY = f"usr/lib/python{PYTHON}"
PACKAGES = (
    "base-files",
    "ca-certificates",
    "libbz2-1.0",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    f"libpython{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    f"python{PYTHON}-minimal",
    "tzdata",
    "zlib1g",
)
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_MERGED = ("bin", "lib", "lib64", "sbin")
"""Directories of the root that lead into usr."""
_LEFT_OUT = re.compile(
    r"usr/share/(man|locale|lintian|info|bug|menu|doc-base|doc/[^/]+/(?!copyright))"
    r"|usr/share/zoneinfo/(right|posix)/|etc/(update-motd\.d|cron|apt|dpkg)|.*/__pycache__/"
)
_CERTIFICATES = "usr/share/ca-certificates/mozilla/"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, slots=True)
class Package:
    """A package that was fetched. control: its control file."""

    name: str
    version: str
    architecture: str
    path: Path
    control: str


def fetch(platform: Platform, directory: Path, mirror: str = MIRROR) -> list[Package]:
    """Fetch the packages for a platform. Raises ImageError."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise ImageError(
                f"{program} is missing: without podman and docker, images are made of Debian "
                "packages; install one of the three"
            )
    configuration = _configure(platform, directory, mirror)
    packages = directory / "packages"
    packages.mkdir()
    _apt(configuration, directory, "update")
    _apt(configuration, packages, "download", *PACKAGES)
    found = [_package(path) for path in sorted(packages.glob("*.deb"))]
    if missing := set(PACKAGES) - {package.name for package in found}:
        raise ImageError(f"apt did not fetch {', '.join(sorted(missing))}")
    return found


def root(packages: list[Package]) -> Iterator[Entry]:
    """Yield what the root file system has of these packages, and what their scripts would add."""
    for name in _MERGED:
        yield Entry(name, link=f"usr/{name}")
    certificates: list[bytes] = []
    for package in packages:
        yield Entry(f"var/lib/dpkg/status.d/{package.name}", package.control.encode())
        for entry in _entries(package):
            if entry.name.startswith(_CERTIFICATES) and entry.content:
                certificates.append(entry.content)
            yield entry
    yield Entry(BUNDLE, b"".join(certificates))
    yield Entry("usr/lib/ssl/cert.pem", link=f"/{BUNDLE}")
    yield Entry("etc/passwd", b"root:x:0:0::/root:\nagent:x:65532:65532::/:\n")
    yield Entry("etc/group", b"root:x:0:\nagent:x:65532:\n")
    yield Entry("etc/nsswitch.conf", b"hosts: files dns\n")
    yield Entry("tmp", mode=0o1777, is_directory=True)
    yield Entry("usr/bin/python3", link=f"python{PYTHON}")


def _configure(platform: Platform, directory: Path, mirror: str) -> Path:
    for name in ("state/lists/partial", "cache/archives/partial", "etc"):
        (directory / name).mkdir(parents=True)
    (directory / "status").write_text("")
    sources = directory / "etc" / "sources.list"
    options = f"arch={platform.debian} signed-by={KEYRING}"
    suites = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
    lines = (
        f"deb [{options}] {mirror}{'-security' * suite.endswith('-security')} {suite} main\n"
        for suite in suites
    )
    sources.write_text("".join(lines))
    settings = {
        "APT::Architecture": platform.debian,
        "APT::Architectures": platform.debian,
        "APT::Get::List-Cleanup": "false",
        "Acquire::Languages": "none",
        "Dir": str(directory),
        "Dir::State": str(directory / "state"),
        "Dir::State::status": str(directory / "status"),
        "Dir::Cache": str(directory / "cache"),
        "Dir::Etc": str(directory / "etc"),
        "Dir::Etc::sourcelist": str(sources),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::trusted": KEYRING,
        "APT::Sandbox::User": "",
    }
    path = directory / "apt.conf"
    path.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    return path


def _apt(configuration: Path, directory: Path, *arguments: str) -> None:
    environment = os.environ | {"APT_CONFIG": str(configuration)}
    done = subprocess.run(
        ["apt-get", "-qq", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ImageError(f"apt-get {arguments[0]} failed:\n{done.stderr.strip()}")


def _package(path: Path) -> Package:
    control = subprocess.run(
        ["dpkg-deb", "--field", path], capture_output=True, text=True, check=True
    ).stdout
    fields = dict(re.findall(r"^(\w+): (.*)$", control, re.MULTILINE))
    return Package(fields["Package"], fields["Version"], fields["Architecture"], path, control)


def _entries(package: Package) -> Iterator[Entry]:
    content = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", package.path], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        for member in archive:
            name = merged(member.name)
            if not name or name in _MERGED or _LEFT_OUT.match(name):
                continue
            if member.isdir():
                yield Entry(name, mode=member.mode, is_directory=True)
            elif member.issym():
                yield Entry(name, link=member.linkname)
            elif member.islnk():
                source = archive.extractfile(archive.getmember(member.linkname))
                yield Entry(name, source.read() if source else b"", member.mode)
            elif member.isfile():
                source = archive.extractfile(member)
                yield Entry(name, source.read() if source else b"", member.mode)


def merged(path: str) -> str:
    """Return a path of a package as it is in a root whose bin, lib and sbin lead into usr."""
    parts = PurePosixPath(path).parts
    parts = tuple(part for part in parts if part not in (".", "/"))
    if len(parts) > 1 and parts[0] in _MERGED:
        parts = ("usr", *parts)
    return "/".join(parts)
