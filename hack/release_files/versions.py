"""The version of a release: where it is written, and how a new one is written there."""

import datetime as dt
import re
import tomllib
from pathlib import Path

VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(alpha|beta|rc)\.(0|[1-9]\d*))?", re.ASCII
)
"""Semantic versioning, with the pre-releases that Python's packages have, too."""
UNRELEASED = "Unreleased"
"""The section of the changelog for what is in no release yet."""
PLACES = {
    "pyproject.toml": r'^(version = ")[^"]+(")$',
    "Containerfile": r"^(ARG VERSION=)\S+( .*)$",
    "karmada_vc_agent/model/versions.py": r'^(OWN = ")[^"]+(")$',
    "manifests/chart/Chart.yaml": r"^((?:version|appVersion): )\S+()$",
}
"""File -> what surrounds the version there. All else is written by hack/update-manifests."""


class ReleaseError(Exception):
    """A release cannot be made; the message says what to do."""


def checked(version: str) -> str:
    """Return a version that is one; raise ReleaseError for any other."""
    if VERSION.fullmatch(version) is None:
        raise ReleaseError(f"{version!r} is no version such as 0.2.0 or 0.2.0-rc.1")
    return version


def of_source(root: Path) -> str:
    """Return the version that pyproject.toml has, written as semantic versioning has it."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def prepare(root: Path, version: str, date: dt.date) -> list[str]:
    """Write a version where it is written, and date the changelog; return the files that changed.

    Raises ReleaseError if a place is missing or nothing changed since the last release.
    """
    changed = {}
    for name, pattern in PLACES.items():
        text = (root / name).read_text()
        new, count = re.subn(pattern, rf"\g<1>{version}\g<2>", text, flags=re.MULTILINE)
        if count == 0:
            raise ReleaseError(f"{name} has no line with the version")
        changed[name] = new
    changed["CHANGELOG.md"] = _dated((root / "CHANGELOG.md").read_text(), version, date)
    for name, text in changed.items():
        (root / name).write_text(text)
    return list(changed)


def notes(changelog: str, version: str) -> str:
    """Return what the changelog says of a version. Raises ReleaseError if that is nothing."""
    head = re.escape(f"## [{version}]")
    match = re.search(rf"^{head}.*\n((?:(?!## \[).*\n)*)", changelog, re.MULTILINE)
    if match is None or not match[1].strip():
        raise ReleaseError(
            f"CHANGELOG.md says nothing about {version}; hack/release --prepare {version} dates "
            "what is unreleased"
        )
    return match[1].strip() + "\n"


def _dated(changelog: str, version: str, date: dt.date) -> str:
    if f"## [{version}]" in changelog:
        raise ReleaseError(f"CHANGELOG.md has a section [{version}] already")
    before, head, after = changelog.partition(f"## [{UNRELEASED}]\n")
    if not head or not after.partition("\n## [")[0].strip():
        raise ReleaseError("CHANGELOG.md has nothing below [Unreleased]")
    return f"{before}{head}\n## [{version}] - {date.isoformat()}\n{after}"
