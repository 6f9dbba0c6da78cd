"""Images made of programs that were built here, as archives that containerd imports."""

import platform as this_machine
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from kind_clusters.programs import KARMADA_COMPONENTS
from oci_image import archive
from oci_image.layers import Entry, layer
from oci_image.platforms import own_platform

FASTEST = 1
_ENVIRONMENT = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
_PLACES = {
    "coredns": "coredns",
    "pause": "pause",
    **dict.fromkeys(KARMADA_COMPONENTS, "bin/{}"),
}
"""Where a program lies in its image, if not in usr/local/bin."""


_IPTABLES = tuple(
    f"ip{version}tables{suffix}" for version in ("", "6") for suffix in ("", "-restore", "-save")
)


def below_proxy(root: Path) -> Iterator[Entry]:
    """Yield what is below kube-proxy: an extracted system, whose alternatives nobody chose."""
    yield from tar_entries(root)
    for name in _IPTABLES:
        yield Entry(f"usr/sbin/{name}", link="xtables-nft-multi")


def program_of(image: str) -> str:
    """Return the program of an image: `coredns` for `registry.k8s.io/coredns/coredns:v1`."""
    return image.rpartition("/")[2].partition(":")[0]


def file_name(image: str) -> str:
    """Return the name of the archive of an image."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", image) + ".tar"


def write(image: str, program: Path, directory: Path, below: Iterable[Entry] = ()) -> Path:
    """Write an image of one program. below: what else is in it."""
    place = _PLACES.get(program.name, "usr/local/bin/{}").format(program.name)
    made = layer([*below, Entry(place, program.read_bytes(), 0o755)], 0, FASTEST)
    run = {"Entrypoint": [f"/{place}"], "Env": _ENVIRONMENT, "WorkingDir": "/"}
    own = own_platform(this_machine.machine())
    path = directory / file_name(image)
    archive.write(archive.Image(image, own, [(made, program.name)], run, 0), path)
    return path


def tar_entries(path: Path) -> Iterator[Entry]:
    """Yield the files, directories and links of a tar archive."""
    with tarfile.open(path) as found:
        for member in found:
            name = member.name.removeprefix("./").strip("/")
            if not name or name == ".":
                continue
            if member.isdir():
                yield Entry(name, mode=member.mode, is_directory=True)
            elif member.issym():
                yield Entry(name, link=member.linkname)
            elif member.isfile() or member.islnk():
                content = found.extractfile(member)
                yield Entry(name, content.read() if content else b"", member.mode)
