"""The version of a release, where it is written, and the notes of it."""

import datetime as dt
import shutil
from pathlib import Path

import pytest

from karmada_vc_agent.install.join import IMAGE
from release_files import versions
from release_files.versions import ReleaseError

ROOT = Path(__file__).parents[4]
DAY = dt.date(2030, 2, 1)
CHANGELOG = """# Changelog

## [Unreleased]

- New.

## [0.1.0] - 2029-01-01

### Added
- First.
"""


@pytest.mark.parametrize("version", ["0.1.0", "1.20.3", "2.0.0-rc.1", "1.0.0-alpha.0"])
def test_semantic_versions_are_accepted(version: str) -> None:
    assert versions.checked(version) == version


@pytest.mark.parametrize("version", ["", "1", "v1.0.0", "1.0", "01.0.0", "1.0.0-dev", "1.0.0+x"])
def test_other_texts_are_no_versions(version: str) -> None:
    with pytest.raises(ReleaseError, match="is no version such as"):
        versions.checked(version)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in versions.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_new_version_is_written_wherever_the_source_has_one(source: Path) -> None:
    names = versions.prepare(source, "7.8.9", DAY)
    assert sorted(names) == sorted(
        str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()
    )
    assert versions.of_source(source) == "7.8.9"
    assert "ARG VERSION=7.8.9 REVISION" in (source / "Containerfile").read_text()
    chart = (source / "manifests/chart/Chart.yaml").read_text()
    assert "\nversion: 7.8.9\nappVersion: 7.8.9\n" in chart


def test_what_was_unreleased_becomes_the_notes_of_the_version(source: Path) -> None:
    versions.prepare(source, "0.2.0", DAY)
    changelog = (source / "CHANGELOG.md").read_text()
    assert "## [Unreleased]\n\n## [0.2.0] - 2030-02-01\n\n- New.\n" in changelog
    assert versions.notes(changelog, "0.2.0") == "- New.\n"
    assert versions.notes(changelog, "0.1.0") == "### Added\n- First.\n"


def test_release_without_notes_is_refused(source: Path) -> None:
    with pytest.raises(ReleaseError, match=r"\[0.1.0\] already"):
        versions.prepare(source, "0.1.0", DAY)
    versions.prepare(source, "0.2.0", DAY)
    with pytest.raises(ReleaseError, match=r"nothing below \[Unreleased\]"):
        versions.prepare(source, "0.3.0", DAY)
    with pytest.raises(ReleaseError, match=r"--prepare 0\.4\.0"):
        versions.notes(CHANGELOG, "0.4.0")


def test_source_has_one_version() -> None:
    version = versions.of_source(ROOT)
    assert f"karmada-vc-agent:{version}" == IMAGE
    chart = (ROOT / "manifests/chart/Chart.yaml").read_text()
    assert chart.count(f"ersion: {version}\n") == 2
    assert f"ARG VERSION={version} " in (ROOT / "Containerfile").read_text()
