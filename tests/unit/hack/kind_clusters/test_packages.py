"""What podman needs is installed with apt where that can be done, and nowhere else."""

from pathlib import Path

import pytest

from control_planes.errors import ControlPlanesError
from kind_clusters import packages

STATE = """
for name; do :; done
case "$name" in podman) printf installed ;; runc) printf config-files ;; *) exit 1 ;; esac
"""
APT = """
echo "$*" >>"$LOG"
case "$*" in *update*) touch "$LOG.updated" ;; *) [ -e "$LOG.updated" ] || exit 100 ;; esac
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a Debian whose lists of packages are not there yet; return what apt was told."""
    for name, script in (("dpkg-query", STATE), ("apt-get", APT)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    (tmp_path / "touch").symlink_to("/usr/bin/touch")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"ID": "debian"})
    (tmp_path / "log").write_text("")
    return tmp_path / "log"


def test_missing_is_what_dpkg_does_not_call_installed(log: Path) -> None:
    assert log.exists()
    assert packages.missing() == [name for name in packages.WANTED if name != "podman"]


def test_lists_are_updated_once_where_nothing_can_be_installed(log: Path) -> None:
    packages.install()
    first, update, second = log.read_text().splitlines()
    assert update.endswith(" update")
    assert first == second
    assert "--no-remove" in first
    assert first.endswith(" ".join(packages.missing()))


def test_failing_apt_is_reported(log: Path) -> None:
    (log.parent / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    with pytest.raises(ControlPlanesError, match="exit code 100"):
        packages.install()


@pytest.mark.parametrize(("user", "system"), [(1000, "debian"), (0, "fedora")])
def test_nothing_is_installed_by_others_or_elsewhere(
    log: Path, monkeypatch: pytest.MonkeyPatch, user: int, system: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"ID": system})
    with pytest.raises(ControlPlanesError, match="cannot install"):
        packages.install()
    assert log.read_text() == ""
