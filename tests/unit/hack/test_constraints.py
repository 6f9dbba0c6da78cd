"""Whatever pyproject.toml asks for is pinned in constraints.txt, with hashes and nothing else."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from generate.requirements import PYTHONS

ROOT = Path(__file__).parents[3]


def _requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    return [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(line for extra in extras for line in extra),
    ]


def _entries() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text().replace("\\\n", " ").splitlines()
    return [line for line in lines if not line.startswith("#")]


def _pinned(python: str) -> dict[str, str]:
    """Return name -> version of what is installed on Linux by one version of Python."""
    found: dict[str, str] = {}
    for entry in _entries():
        requirement = Requirement(entry.partition(" --hash")[0].strip())
        where = {"python_version": python, "python_full_version": f"{python}.1"}
        where |= {"sys_platform": "linux", "platform_system": "Linux"}
        if requirement.marker is None or requirement.marker.evaluate(where):
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            assert canonicalize_name(requirement.name) not in found
            found[canonicalize_name(requirement.name)] = pin.version
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_requirement_is_pinned(python: str) -> None:
    pinned = _pinned(python)
    assert len(list(_requirements())) > 5
    for asked in map(Requirement, _requirements()):
        version = pinned.get(canonicalize_name(asked.name), "0")
        assert asked.specifier.contains(version), f"{asked}: run hack/update-constraints --keep"


def test_every_pin_has_hashes_and_names_no_index() -> None:
    entries = _entries()
    assert len(entries) > 50
    form = re.compile(r"\S+==\S+( ; [^-]+?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    for entry in entries:
        assert form.fullmatch(entry), entry
