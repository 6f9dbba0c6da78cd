"""Writes requirements/: of constraints.txt, what the agent's image and its build need.

The dependencies of what is installed beside this decide; hashes and versions are those of the pins.
"""

import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
FOLDER = ROOT / "requirements"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
_HEAD = "# {what}; `hack/update-constraints` writes it from constraints.txt.\n"


def files() -> dict[Path, str]:
    """Return the text of each file that is written."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        FOLDER / "agent.txt": _text("What the agent needs", project["project"]["dependencies"]),
        FOLDER / "build.txt": _text("What its build needs", project["build-system"]["requires"]),
    }


def pins() -> dict[str, str]:
    """Return name -> its lines in constraints.txt, with all hashes."""
    found: dict[str, str] = {}
    name = ""
    for line in CONSTRAINTS.read_text().splitlines(keepends=True):
        if line.startswith("#"):
            continue
        if not line[0].isspace():
            name = canonicalize_name(line.partition("==")[0])
        found[name] = found.get(name, "") + line
    return found


def closure(asked: Iterable[str]) -> set[str]:
    """Return the names of all that these requirements need on the Pythons and machines of ours.

    Raises PackageNotFoundError where something that is needed is not installed.
    """
    needed: set[str] = set()
    waiting = [Requirement(text) for text in asked]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in needed or not _is_wanted(requirement):
            continue
        needed.add(name)
        waiting += map(Requirement, metadata.requires(name) or ())
    return needed


def _is_wanted(requirement: Requirement) -> bool:
    if requirement.marker is None:
        return True
    return any(
        requirement.marker.evaluate(
            {
                "extra": "",
                "python_version": python,
                "python_full_version": f"{python}.1",
                "platform_machine": machine,
                "sys_platform": "linux",
                "platform_system": "Linux",
            }
        )
        for python in PYTHONS
        for machine in MACHINES
    )


def _text(what: str, asked: Iterable[str]) -> str:
    pinned = pins()
    return _HEAD.format(what=what) + "".join(pinned[name] for name in sorted(closure(asked)))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)
