"""Layers of an image: tar archives that are the same whenever they are made of the same."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a directory or a symbolic link; name: without a leading slash."""

    name: str
    content: bytes = b""
    mode: int = 0o644
    link: str = ""
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """A compressed layer. diff_id: digest of the tar archive itself."""

    blob: bytes
    diff_id: str


def layer(entries: Iterable[Entry], epoch_s: int, level: int = 6) -> Layer:
    """Return the layer of these entries, sorted by name; all belong to root.

    epoch_s: Unix time that every entry has. level: how hard gzip tries. Of two entries of a name
    the last one counts.
    """
    by_name = {entry.name: entry for entry in _with_parents(entries)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(by_name):
            _add(archive, by_name[name], epoch_s)
    content = buffer.getvalue()
    return Layer(gzip.compress(content, level, mtime=0), digest(content))


def digest(content: bytes) -> str:
    """Return a digest as OCI writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def directory_entries(directory: Path, below: str) -> Iterator[Entry]:
    """Yield what lies in a directory, as it is to lie in `below`."""
    for path in sorted(directory.rglob("*")):
        name = f"{below}/{path.relative_to(directory)}"
        if path.is_symlink():
            yield Entry(name, link=str(path.readlink()))
        elif path.is_dir():
            yield Entry(name, mode=0o755, is_directory=True)
        else:
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            yield Entry(name, path.read_bytes(), mode)


def _with_parents(entries: Iterable[Entry]) -> Iterator[Entry]:
    known: set[str] = set()
    for entry in entries:
        parts = entry.name.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            if parent not in known:
                known.add(parent)
                yield Entry(parent, mode=0o755, is_directory=True)
        if not (entry.is_directory and entry.name in known):
            known.add(entry.name)
            yield entry


def _add(archive: tarfile.TarFile, entry: Entry, epoch_s: int) -> None:
    member = tarfile.TarInfo(entry.name)
    member.mtime, member.mode = epoch_s, entry.mode
    if entry.is_directory:
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    elif entry.link:
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.link, 0o777
        archive.addfile(member)
    else:
        member.size = len(entry.content)
        archive.addfile(member, io.BytesIO(entry.content))
