"""The directory of kind clusters."""

from pathlib import Path

import pytest

from control_planes.errors import ControlPlanesError
from kind_clusters.directory import Directory


def made(root: Path) -> Directory:
    directory = Directory(root)
    directory.create()
    directory.link_programs({"kwok": Path("/kwok")})
    (root / "kwok-host.log").write_text("of hack/kind-e2e")
    return directory


def test_nothing_is_left_of_a_directory(tmp_path: Path) -> None:
    root = tmp_path / "kind"
    made(root).remove()
    assert not root.exists()


def test_file_of_another_owner_stays(tmp_path: Path) -> None:
    directory = made(tmp_path)
    (tmp_path / "notes").write_text("mine")
    directory.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    with pytest.raises(ControlPlanesError, match="name an empty directory"):
        directory.create()
